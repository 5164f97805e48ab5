"""Every row of the grammar: what is a message, what is malformed and why, what is ordinary."""

import json

import pytest

from perdure.protocol import (
    CheckpointFiles,
    CheckpointSave,
    Ends,
    Env,
    Fail,
    FilesMode,
    LogLevel,
    Malformed,
    Prefixed,
    Progress,
    RedactedEnv,
    ResumeReport,
    ResumeStatus,
    SessionRuntimeLoglevel,
    Status,
    TaskComplete,
    UnsetEnv,
    decode,
)
from perdure.protocol.messages import PATH_LIMIT_BYTES, STATE_LIMIT_BYTES
from support.line_writing import WRITE_LIMIT_BYTES, encode, split_files

#: Verbatim from the source text.
RFC_FILES = (
    b'openjd_checkpoint_files: {"files": ["/var/session-abc123/output/partial.exr"], "dirs": '
    b'["/var/session-abc123/scratch/restart/"], "mode": "ACCUMULATE"}'
)
RFC_SAVE = (
    b'openjd_checkpoint_save: {"state": "3,2,3", "file":'
    b' "/var/session-abc123/scratch/checkpoint.rman"}'
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            RFC_FILES,
            CheckpointFiles(
                files=("/var/session-abc123/output/partial.exr",),
                dirs=("/var/session-abc123/scratch/restart",),
            ),
        ),
        (
            RFC_SAVE,
            CheckpointSave(state="3,2,3", file="/var/session-abc123/scratch/checkpoint.rman"),
        ),
        (b'openjd_task_complete: {"Frame": 12}', TaskComplete(parameter="Frame", value=12)),
        (
            b'openjd_checkpoint_resume_status: {"status": "RESUMED"}',
            ResumeStatus(status=ResumeReport.RESUMED),
        ),
        (
            b'openjd_checkpoint_resume_status: {"status": "DISCARDED"}',
            ResumeStatus(status=ResumeReport.DISCARDED),
        ),
        (b"openjd_checkpoint_save:", CheckpointSave()),
        (b"openjd_checkpoint_save: ", CheckpointSave()),
        (b"openjd_checkpoint_save: {}", CheckpointSave()),
        (b"openjd_checkpoint_save:{}", CheckpointSave()),
        (b'openjd_checkpoint_save: \t{"state":""} ', CheckpointSave(state="")),
        (b'openjd_checkpoint_save: {"state":null,"file":null}', CheckpointSave()),
        (b'openjd_checkpoint_save: {"n": 1}', CheckpointSave(ignored=("n",))),
        (b"openjd_checkpoint_files: {}", CheckpointFiles()),
        (b'openjd_checkpoint_files: {"mode":"RESET"}', CheckpointFiles(mode=FilesMode.RESET)),
        (b'openjd_checkpoint_files: {"files":["/a//b/./c/"]}', CheckpointFiles(files=("/a/b/c",))),
        (b'openjd_task_complete: {"Frame": -3}', TaskComplete(parameter="Frame", value=-3)),
        (b"openjd_progress: 50", Progress(percent=50.0)),
        (b"openjd_progress:  1e2", Progress(percent=100.0)),
        (b"openjd_status: rendering \xff", Status(text="rendering \\xff")),
        (b"openjd_fail: no licence", Fail(text="no licence")),
        (b"openjd_env: A=b=c", Env(name="A", value="b=c")),
        (b"openjd_env:  A=", Env(name="A", value="")),
        (b'openjd_env: "A=1\\n2"', Env(name="A", value="1\n2")),
        (b"openjd_redacted_env: P=s", RedactedEnv(name="P", value="s")),
        (b"openjd_unset_env: A", UnsetEnv(name="A")),
        (b"openjd_session_runtime_loglevel: error", SessionRuntimeLoglevel(level=LogLevel.ERROR)),
    ],
)
def test_well_formed(line, message):
    assert decode(line) == message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"openjd_checkpoint_save: x", "not JSON"),
        (b'openjd_checkpoint_save: {"state": "3,2', "not JSON"),
        (b"openjd_checkpoint_save: {} {}", "not JSON"),
        (b"openjd_checkpoint_save: []", "a JSON object is needed, not a list"),
        (b"openjd_checkpoint_save: null", "not null"),
        (b'openjd_checkpoint_save: "3,2,3"', "not the string '3,2,3'"),
        (b'openjd_checkpoint_save: {"state": 3}', '"state" must be a string, not an integer'),
        (b'openjd_checkpoint_save: {"state": {"n": 3}}', "not an object"),
        (b'openjd_checkpoint_save: {"state": true}', "not true"),
        (b'openjd_checkpoint_save: {"state": "a", "state": "b"}', "'state' is there twice"),
        (b'openjd_checkpoint_save: {"x": {"y": 1, "y": 2}}', "'y' is there twice"),
        (b'openjd_checkpoint_save: {"state": "a\\u0000b"}', "contains NUL"),
        (b'openjd_checkpoint_save: {"state": "a\\ud800"}', "lone surrogate at character 2"),
        (b'openjd_checkpoint_save: {"state": "\xff"}', "byte 13 behind the colon is not UTF-8"),
        (b'openjd_checkpoint_save: {"state": NaN}', "NaN is no JSON"),
        (b'openjd_checkpoint_save: {"file": "a/b"}', '"file" must be an absolute path'),
        (b'openjd_checkpoint_save: {"file": ""}', '"file" must be an absolute path'),
        (b'openjd_checkpoint_save: {"file": "C:\\\\a"}', '"file" must be an absolute path'),
        (b'openjd_checkpoint_save: {"file": "/a/../b"}', "without '..'"),
        (b"openjd_checkpoint_save: " + b"[" * 30_000, "nested too deeply"),
        (b'openjd_checkpoint_save: {"a": ' + b"1" * 5_000 + b"}", "not JSON"),
        (b"openjd_checkpoint_save", "a colon must follow"),
        (b"openjd_checkpoint_save {}", "a colon must follow"),
        (b"openjd_checkpoint_save : {}", "a colon must follow"),
        (b"openjd_checkpoint_saved: {}", "there is no such message"),
        (b"openjd_checkpoint_files:", "not JSON"),
        (b'openjd_checkpoint_files: {"files": "/a"}', '"files" must be a list of paths'),
        (b'openjd_checkpoint_files: {"dirs": null}', '"dirs" must be a list of paths, not null'),
        (b'openjd_checkpoint_files: {"files": ["/a", 1]}', '"files"[1] must be a string'),
        (b'openjd_checkpoint_files: {"files": ["/a\\u0000"]}', "contains NUL"),
        (b'openjd_checkpoint_files: {"mode": "reset"}', "not 'reset'"),
        (b'openjd_checkpoint_files: {"mode": ["RESET"]}', '"mode" must be'),
        (b"openjd_task_complete: {}", "exactly one key is needed"),
        (b'openjd_task_complete: {"a": 1, "b": 2}', "not 2"),
        (b'openjd_task_complete: {"a": "1"}', "must be an integer, not the string '1'"),
        (b'openjd_task_complete: {"a": 1.0}', "not a number with a fraction"),
        (b'openjd_task_complete: {"a": true}', "not true"),
        (b"openjd_checkpoint_resume_status: {}", "not None"),
        (b'openjd_checkpoint_resume_status: {"status": "resumed"}', "not 'resumed'"),
        (b'openjd_checkpoint_resume_status: {"status": []}', '"status" must be'),
        (b"openjd_progress: 101", "from 0 to 100"),
        (b"openjd_progress: nan", "from 0 to 100"),
        (b"openjd_progress: half", "from 0 to 100"),
        (b"openjd_session_runtime_loglevel: LOUD", "one of DEBUG"),
    ],
)
def test_malformed_says_why_and_ends_nothing(line, reason):
    read = decode(line)
    assert isinstance(read, Malformed)
    assert reason in read.reason
    assert read.ends is Ends.NO_ACTION


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        (b"openjd_env: A", Ends.ENVIRONMENT_ACTION),
        (b"openjd_env: 1A=b", Ends.ENVIRONMENT_ACTION),
        (b'openjd_env: "A=b', Ends.ENVIRONMENT_ACTION),
        (b"openjd_redacted_env: A", Ends.ENVIRONMENT_ACTION),
        (b"openjd_unset_env: A=b", Ends.ENVIRONMENT_ACTION),
        (b"openjd_env:A=b", Ends.ANY_ACTION),
        (b"openjd_env A=b", Ends.ANY_ACTION),
        (b"openjd_env", Ends.ANY_ACTION),
        (b"  openjd_env: A=b", Ends.ANY_ACTION),
        (b"OPENJD_UNSET_ENV: A", Ends.ANY_ACTION),
    ],
)
def test_malformed_variables_end_the_action_as_openjd_sessions_ends_it(line, ends):
    read = decode(line)
    assert isinstance(read, Malformed)
    assert read.ends is ends


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"openjd_",
        b"openjd_environment: ready",
        b"openjd_env_setup: done",
        b"openjd_progress:50",
        b"openjd_status: ",
        b"openjd_unknown: 1",
        b"openjd_checkpoint_save is what I print next",
        b"OPENJD_CHECKPOINT_SAVE: {}",
        b"I print openjd_checkpoint_save: to save",
        b"+ echo 'openjd_checkpoint_save: {}'",
        b"\xff\xfe\x00",
    ],
)
def test_ordinary_output(line):
    assert decode(line) is None


@pytest.mark.parametrize(
    ("line", "prefix", "name"),
    [
        (b"[rank0]: openjd_checkpoint_save: {}", "[rank0]: ", "openjd_checkpoint_save"),
        (b" openjd_checkpoint_save: {}", " ", "openjd_checkpoint_save"),
        (b'0: openjd_task_complete: {"F": 1}', "0: ", "openjd_task_complete"),
        (b"50%openjd_progress: 5", "50%", "openjd_progress"),
    ],
)
def test_a_message_behind_a_prefix_is_not_obeyed_and_told_with_its_cure(line, prefix, name):
    read = decode(line)
    assert read == Prefixed(prefix=prefix, name=name)
    assert name in read.cure
    assert "PERDURE_MESSAGES" in read.cure


def test_the_limits_of_state_and_paths_are_exact():
    def save(**body):
        return decode(b"openjd_checkpoint_save: " + json.dumps(body, ensure_ascii=False).encode())

    euros = "€" * (STATE_LIMIT_BYTES // 3)
    assert save(state=euros) == CheckpointSave(state=euros)
    assert isinstance(save(state=euros + "a"), Malformed)
    path = "/" + "p" * (PATH_LIMIT_BYTES - 1)
    assert save(file=path) == CheckpointSave(file=path)
    assert isinstance(save(file=path + "p"), Malformed)


def test_a_secret_is_not_in_the_text_of_its_message():
    assert "hunter2" not in repr(decode(b"openjd_redacted_env: P=hunter2"))


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (CheckpointSave(), "openjd_checkpoint_save: {}"),
        (CheckpointSave(state="3,2,3"), 'openjd_checkpoint_save: {"state": "3,2,3"}'),
        (CheckpointSave(ignored=("n",)), "openjd_checkpoint_save: {}"),
        (TaskComplete(parameter="Frame", value=12), 'openjd_task_complete: {"Frame": 12}'),
        (Env(name="A", value="1\n2"), 'openjd_env: "A=1\\n2"'),
        (Progress(percent=50), "openjd_progress: 50"),
        (UnsetEnv(name="A"), "openjd_unset_env: A"),
        (SessionRuntimeLoglevel(level=LogLevel.INFO), "openjd_session_runtime_loglevel: INFO"),
    ],
)
def test_encoded_as_the_source_text_writes_it(message, line):
    assert encode(message) == line


@pytest.mark.parametrize(
    "message",
    [
        Status(text="two\nlines"),
        Status(text=""),
        Env(name="not a name", value=""),
        CheckpointSave(state="\0"),
        CheckpointSave(state="\ud800"),
        CheckpointSave(state="x" * (STATE_LIMIT_BYTES + 1)),
        CheckpointSave(state="\x01" * 20_000),
        CheckpointSave(file="relative"),
        Progress(percent=101),
        UnsetEnv(name=""),
    ],
)
def test_what_no_line_can_say_is_refused_by_the_writer(message):
    with pytest.raises(ValueError, match=r"."):
        encode(message)


def test_a_long_declaration_is_split_into_untorn_writes_that_mean_the_same():
    files = tuple(f"/out/frame-{n:06d}.exr" for n in range(1_000))
    dirs = tuple(f"/dir/{n}" for n in range(300))
    parts = split_files(CheckpointFiles(files=files, dirs=dirs, mode=FilesMode.RESET))
    assert len(parts) > 5
    assert all(len(encode(part).encode()) < WRITE_LIMIT_BYTES for part in parts)
    assert [part.mode for part in parts] == [
        FilesMode.RESET,
        *[FilesMode.ACCUMULATE] * (len(parts) - 1),
    ]
    assert sum((part.files for part in parts), ()) == files
    assert sum((part.dirs for part in parts), ()) == dirs


def test_one_long_path_still_goes_out_whole():
    path = "/" + "p" * (PATH_LIMIT_BYTES - 1)
    assert split_files(CheckpointFiles(files=(path,))) == (CheckpointFiles(files=(path,)),)
