"""Read one line: a message, a malformed one, a prefixed one, or ordinary output. Never raises.

The stock messages have openjd-sessions' grammar: ``openjd_NAME: REST``, exactly one space,
something behind it, and a near miss of a message about a variable ends the action. Ours are
stricter inside (a JSON object without duplicate keys, exactly the right types) and more lenient
around (any white space behind the colon). ``null`` for ``state`` and ``file`` is the same as
leaving the key out.

Source: the RFC idea "task checkpointing"; openjd-sessions' ActionMonitoringFilter;
docs/checkpoint-extension.md.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from perdure.protocol.messages import (
    PATH_LIMIT_BYTES,
    STATE_LIMIT_BYTES,
    CheckpointFiles,
    CheckpointMessage,
    CheckpointSave,
    Ends,
    Env,
    Fail,
    FilesMode,
    LogLevel,
    Malformed,
    Message,
    Prefixed,
    Progress,
    RedactedEnv,
    ResumeReport,
    ResumeStatus,
    SessionRuntimeLoglevel,
    Status,
    StockMessage,
    TaskComplete,
    UnsetEnv,
)


class _Refused(Exception):
    """Why a message is malformed."""


_OURS = re.compile(rb"openjd_((?:checkpoint|task)_[a-z_]+)[ \t]*(.*)", re.DOTALL)
_STOCK = re.compile(
    "openjd_(progress|status|fail|env|redacted_env|unset_env|session_runtime_loglevel): (.+)$"
)
_NEAR_ENV = re.compile(r"(openjd_env|openjd_redacted_env|openjd_unset_env)(?::|\s|\Z)")
_PREFIXED = re.compile(
    rb"openjd_(?:checkpoint_files|checkpoint_save|checkpoint_resume_status|task_complete|progress"
    rb"|status|fail|env|redacted_env|unset_env):"
)
_SET_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*\Z")
_SET_JSON = re.compile(r'"[A-Za-z_][A-Za-z0-9_]*=.*\Z')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def decode(line: bytes) -> Message | Malformed | Prefixed | None:
    """What ``line`` (without its end) says; None for ordinary output. Never raises."""
    if line.startswith(b"openjd_"):
        read = _decode_ours(line) or _decode_stock(line)
        if read is not None:
            return read
    return _near_miss(line) or _prefixed(line)


def _decode_ours(line: bytes) -> CheckpointMessage | Malformed | None:
    """A checkpoint or task message at the beginning of the line."""
    match = _OURS.match(line)
    if match is None:
        return None
    name, rest = match[1].decode("ascii"), match[2]
    has_colon = line.startswith(b":", len("openjd_") + len(name))
    if not has_colon and rest and rest[:1] not in b":{":
        return None  # prose that begins with the word
    reason = f"a colon must follow: openjd_{name}: {{…}}"
    if name not in _READERS:
        known = ", ".join(f"openjd_{known}" for known in sorted(_READERS))
        reason = f"there is no such message; there are {known}"
    elif has_colon:
        return _read(name, rest[1:])
    return Malformed(name=f"openjd_{name}", reason=reason)


def _read(name: str, rest: bytes) -> CheckpointMessage | Malformed:
    """The message called ``name``, of which ``rest`` stands behind the colon."""
    try:
        return _READERS[name](rest)
    except _Refused as refused:
        return Malformed(name=f"openjd_{name}", reason=str(refused))


def _object(rest: bytes) -> dict[str, Any]:
    """The JSON object of a message."""
    try:
        value = json.loads(
            rest.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise _Refused(f"byte {error.start + 1} behind the colon is not UTF-8") from error
    except RecursionError as error:
        raise _Refused("it is nested too deeply") from error
    except ValueError as error:
        raise _Refused(f"what follows the colon is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _Refused(f"a JSON object is needed, not {_kind(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; the same key twice would hide one of its values."""
    built = dict(pairs)
    if len(built) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"the key {_shown(twice)} is there twice")
    return built


def _refuse_constant(text: str) -> Any:
    """NaN and Infinity are no JSON."""
    raise _Refused(f"{text} is no JSON")


def _read_files(rest: bytes) -> CheckpointMessage:
    body = _object(rest)
    mode = body.get("mode", FilesMode.ACCUMULATE.value)
    if mode not in ("ACCUMULATE", "RESET"):
        raise _Refused(f'"mode" must be "ACCUMULATE" or "RESET", not {_shown(mode)}')
    return CheckpointFiles(
        files=_paths(body, "files"),
        dirs=_paths(body, "dirs"),
        mode=FilesMode(mode),
        ignored=_unknown(body, "files", "dirs", "mode"),
    )


def _read_complete(rest: bytes) -> CheckpointMessage:
    body = _object(rest)
    if len(body) != 1:
        raise _Refused(f'exactly one key is needed, as in {{"Frame": 12}}, not {len(body)}')
    ((parameter, value),) = body.items()
    if type(value) is not int:
        raise _Refused(f"the value of {_shown(parameter)} must be an integer, not {_kind(value)}")
    return TaskComplete(parameter=_text(parameter, "the parameter's name"), value=value)


def _read_save(rest: bytes) -> CheckpointMessage:
    body = _object(rest) if rest.strip() else {}
    state, file = body.get("state"), body.get("file")
    if state is not None:
        size = len(_text(state, '"state"').encode("utf-8"))
        if size > STATE_LIMIT_BYTES:
            raise _Refused(
                f'"state" has {size} bytes of at most {STATE_LIMIT_BYTES}; write it to a file and'
                ' name that as "file"'
            )
    if file is not None:
        file = _path(file, '"file"')
    return CheckpointSave(state=state, file=file, ignored=_unknown(body, "state", "file"))


def _read_resume_status(rest: bytes) -> CheckpointMessage:
    body = _object(rest)
    status = body.get("status")
    if status not in ("RESUMED", "DISCARDED"):
        raise _Refused(f'"status" must be "RESUMED" or "DISCARDED", not {_shown(status)}')
    return ResumeStatus(status=ResumeReport(status), ignored=_unknown(body, "status"))


_READERS: dict[str, Callable[[bytes], CheckpointMessage]] = {
    "checkpoint_files": _read_files,
    "checkpoint_resume_status": _read_resume_status,
    "checkpoint_save": _read_save,
    "task_complete": _read_complete,
}


def _paths(body: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of paths; none when the key is not there."""
    value = body.get(key, [])
    if not isinstance(value, list):
        raise _Refused(f'"{key}" must be a list of paths, not {_kind(value)}')
    return tuple(_path(item, f'"{key}"[{index}]') for index, item in enumerate(value))


def _path(value: Any, what: str) -> str:
    """An absolute path without ``..``, its doubled and trailing slashes and ``.`` removed."""
    text = _text(value, what)
    if not text.startswith("/"):
        raise _Refused(f"{what} must be an absolute path, not {_shown(text)}")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _Refused(f"{what} must be a path without '..', not {_shown(text)}")
    if len(text.encode("utf-8")) > PATH_LIMIT_BYTES:
        raise _Refused(f"{what} has more than {PATH_LIMIT_BYTES} bytes: {_shown(text)}")
    return "/" + "/".join(parts)


def _text(value: Any, what: str) -> str:
    """A string that can be an argument and a file's name: no NUL, no half of a character."""
    if not isinstance(value, str):
        raise _Refused(f"{what} must be a string, not {_kind(value)}")
    if "\0" in value:
        raise _Refused(f"{what} contains NUL, which no argument can carry")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _Refused(f"{what} has a lone surrogate at character {error.start + 1}") from error
    return value


def _unknown(body: dict[str, Any], *known: str) -> tuple[str, ...]:
    """Keys that this revision does not know, to be told."""
    return tuple(sorted(_shown(key)[1:-1] for key in body if key not in known))


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return "an integer"
        case float():
            return "a number with a fraction"
        case str():
            return f"the string {_shown(value)}"
        case list():
            return "a list"
        case _:
            return "an object"


def _shown(value: object) -> str:
    """A value as messages to people show it: ASCII, and never long."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"


def _decode_stock(line: bytes) -> StockMessage | Malformed | None:
    """A stock message, read as openjd-sessions reads it."""
    match = _STOCK.match(line.decode("utf-8", "backslashreplace"))
    if match is None:
        return None
    name, rest = match[1], match[2]
    try:
        return _STOCK_READERS[name](rest)
    except _Refused as refused:
        ends = Ends.ENVIRONMENT_ACTION if name.endswith("env") else Ends.NO_ACTION
        return Malformed(name=f"openjd_{name}", reason=str(refused), ends=ends)


def _read_progress(rest: str) -> StockMessage:
    try:
        percent = float(rest)
    except ValueError:
        percent = -1.0
    if not 0.0 <= percent <= 100.0:
        raise _Refused(f"progress is a number from 0 to 100, not {_shown(rest)}")
    return Progress(percent=percent)


def _assignment(rest: str) -> tuple[str, str]:
    """``NAME=VALUE``, or the same as a JSON string."""
    text = rest.lstrip()
    if _SET_PLAIN.match(text):
        name, _, value = text.partition("=")
        return name, value
    if not _SET_JSON.match(text):
        raise _Refused("NAME=VALUE is needed")
    try:
        read = json.loads(text)
    except ValueError as error:
        raise _Refused(f"the JSON string does not end as it should ({error})") from error
    name, _, value = str(read).partition("=")
    return name, value


def _read_env(rest: str) -> StockMessage:
    name, value = _assignment(rest)
    return Env(name=name, value=value)


def _read_redacted_env(rest: str) -> StockMessage:
    name, value = _assignment(rest)
    return RedactedEnv(name=name, value=value)


def _read_unset_env(rest: str) -> StockMessage:
    name = rest.lstrip()
    if not _NAME.match(name):
        raise _Refused("the name of a variable is needed")
    return UnsetEnv(name=name)


def _read_loglevel(rest: str) -> StockMessage:
    level = rest.upper().strip()
    if level not in LogLevel.__members__:
        raise _Refused(f"the level is one of {', '.join(LogLevel.__members__)}, not {_shown(rest)}")
    return SessionRuntimeLoglevel(level=LogLevel(level))


_STOCK_READERS: dict[str, Callable[[str], StockMessage]] = {
    "progress": _read_progress,
    "status": lambda rest: Status(text=rest),
    "fail": lambda rest: Fail(text=rest),
    "env": _read_env,
    "redacted_env": _read_redacted_env,
    "unset_env": _read_unset_env,
    "session_runtime_loglevel": _read_loglevel,
}


def _near_miss(line: bytes) -> Malformed | None:
    """A line that is nearly a message about a variable: openjd-sessions fails the action."""
    match = _NEAR_ENV.match(line.decode("utf-8", "backslashreplace").lstrip().lower())
    if match is None:
        return None
    reason = f"write {match[1]}: in lower case, at the beginning of the line, one space behind it"
    return Malformed(name=match[1], reason=reason, ends=Ends.ANY_ACTION)


def _prefixed(line: bytes) -> Prefixed | None:
    """A message that would be obeyed if it stood at the beginning of its line."""
    match = _PREFIXED.search(line, 1)
    if match is None:
        return None
    whole = line[match.start() :]
    read = _decode_ours(whole) or _decode_stock(whole)
    if read is None or isinstance(read, Malformed):
        return None
    prefix = line[: match.start()].decode("utf-8", "backslashreplace")
    return Prefixed(prefix=prefix, name=match[0][:-1].decode("ascii"))
