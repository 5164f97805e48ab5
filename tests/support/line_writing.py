"""Write one message as one line.

What is written is read back before it is given out, so a line that `decode` would refuse, or read
as something else, is never sent.
"""

import json
from typing import assert_never

from msgspec.structs import replace

from perdure.protocol.decoding import decode
from perdure.protocol.lines import LINE_LIMIT_CHARACTERS
from perdure.protocol.messages import (
    CheckpointFiles,
    CheckpointSave,
    Env,
    Fail,
    FilesMode,
    Malformed,
    Message,
    Progress,
    RedactedEnv,
    ResumeStatus,
    SessionRuntimeLoglevel,
    Status,
    TaskComplete,
    UnsetEnv,
)

#: Writes of at most this many bytes to a pipe are never torn by another writer (PIPE_BUF of Linux).
WRITE_LIMIT_BYTES = 4096


def encode(message: Message) -> str:
    """``message`` as one line, without its end.

    Raises:
        ValueError: no line within the limits says this.
    """
    line = f"openjd_{_spelled(message)}"
    if len(line) > LINE_LIMIT_CHARACTERS:
        msg = f"the message has {len(line)} characters; a line has at most {LINE_LIMIT_CHARACTERS}"
        raise ValueError(msg)
    read = decode(line.encode("utf-8"))
    if "\n" in line or "\r" in line or read != _as_sent(message):
        reason = (
            read.reason if isinstance(read, Malformed) else "it would be read as something else"
        )
        msg = f"{message} cannot be said in one line: {reason}"
        raise ValueError(msg)
    return line


def _as_sent(message: Message) -> Message:
    """``message`` without what tells of the line that it was read from."""
    match message:
        case CheckpointFiles() | CheckpointSave() | ResumeStatus():
            return replace(message, ignored=())
        case _:
            return message


def _spelled(message: Message) -> str:
    """What stands behind ``openjd_``."""
    match message:
        case CheckpointFiles(files=files, dirs=dirs, mode=mode):
            lists = {"files": list(files)} if files or not dirs else {}
            lists |= {"dirs": list(dirs)} if dirs else {}
            return f"checkpoint_files: {_json({**lists, 'mode': mode.value})}"
        case TaskComplete(parameter=parameter, value=value):
            return f"task_complete: {_json({parameter: value})}"
        case CheckpointSave(state=state, file=file):
            body = {"state": state, "file": file}
            return f"checkpoint_save: {_json({k: v for k, v in body.items() if v is not None})}"
        case ResumeStatus(status=status):
            return f"checkpoint_resume_status: {_json({'status': status.value})}"
        case Progress(percent=percent):
            return f"progress: {percent!r}"
        case Status(text=text):
            return f"status: {text}"
        case Fail(text=text):
            return f"fail: {text}"
        case Env(name=name, value=value):
            return f"env: {_spelled_assignment(name, value)}"
        case RedactedEnv(name=name, value=value):
            return f"redacted_env: {_spelled_assignment(name, value)}"
        case UnsetEnv(name=name):
            return f"unset_env: {name}"
        case SessionRuntimeLoglevel(level=level):
            return f"session_runtime_loglevel: {level.value}"
        case _:
            assert_never(message)


def _spelled_assignment(name: str, value: str) -> str:
    """``NAME=VALUE``; as a JSON string where the value has line ends."""
    text = f"{name}={value}"
    return _json(text) if "\n" in text or "\r" in text else text


def _json(value: object) -> str:
    """JSON on one line, each character as itself."""
    return json.dumps(value, ensure_ascii=False)


def split_files(message: CheckpointFiles) -> tuple[CheckpointFiles, ...]:
    """The same declaration in messages that each fit one untorn write, where a path allows it."""
    parts: list[CheckpointFiles] = []
    room = WRITE_LIMIT_BYTES - 100  # the message around the lists
    mode, used = message.mode, 0
    files: list[str] = []
    dirs: list[str] = []
    for target, path in [*((files, p) for p in message.files), *((dirs, p) for p in message.dirs)]:
        size = len(_json(path).encode("utf-8")) + 2
        if used and used + size > room:
            parts.append(CheckpointFiles(files=tuple(files), dirs=tuple(dirs), mode=mode))
            mode, used = FilesMode.ACCUMULATE, 0
            files.clear()
            dirs.clear()
        target.append(path)
        used += size
    return (*parts, CheckpointFiles(files=tuple(files), dirs=tuple(dirs), mode=mode))
