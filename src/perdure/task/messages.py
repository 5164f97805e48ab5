"""Write messages to the scheduler, each on a line of its own with one write where it fits.

A write of at most 4096 bytes to a pipe is never torn by another writer, so a long list of files is
told in several messages. What the scheduler would refuse is refused here, where the program's
author sees it: TypeError for a wrong type, ValueError for a value that no message can carry.

A message counts only at the beginning of a line: finish the line that you print before it. Where
something stands before every line (MPI launchers, log prefixes), `use_messages_file`.

Source: docs/checkpoint-extension.md, which has the limits.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable

_LINE_LIMIT_CHARACTERS = 64_000
_STATE_LIMIT_BYTES = 48 * 1024
_PATH_LIMIT_BYTES = 4096
_WRITE_LIMIT_BYTES = 4096
#: Room in a write for the message around its lists.
_AROUND_LISTS_BYTES = 100

_MESSAGES_VARIABLE = "PERDURE_MESSAGES"


class _Channel:
    """Where messages go, and how many saves went there."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.saves = 0
        self.to_file: str | None = None


_channel = _Channel()


def save(state: str | None = None, file: str | os.PathLike[str] | None = None) -> int:
    """Tell that the program can be resumed from here.

    The files declared by `files` so far belong to it. Write ``file`` under another name first and
    rename it, or wait for the save before (`wait_committed`) when there is only one.

    Args:
        state: what a resumed program gets back, at most 48 KiB.
        file: the checkpoint file, if there is one.

    Returns:
        The how-manieth save of this process it is, for `wait_committed`.
    """
    body: dict[str, object] = {}
    if state is not None:
        body["state"] = _checked_state(state)
    if file is not None:
        body["file"] = _absolute(file)
    with _channel.lock:
        _write(_line("openjd_checkpoint_save", body))
        _channel.saves += 1
        return _channel.saves


def files(
    *paths: str | os.PathLike[str],
    dirs: Iterable[str | os.PathLike[str]] = (),
    reset: bool = False,
) -> None:
    """Declare files and folders that are part of the output so far; later saves include them.

    Args:
        *paths: files.
        dirs: folders, with all that is in them.
        reset: these replace what was declared before; otherwise they are added to it.
    """
    listed = [("files", _absolute(path)) for path in paths]
    listed += [("dirs", _absolute(path)) for path in dirs]
    with _channel.lock:
        for body in _parts(listed, "RESET" if reset else "ACCUMULATE"):
            _write(_line("openjd_checkpoint_files", body))


def complete(parameter: str, value: int) -> None:
    """Tell that one value of the chunk is done: it never runs again.

    Declare its files with `files` before.

    Args:
        parameter: the name of the step's CHUNK[INT] parameter.
        value: of it.
    """
    if not isinstance(parameter, str):
        raise TypeError(f"the parameter's name must be a string, not {parameter!r}")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"the value of {parameter} must be an integer, not {value!r}")
    with _channel.lock:
        _write(_line("openjd_task_complete", {parameter: value}))


def resume_status(*, resumed: bool) -> None:
    """Tell, in a resumed run, whether the checkpoint was used or the program began again."""
    status = "RESUMED" if resumed else "DISCARDED"
    with _channel.lock:
        _write(_line("openjd_checkpoint_resume_status", {"status": status}))


def use_messages_file() -> bool:
    """Write messages to perdure's side channel from now on, not to the standard output.

    For programs whose output is prefixed, interleaved or buffered. Call it once, at the start.

    Returns:
        Whether there is a side channel; without perdure there is none.
    """
    with _channel.lock:
        _channel.to_file = os.environ.get(_MESSAGES_VARIABLE) or None
        return _channel.to_file is not None


def _checked_state(state: str) -> str:
    """``state``, if it can be an argument of the resumed program."""
    if not isinstance(state, str):
        raise TypeError(f"state must be a string, not {type(state).__name__}; json.dumps makes one")
    if "\0" in state:
        raise ValueError("state must not contain NUL: no argument can carry it")
    size = len(state.encode("utf-8"))  # UnicodeEncodeError, a ValueError, for a lone surrogate
    if size > _STATE_LIMIT_BYTES:
        raise ValueError(
            f"state has {size} bytes of at most {_STATE_LIMIT_BYTES}; write it to a file and give"
            " that as file"
        )
    return state


def _absolute(path: str | os.PathLike[str]) -> str:
    """``path`` as the scheduler takes it: absolute and without ``..``."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path must be text, not {text!r}")
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is no path")
    whole = os.path.join(os.getcwd(), text)  # noqa: PTH109, PTH118 - pathlib drops nothing useful
    if ".." in whole.replace(os.sep, "/").split("/"):
        # behind a link a/../b is not b: ask the file system
        folder, name = os.path.split(whole)
        folder, name = (whole, "") if name == ".." else (folder, name)
        whole = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
    if len(whole.encode("utf-8")) > _PATH_LIMIT_BYTES:
        raise ValueError(f"{text!r} has more than {_PATH_LIMIT_BYTES} bytes as an absolute path")
    return whole


def _parts(listed: list[tuple[str, str]], mode: str) -> list[dict[str, object]]:
    """The declaration in parts that each fit one write."""
    parts: list[dict[str, object]] = []
    lists: dict[str, list[str]] = {}
    used = 0
    for key, path in listed:
        size = len(json.dumps(path)) + 2
        if used and used + size > _WRITE_LIMIT_BYTES - _AROUND_LISTS_BYTES:
            parts.append({**lists, "mode": mode})
            lists, used, mode = {}, 0, "ACCUMULATE"
        lists.setdefault(key, []).append(path)
        used += size
    return [*parts, {**lists, "mode": mode}]


def _line(name: str, body: dict[str, object]) -> bytes:
    """One message as a line; in ASCII where that is short, whatever the output's encoding."""
    line = f"{name}: {json.dumps(body)}"
    if len(line) >= _WRITE_LIMIT_BYTES:
        shorter = f"{name}: {json.dumps(body, ensure_ascii=False)}"
        line = shorter if len(shorter) < len(line) else line
    if len(line) > _LINE_LIMIT_CHARACTERS:
        raise ValueError(
            f"the message has {len(line)} characters; a line has at most {_LINE_LIMIT_CHARACTERS}"
        )
    return line.encode("utf-8") + b"\n"


def _write(line: bytes) -> None:
    """Write ``line`` whole, behind everything printed so far."""
    if _channel.to_file is not None:
        descriptor = os.open(_channel.to_file, os.O_WRONLY | os.O_APPEND)
        try:
            _write_all(descriptor, line)
        finally:
            os.close(descriptor)
        return
    output = sys.stdout
    try:
        descriptor = output.fileno()
    except (AttributeError, OSError, ValueError):
        # captured or replaced: a notebook, a test, a console without a descriptor
        print(line.decode("utf-8"), end="", flush=True)  # noqa: T201 - this is its purpose
        return
    output.flush()
    _write_all(descriptor, line)


def _write_all(descriptor: int, line: bytes) -> None:
    """One write; more only where the system takes less at once."""
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]
