"""`scontrol checkpoint`: its words, its abbreviations, its texts."""

import pytest

from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.request_format import Request, is_checkpoint, parse_request


@pytest.mark.parametrize(
    ("words", "operation"),
    [
        ("a", "able"),
        ("ABLE", "able"),
        ("d", "disable"),
        ("en", "enable"),
        ("cr", "create"),
        ("Create", "create"),
        ("va", "vacate"),
        ("re", "restart"),
        ("rest", "restart"),
        ("req", "requeue"),
        ("requeue", "requeue"),
        ("er", "error"),
    ],
)
def test_operations_and_their_abbreviations(words, operation):
    assert parse_request([words, "12.3"]) == Request(operation=operation, job="12", step="3")


@pytest.mark.parametrize("word", ["", "e", "c", "v", "r", "createx", "complete", "x"])
def test_what_is_no_operation(word):
    with pytest.raises(OldTextError) as caught:
        parse_request([word, "12"])
    assert caught.value.text == f"Invalid checkpoint operation: {word}"


@pytest.mark.parametrize("name", ["", "x", "12.", "12.x", ".3", "12.3.4", "-1", "12_3", "\u0661"])
def test_what_is_no_id(name):
    with pytest.raises(OldTextError) as caught:
        parse_request(["create", name])
    assert caught.value.text == "Invalid job step name"


def test_values():
    found = parse_request(["create", "12", "maxwait=30", "ImageDir=/a=b"])
    assert found == Request(
        operation="create", job="12", step=None, image_dir="/a=b", wait_seconds=30
    )
    assert found.name == "12"
    assert parse_request(["restart", "12", "StickToNodes", "imagedir=d"]).sticks
    assert parse_request(["restart", "12", "STICK"]).sticks


@pytest.mark.parametrize(
    "words",
    [
        ["create", "12", "StickToNodes"],
        ["restart", "12", "MaxWait=5"],
        ["restart", "12", "stic"],
        ["create", "12", "MaxWait=x"],
        ["create", "12", "MaxWait=65536"],
        ["create", "12", "MaxWait=-1"],
        ["create", "12", "ImageDir"],
        ["vacate", "12", "other=1"],
    ],
)
def test_other_words_end_the_request(words):
    with pytest.raises(OldTextError) as caught:
        parse_request(words)
    assert caught.value.text == f"Invalid input: {words[-1]}\nRequest aborted"


def test_too_few_and_too_many_words():
    with pytest.raises(OldTextError, match="too few arguments"):
        parse_request(["create"])
    with pytest.raises(OldTextError, match="too many arguments"):
        parse_request(["create", "1", "a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("word", "answer"),
    [("checkpoint", True), ("ch", True), ("CHECK", True), ("c", False), ("show", False)],
)
def test_the_keyword(word, answer):
    assert is_checkpoint(word) is answer
