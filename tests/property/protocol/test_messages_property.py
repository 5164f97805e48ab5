"""decode never raises; what encode writes, decode reads back."""

import json

from hypothesis import given
from hypothesis import strategies as st

from perdure.protocol import (
    AttemptMessages,
    CheckpointFiles,
    CheckpointSave,
    DatasetFold,
    Env,
    FilesMode,
    Line,
    Malformed,
    Prefixed,
    Progress,
    RedactedEnv,
    ResumeReport,
    ResumeStatus,
    Status,
    TaskComplete,
    UnsetEnv,
    decode,
)
from support.line_writing import encode, split_files

NAMES = st.sampled_from(
    [
        b"checkpoint_files",
        b"checkpoint_save",
        b"checkpoint_resume_status",
        b"task_complete",
        b"progress",
        b"status",
        b"fail",
        b"env",
        b"redacted_env",
        b"unset_env",
        b"session_runtime_loglevel",
        b"checkpoint_x",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["state", "file", "files", "dirs", "mode", "status", "Frame"])
            | st.text(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
RESTS = st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode())
LINES = st.binary(max_size=200) | st.tuples(
    st.sampled_from([b"", b" ", b"[r0]: ", b"OPENJD_"]),
    NAMES,
    st.sampled_from([b": ", b":", b"", b" : "]),
    RESTS,
).map(lambda parts: parts[0] + b"openjd_" + b"".join(parts[1:]))

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
SEGMENT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=8
).filter(lambda segment: segment not in (".", ".."))
PATHS = st.lists(SEGMENT, max_size=4).map(lambda parts: "/" + "/".join(parts))
PATH_LISTS = st.lists(PATHS, max_size=4).map(tuple)
FILES = st.builds(
    CheckpointFiles, files=PATH_LISTS, dirs=PATH_LISTS, mode=st.sampled_from(FilesMode)
)
ONE_LINE = TEXTS.filter(lambda text: text and "\n" not in text and "\r" not in text)
MESSAGES = st.one_of(
    FILES,
    st.builds(TaskComplete, parameter=TEXTS, value=st.integers()),
    st.builds(CheckpointSave, state=st.none() | TEXTS, file=st.none() | PATHS),
    st.builds(ResumeStatus, status=st.sampled_from(ResumeReport)),
    st.builds(Progress, percent=st.floats(0, 100)),
    st.builds(Status, text=ONE_LINE),
    st.builds(Env, name=NAME, value=TEXTS),
    st.builds(RedactedEnv, name=NAME, value=TEXTS),
    st.builds(UnsetEnv, name=NAME),
)


@given(LINES)
def test_decode_never_raises_and_its_reasons_are_short(line):
    read = decode(line)
    if isinstance(read, Malformed):
        assert 0 < len(read.reason) < 400
        assert "\n" not in read.reason
    if isinstance(read, Prefixed):
        assert line.startswith(read.prefix.encode()[:1])


@given(MESSAGES)
def test_what_is_written_is_read_back(message):
    line = encode(message)
    assert "\n" not in line
    assert "\r" not in line
    assert decode(line.encode()) == message


@given(st.lists(LINES, max_size=30), st.booleans())
def test_the_fold_never_raises(lines, is_resume):
    messages = AttemptMessages(is_resume=is_resume)
    saves = [
        event
        for number, line in enumerate(lines, 1)
        for event in messages.handle(Line(number, line))
        if getattr(event, "n", None) or getattr(event, "save", None)
    ]
    numbers = [getattr(event, "n", None) or event.save for event in saves]
    assert numbers == list(range(1, messages.saves + 1))


@given(st.lists(FILES, max_size=8))
def test_the_dataset_is_what_was_declared_since_the_last_reset(declarations):
    fold = DatasetFold()
    files: list[str] = []
    dirs: list[str] = []
    for number, message in enumerate(declarations, 1):
        if message.mode is FilesMode.RESET:
            files, dirs = [], []
        files += [path for path in dict.fromkeys(message.files) if path not in files]
        dirs += [path for path in dict.fromkeys(message.dirs) if path not in dirs]
        fold.declare(message, line_number=number)
        assert (fold.dataset.files, fold.dataset.dirs) == (tuple(files), tuple(dirs))


@given(FILES)
def test_a_split_declaration_folds_to_the_same_dataset(message):
    whole, parts = DatasetFold(), DatasetFold()
    whole.declare(message, line_number=1)
    for part in split_files(message):
        parts.declare(part, line_number=1)
    assert parts.dataset == whole.dataset
