"""`bench/faults.py` says so when something is not found."""

import importlib.util
import sys
from pathlib import Path

import pytest

from support.killed_lives import NotPermitted

BENCH = Path(__file__).resolve().parents[3] / "bench" / "faults.py"


@pytest.fixture
def faults(monkeypatch):
    spec = importlib.util.spec_from_file_location("bench_faults", BENCH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_faults", module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(module)
    return module


def test_it_ends_with_0_where_everything_was_found(faults, monkeypatch, capsys):
    monkeypatch.setattr(faults, "KINDS", {"one": lambda how: f"tried with {how.seed}"})
    assert faults.main(["--seed", "5"]) == 0
    assert capsys.readouterr().out == "one: tried with 5\nseed 5: nothing was lost\n"


@pytest.mark.parametrize("error", [AssertionError("a mixture"), NotPermitted("no strace")])
def test_it_ends_with_1_where_not_and_tries_the_others(faults, monkeypatch, capsys, error):
    def failing(_how):
        raise error

    monkeypatch.setattr(faults, "KINDS", {"one": failing, "two": lambda _how: "fine"})
    assert faults.main([]) == 1
    said = capsys.readouterr().out
    assert str(error) in said
    assert "two: fine" in said


def test_a_harness_that_finds_something_is_heard(faults, monkeypatch, capsys):
    """The real harness, with a store whose saves are torn by nothing."""
    monkeypatch.setattr("perdure.store.files.gathering.Line.has_passed", lambda *_args: False)
    assert faults.main(["--quick", "in-place writers"]) == 1
    assert "in-place writers: FAILED" in capsys.readouterr().out
