"""What the POSIX driver needs of a file system: errors in our words, durable folders, kept room.

Modes are given at creation, so that no umask can make them wider and there is no moment in which
a file is open to others. In a store shared with a group a umask must not make them narrower either:
a folder is then made by a child process with a umask of its own (a process has one for all its
threads), and a file gets back what the umask took before it has its name. Folders are never changed
afterwards, and where a default ACL decides nothing is: setgid bits and ACLs stay what they are.

Source: fallocate(2), link(2), fsync(2), open(2), mkdir(2), umask(2), acl(5); docs/store-format.md
"Drivers"; docs/decisions/137.
"""

import ctypes
import errno
import fcntl
import os
import pwd
import secrets
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from perdure.errors import HomeError, OutOfSpace, PerdureError, StoreDamaged, StoreUnavailable
from perdure.store.drivers.driver import Piece

_DEFAULT_ACL = "system.posix_acl_default"
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: room behind the end, which stays where it is

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})
_AWAY = frozenset({errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN})
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# What is there, or is not: for the caller to decide about.
_ANSWERS = frozenset(
    {errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP}
)
#: To remove a job needs no room at all; to prune needs room for a record.
_FREE_SPACE = (
    "Free some space there: `perdure rm JOB` removes a job that is not needed any more"
    " (`perdure du` shows their sizes); `perdure prune` needs a little room itself."
)
#: What `link()` says on a file system that has no hard links.
NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Access(Struct, frozen=True, kw_only=True):
    """Who may use what is made in a store.

    Attributes:
        folder_mode: of new folders; they inherit a setgid bit.
        file_mode: of new files.
        is_shared: whether these modes hold whatever the umask says.
    """

    folder_mode: int
    file_mode: int
    is_shared: bool = False


#: Only the owner.
PRIVATE = Access(folder_mode=0o700, file_mode=0o600)
#: The owner and the group of the store's folder (``--share group``), which is setgid: new folders
#: inherit both.
GROUP = Access(folder_mode=0o770, file_mode=0o660, is_shared=True)


class in_our_words:  # noqa: N801 - used like a function
    """Turn what the file system says while ``doing`` something into an error of ours.

    ``FileNotFoundError``, ``FileExistsError`` and the like pass through: they are answers.
    """

    __slots__ = ("_doing", "_path")

    # A class, because a generator takes longer than the call that it is around.
    def __init__(self, doing: str, path: Path | str) -> None:
        self._doing = doing
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            ours = translated(error, self._doing, self._path)
            if ours is not None:
                raise ours from error


def ours_for(error: OSError, doing: str, path: Path) -> Exception:
    """The error of ours for ``error``, or ``error`` itself if it is an answer."""
    return translated(error, doing, path) or error


def translated(error: OSError, doing: str, path: Path | str) -> PerdureError | None:
    """The error of ours that says what ``error`` means for the store; None if it is an answer."""
    if error.errno in _ANSWERS:
        return None
    why = f"cannot {doing} {path}: {os.strerror(error.errno or 0)}"
    if error.errno in _FULL:
        return OutOfSpace(
            why,
            hint=_FREE_SPACE,
            path=str(path),
        )
    if error.errno == errno.EROFS:
        return HomeError(
            f"{why} (it is mounted read-only, or its disk has made it so)",
            hint="Mount it for writing, or use --store with another place.",
            path=str(path),
        )
    if error.errno in _FORBIDDEN:
        return HomeError(
            why + whose(Path(path)),
            hint="Use --store with a place of your own, or run as its owner.",
            path=str(path),
        )
    if error.errno == errno.EIO:
        return StoreDamaged(
            why,
            hint="The disk reports errors: check it, then run `perdure verify`.",
            path=str(path),
        )
    if error.errno in _AWAY:
        return StoreUnavailable(
            why,
            hint="The file system does not answer: see that it is there, then do the same again.",
            path=str(path),
        )
    if error.errno in _TOO_MANY:
        return StoreUnavailable(
            why, hint="This host has no room for one more: see `ulimit -n`.", path=str(path)
        )
    # Whatever else a kernel may say: nobody above this module knows what to do about it.
    return StoreUnavailable(
        why, hint="See the system's log, then do the same again.", path=str(path)
    )


def whose(path: Path) -> str:
    """`` (it belongs to NAME)`` for the nearest part of ``path`` that can be looked at, or ""."""
    for part in (path, *path.parents):
        with suppress(OSError):
            return f" ({part} belongs to {owner_name(part.stat().st_uid)})"
    return ""


def owner_name(user_id: int) -> str:
    """The user's name, or ``user N`` when this host does not know it."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"


def write_all(fd: int, piece: Piece, start: int) -> None:
    """Write all of ``piece`` at ``start``, however little the kernel takes at once."""
    rest = memoryview(piece).cast("B")
    while rest:
        written = os.pwrite(fd, rest, start)
        rest = rest[written:]
        start += written


def fill(fd: int, start: int, buffer: memoryview) -> int:
    """Read until the buffer is full or the file ends; how many bytes that were.

    Of a file that is read around the page cache too, until its file system refuses that.
    """
    got = 0
    while got < buffer.nbytes:
        try:
            count = os.preadv(fd, [buffer[got:]], start + got)
        except OSError as error:
            if error.errno != errno.EINVAL or not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
                raise
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT)
            continue
        if not count:
            break
        got += count
    return got


def bypass_cache(fd: int) -> bool:
    """Set O_DIRECT; whether the file system takes it."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError:
        return False
    return True


def create_file(path: Path, access: Access) -> int:
    """A new file, open for writing, with the modes of ``access``."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, access.file_mode)
    if access.is_shared:
        made = stat.S_IMODE(os.fstat(fd).st_mode)
        if made != access.file_mode and not _has_default_acl(path.parent):
            os.fchmod(fd, access.file_mode)
    return fd


def _has_default_acl(folder: Path) -> bool:
    """Whether an ACL, and no umask, decides the modes of what is made in there."""
    try:
        return bool(os.getxattr(folder, _DEFAULT_ACL))
    except OSError:
        return False


def sync_file(path: Path) -> None:
    """Make durable what is in the file; nothing to do where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(folder: Path, access: Access) -> None:
    """Make ``folder`` and what is missing above it, durably.

    One that somebody else is just making is synced too: its maker may die before it does that.
    """
    if folder.is_dir():
        return
    make_folders(folder.parent, access)
    with suppress(FileExistsError):
        if access.is_shared and _umask() & access.folder_mode:
            _make_with_umask(folder, 0o777 & ~access.folder_mode)
        else:
            folder.mkdir(access.folder_mode)
    sync_folder(folder.parent)


def make_shared_root(root: Path) -> None:
    """Make the setgid folder of a store for a group, durably; its parent is there.

    The kernel sets that bit at creation only where the parent has it: where it has not, the folder
    is made in one that has, and then moved to its place.
    """
    if root.parent.stat().st_mode & stat.S_ISGID:
        make_folders(root, GROUP)
        return
    stage = root.with_name(f".tmp-{secrets.token_hex(8)}")
    stage.mkdir(0o700)
    try:
        stage.chmod(0o2700)
        make_folders(stage / root.name, GROUP)
        with suppress(FileExistsError):
            (stage / root.name).rename(root)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:  # somebody else has just made it
            raise
    finally:
        with suppress(OSError):
            (stage / root.name).rmdir()
        with suppress(OSError):
            stage.rmdir()
    sync_folder(root.parent)


def _umask() -> int:
    """This process's umask, without changing it; all of it where the kernel does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o777


def _make_with_umask(folder: Path, umask: int) -> None:
    """Make a folder by a child with that umask.

    Raises:
        OSError: as mkdir(2) would.
        HomeError: it could not be made, and nobody can tell why.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    said = ""
    try:
        done = subprocess.run(
            ["mkdir", "--", folder],
            umask=umask,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        said = done.stderr.decode("utf-8", "replace").strip()
    except FileNotFoundError:
        said = "there is no program `mkdir`"
    if not said and folder.is_dir():
        return
    for number in (errno.EEXIST, errno.ENOENT, *_FULL, *_FORBIDDEN, *_AWAY, errno.EIO):
        if said.endswith(os.strerror(number)):
            raise OSError(number, os.strerror(number), str(folder))
    raise HomeError(
        f"cannot make {folder} for the group: {said or 'it is not there'}",
        hint="Run perdure with a umask that leaves the group its rights: umask 007.",
        path=str(folder),
    )


def remove_empty_folders(folder: Path, top: Path) -> None:
    """Remove ``folder`` and those above it, below ``top``, as far as nothing is in them."""
    while folder != top and top in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def keep_room(fd: int, start: int, length: int) -> bool:
    """Give the file room on the disk, behind its end or in a hole, without moving its end.

    Returns:
        False where the file system cannot do that.

    Raises:
        OSError: there is no room.
    """
    fallocate = _fallocate()
    if fallocate is None:
        return False
    if fallocate(fd, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _FULL:
        raise OSError(number, os.strerror(number))
    return False


@cache
def _fallocate() -> Callable[..., int] | None:
    function: Callable[..., int] | None = getattr(
        ctypes.CDLL(None, use_errno=True), "fallocate64", None
    )
    return function


def is_open_to_all(mode: int) -> bool:
    """Whether anybody may put things into a folder of that mode."""
    return bool(mode & stat.S_IWOTH)
