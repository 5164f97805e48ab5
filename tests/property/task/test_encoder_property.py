"""What the library writes, perdure's decoder reads as it was meant."""

import os

from hypothesis import given
from hypothesis import strategies as st

from perdure.protocol import CheckpointFiles, CheckpointSave, FilesMode, TaskComplete, decode
from perdure.task import messages

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
SEGMENT = TEXT.filter(lambda text: text not in ("", ".", "..") and "/" not in text)
PATHS = st.lists(SEGMENT, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


def sent(call):
    """The lines that a call writes."""
    lines = []
    real, messages._write = messages._write, lines.append
    try:
        call()
    finally:
        messages._write = real
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    return [decode(line[:-1]) for line in lines]


@given(st.none() | TEXT, st.none() | PATHS)
def test_saves(state, file):
    assert sent(lambda: messages.save(state, file)) == [CheckpointSave(state=state, file=file)]


@given(st.lists(PATHS, max_size=60), st.lists(PATHS, max_size=60), st.booleans())
def test_files(paths, dirs, reset):
    read = sent(lambda: messages.files(*paths, dirs=dirs, reset=reset))
    assert all(isinstance(message, CheckpointFiles) for message in read)
    assert sum((message.files for message in read), ()) == tuple(paths)
    assert sum((message.dirs for message in read), ()) == tuple(dirs)
    first = FilesMode.RESET if reset else FilesMode.ACCUMULATE
    assert [m.mode for m in read] == [first, *[FilesMode.ACCUMULATE] * (len(read) - 1)]


@given(TEXT, st.integers())
def test_values(parameter, value):
    wanted = TaskComplete(parameter=parameter, value=value)
    assert sent(lambda: messages.complete(parameter, value)) == [wanted]


@given(st.lists(st.sampled_from(["a", "..", ".", ""]), max_size=5).map("/".join))
def test_any_path_becomes_one_that_is_taken(text):
    if not text:
        return
    (read,) = sent(lambda: messages.files(text))
    assert os.path.realpath(read.files[0]) == os.path.realpath(text)
