"""Streams whose readers leave."""

import io
import os
import sys

import pytest

from perdure.cli.audience import Audience


@pytest.fixture
def pipe():
    """A reading end, and a stream for the other."""
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb") as reader, os.fdopen(writable, "wb") as end:
        yield reader, io.TextIOWrapper(end)


@pytest.fixture
def left():
    return []


@pytest.fixture
def audience(left):
    return Audience(left=lambda: left.append(True))


def test_a_reader_that_is_there_gets_everything(audience, left, pipe, monkeypatch):
    reader, stream = pipe
    monkeypatch.setattr(sys, "stdout", stream)
    audience.show(b"all of it")
    assert reader.read(9) == b"all of it"
    assert (audience.exit_code, left) == (0, [])


def test_one_that_left_is_told_once_and_harms_nothing_later(audience, left, pipe, monkeypatch):
    reader, stream = pipe
    monkeypatch.setattr(sys, "stdout", stream)
    reader.close()
    for _ in range(3):
        audience.show(b"to nobody")
    print("nor is this", flush=True)
    assert (audience.exit_code, left) == (141, [True])


def test_a_disk_that_does_not_take_it_is_no_broken_pipe(audience, left, monkeypatch):
    with os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb") as end:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(end))
        audience.tell("much")
        assert (audience.exit_code, left) == (7, [True])
        sys.stderr.detach()
