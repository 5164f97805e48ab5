"""Standing between the store and the kernel: every call that changes or reads files, seen first.

For the duration of a ``with`` block the functions of `os` are replaced by ones that ask a hook.
The hook is told which call it is and what it is about, and does the real call, or another thing.
Only what lies below the watched folders is seen: other threads of the test's process go on.

Rules: the hook may be called by several threads at once; nothing depends on which calls there are,
in which order, or by how many threads. ``fallocate`` is no function of `os`: the store reaches it
through ctypes, and that door is replaced likewise.

Source: the man pages of section 2; `perdure.store` names all its calls as attributes of `os`.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.store.drivers import posix_files

#: Calls by what their first arguments are; `rename` and `link` name two paths.
_BY_PATH = (
    "open",
    "mkdir",
    "rmdir",
    "unlink",
    "remove",
    "truncate",
    "scandir",
    "readlink",
    "statvfs",
)
_BY_TWO_PATHS = ("link", "rename", "replace")
_BY_DESCRIPTOR = (
    "close",
    "read",
    "readv",
    "pread",
    "preadv",
    "write",
    "writev",
    "pwrite",
    "pwritev",
    "fsync",
    "fdatasync",
    "fstatvfs",
    "ftruncate",
    "fchmod",
    "posix_fallocate",
    "copy_file_range",
    "sendfile",
)
_BY_EITHER = ("utime", "symlink", "stat", "lstat", "fstat")
NAMES = frozenset({*_BY_PATH, *_BY_TWO_PATHS, *_BY_DESCRIPTOR, *_BY_EITHER, "fallocate"})
#: Give bytes to a file.
WRITES = frozenset({"write", "writev", "pwrite", "pwritev"})
#: Take bytes from a file.
READS = frozenset({"read", "readv", "pread", "preadv"})
SYNCS = frozenset({"fsync", "fdatasync"})

_REAL: Mapping[str, Callable[..., Any]] = {
    name: getattr(os, name) for name in NAMES if hasattr(os, name)
}


@dataclass(frozen=True)
class Call:
    """One call on its way to the kernel.

    Attributes:
        name: of the function, ``fallocate`` included.
        paths: what it is about, absolute; of a descriptor what it was opened as is now called.
        args, kwargs: as they were given.
        real: does it.
    """

    name: str
    paths: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    real: Callable[[], Any] = lambda: None

    @property
    def makes_a_file(self) -> bool:
        """Whether it is an ``open`` that may create what it opens."""
        return self.name == "open" and bool(self.args[1] & os.O_CREAT)


Hook = Callable[[Call], Any]


@contextmanager
def watched(hook: Hook, *folders: Path) -> Iterator[None]:
    """Ask ``hook`` about every call that names something below ``folders``."""
    tops = tuple(str(folder.resolve()) for folder in folders)

    def is_watched(paths: tuple[str, ...]) -> bool:
        return any(path == top or path.startswith(f"{top}/") for path in paths for top in tops)

    def replacement(name: str) -> Callable[..., Any]:
        real = _REAL[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            paths = _paths(name, args, kwargs)
            if not is_watched(paths):
                return real(*args, **kwargs)
            return hook(Call(name, paths, args, kwargs, lambda: real(*args, **kwargs)))

        return call

    real_fallocate = posix_files._fallocate

    def fallocate(fd: int, *args: Any) -> int:
        function = real_fallocate()
        assert function is not None
        paths = (_path_of(fd),)
        if not is_watched(paths):
            return function(fd, *args)
        try:
            result: int = hook(
                Call("fallocate", paths, (fd, *args), {}, lambda: function(fd, *args))
            )
        except OSError as error:
            ctypes.set_errno(error.errno or 0)
            return -1
        return result

    for name in _REAL:
        setattr(os, name, replacement(name))
    posix_files._fallocate = lambda: fallocate  # type: ignore[assignment]
    try:
        yield
    finally:
        for name, function in _REAL.items():
            setattr(os, name, function)
        posix_files._fallocate = real_fallocate


def _paths(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """What a call is about."""
    if (
        name in _BY_DESCRIPTOR
        or name == "fstat"
        or (name in ("utime", "scandir", "stat") and isinstance(args[0] if args else ".", int))
    ):
        return (_path_of(args[0]),)
    if name in _BY_TWO_PATHS:
        return (
            _absolute(args[0], kwargs.get("src_dir_fd")),
            _absolute(args[1], kwargs.get("dst_dir_fd")),
        )
    if name == "symlink":
        return (_absolute(args[1], kwargs.get("dir_fd")),)
    return (_absolute(args[0] if args else ".", kwargs.get("dir_fd")),)


def _path_of(fd: int) -> str:
    try:
        return os.fsdecode(_REAL["readlink"](f"/proc/self/fd/{fd}")).removesuffix(" (deleted)")
    except OSError:
        return ""


def _absolute(path: Any, folder: int | None) -> str:
    text = os.fsdecode(path)
    if text.startswith("/"):
        return text
    base = _path_of(folder) if folder is not None else "/nowhere"
    return base if text == "." else f"{base}/{text}"
