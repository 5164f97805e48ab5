"""References and the names of checkpoint files."""

import json

import pytest

from perdure.cli.old_slurm.image_format import (
    BatchImage,
    Reference,
    decode_batch,
    decode_reference,
    encode_batch,
    encode_reference,
    image_name,
    split_name,
)

ONE = Reference(
    store="/s",
    job="01j",
    step=1,
    task="ab",
    sequence=7,
    content="c0",
    command=("a", "b c"),
    slurm="12.0",
    root="12",
    call=1,
)


def test_a_reference_there_and_back():
    assert decode_reference(encode_reference(ONE)) == ONE


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", b'{"perdure-image": 1}'])
def test_what_is_no_reference(data):
    assert decode_reference(data) is None


def test_a_later_format_is_not_read():
    described = json.loads(encode_reference(ONE)) | {"perdure-image": 2}
    assert decode_reference(json.dumps(described).encode()) is None


def test_names():
    assert image_name("12", None) == "12.ckpt"
    assert image_name("12", "0") == "12.0.ckpt"
    assert split_name("12.0.ckpt") == (12, 0)
    assert split_name("12.ckpt") is None
    assert split_name("x.ckpt") is None


def test_a_batch_job_there_and_back():
    batch = BatchImage(
        name="a.sh",
        script="#!/bin/sh\n",
        arguments=("x y",),
        options=("-n2",),
        folder="/f",
        checkpoint="5",
        checkpoint_dir="/d",
    )
    assert decode_batch(encode_batch(batch)) == batch
    assert decode_reference(encode_batch(batch)) is None
    assert decode_batch(encode_reference(ONE)) is None
