"""Delivering into a folder: staged beside, synced, read back, and named only if the name is free.

Theory of operation. Every folder on the way is opened without following links: what is a link or
no folder is a conflict, never a way. A file is written under a temporary name in its own folder,
synced, and read back around the page cache, where the file system can do that, before it gets its
name by `link()`, which refuses a name that exists. Only what an earlier delivery of this task put
there is replaced, by `rename()`, right after it was seen to be still the same file.

Temporary names (``.perdure-`` and 32 hex digits) tell the task and the attempt: a later attempt
removes those of earlier ones in the folders that it comes to. Nothing is read from them.

File systems without hard links: the name is looked at and then renamed to; somebody who makes a
file of that name in between loses it.

Threads: one, and two for large files. Memory: 12 MiB.

Source: openat(2), linkat(2), renameat(2), fsync(2), O_DIRECT in open(2); docs/decisions/116.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blake3 import blake3

from perdure.errors import (
    DeliveryConflict,
    HomeError,
    OutOfSpace,
    PerdureError,
    StoreDamaged,
    StoreUnavailable,
)
from perdure.store.delivery.delivery import Act, Whose, is_for_records
from perdure.store.delivery.delivery_target import Check, OpenSource, Source, reader_of
from perdure.store.delivery.sequential_digest import SequentialDigest
from perdure.store.drivers.posix_files import (
    NO_HARD_LINKS,
    Access,
    bypass_cache,
    make_folders,
    translated,
    write_all,
)
from perdure.store.files.gathering import OWN_PREFIX
from perdure.store.files.outside_decision import Content
from perdure.store.files.roots import Stamp, open_folder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OTHER_KIND = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR})
_HASH_DIGITS = 16
#: What is delivered is for others: as the umask says.
_ACCESS = Access(folder_mode=0o777, file_mode=0o666)


class FolderTarget:
    """A folder of this host, or of a file system that it shares.

    Args:
        folder: where; made when it is not there.
        whose: who delivers.
        check: see `SequentialDigest`.
    """

    def __init__(self, folder: Path, whose: Whose, check: Check) -> None:
        self.called = str(folder)
        self._base = Path(os.path.realpath(folder))
        self._whose = whose
        self._check = check
        self._digest = SequentialDigest(check)
        lineage = f"{whose.job}/{whose.folder}".encode()
        self._prefix = f"{OWN_PREFIX}{blake3(lineage).hexdigest()[:_HASH_DIGITS]}"
        self._seen: dict[str, Stamp] = {}
        self._staged: set[str] = set()
        self._made: set[str] = set()
        self._swept: set[str] = set()
        self._unsynced: set[str] = set()

    def open(self) -> None:
        """Make the folder."""
        with self._in_our_words(""):
            make_folders(self._base, _ACCESS)
            self._made.add("")

    def own_path(self, path: Path) -> str | None:
        """Its path in the folder, if it lies there."""
        return str(path.relative_to(self._base)) if path.is_relative_to(self._base) else None

    def size(self, path: str) -> int | None:
        """How many bytes the file has."""
        found = self._look(path)
        return None if found is None else found.st_size

    def _look(self, path: str) -> os.stat_result | None:
        folder, name = _split(path)
        with self._in_our_words(path):
            try:
                with open_folder(self._base, folder) as fd:
                    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                return None
        if not stat.S_ISREG(found.st_mode):
            raise self._in_the_way(path)
        return found

    def content(self, path: str, size: int) -> Content | None:
        """What it holds, read from the disk where that can be done."""
        folder, name = _split(path)
        with self._in_our_words(path):
            try:
                with open_folder(self._base, folder) as parent:
                    fd = os.open(name, _READ, dir_fd=parent)
            except FileNotFoundError:
                return None
            try:
                stamp = Stamp.of(os.fstat(fd))
                digest = self._read_back(fd, size) if stamp.size == size else None
                is_same = Stamp.of(os.fstat(fd)) == stamp
            finally:
                os.close(fd)
        if digest is None or not is_same:
            return None
        self._seen[path] = stamp
        return Content(size=size, digest=digest)

    def _read_back(self, fd: int, size: int) -> bytes | None:
        return self._digest.of(size, reader_of(fd, is_direct=bypass_cache(fd)))

    def stage(self, source: Source, *, is_wanted: bool) -> Content:
        """Read the source; where it is wanted, into a temporary file beside its place there."""
        with OpenSource(source) as opened:
            if is_wanted:
                digest = self._copy(source, opened)
            else:
                digest = opened.whole(self._digest.of(source.stamp.size, opened.read))
        return Content(size=source.stamp.size, digest=digest)

    def _copy(self, source: Source, opened: OpenSource) -> bytes:
        """Write, sync and read back a staged file; its digest."""
        folder, name = _split(self._staged_path(source.path))
        self._make_folder(folder)
        size = source.stamp.size
        with self._in_our_words(source.path), open_folder(self._base, folder) as parent:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            fd = os.open(name, _NEW, 0o600, dir_fd=parent)
            self._staged.add(source.path)
            try:
                digest = opened.whole(
                    self._digest.of(
                        size, opened.read, lambda start, data: write_all(fd, data, start)
                    )
                )
                os.fchmod(fd, source.mode & 0o777 | stat.S_IRUSR)
                os.utime(fd, ns=(source.stamp.mtime_ns, source.stamp.mtime_ns))
                os.fsync(fd)
            finally:
                os.close(fd)
            self._compare(parent, name, source.path, Content(size=size, digest=digest))
        return digest

    def _compare(self, parent: int, name: str, path: str, wanted: Content) -> None:
        """Read a staged file back."""
        fd = os.open(name, _READ, dir_fd=parent)
        try:
            found = self._read_back(fd, wanted.size)
        finally:
            os.close(fd)
        if found != wanted.digest:
            raise StoreDamaged(
                f"{self._shown(path)} is not what was written when it is read back",
                hint="Check the disk, and deliver to another one.",
                path=self._shown(path),
            )

    def publish(self, source: Source, wanted: Content, act: Act) -> bool:  # noqa: ARG002 - it was compared when it was staged
        """Give the staged file its name."""
        path = source.path
        folder, name = _split(path)
        staged = _split(self._staged_path(path))[1]
        with self._in_our_words(path), open_folder(self._base, folder) as parent:
            if act is Act.REPLACE:
                is_done = self._replace(parent, staged, name, self._seen[path])
            else:
                is_done = _create(parent, staged, name)
        if is_done:
            self._staged.discard(path)
            self._unsynced.add(folder)
        return is_done

    def _replace(self, parent: int, staged: str, name: str, seen: Stamp) -> bool:
        with suppress(FileNotFoundError):
            if Stamp.of(os.stat(name, dir_fd=parent, follow_symlinks=False)) != seen:
                return False
        os.rename(staged, name, src_dir_fd=parent, dst_dir_fd=parent)
        return True

    def finish(self) -> None:
        """Sync every folder that got a name."""
        for folder in sorted(self._unsynced):
            self._sync(folder)
        self._unsynced.clear()

    def drop(self) -> None:
        """Remove staged files."""
        for path in self._staged:
            folder, name = _split(self._staged_path(path))
            with suppress(OSError), open_folder(self._base, folder) as parent:
                os.unlink(name, dir_fd=parent)
        self._staged.clear()

    def get_record(self, path: str, limit: int) -> bytes | None:
        """A record."""
        found = self._look(path)
        if found is None or found.st_size > limit:
            return None
        folder, name = _split(path)
        with self._in_our_words(path), open_folder(self._base, folder) as parent:
            fd = os.open(name, _READ, dir_fd=parent)
            with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
                return file.read(limit)

    def put_record(self, path: str, data: bytes) -> None:
        """Write it beside, sync it, and rename it over what is there."""
        folder, name = _split(path)
        staged = _split(self._staged_path(path))[1]
        self._make_folder(folder)
        with self._in_our_words(path), open_folder(self._base, folder) as parent:
            with suppress(FileNotFoundError):
                os.unlink(staged, dir_fd=parent)
            fd = os.open(staged, _NEW, _ACCESS.file_mode, dir_fd=parent)
            try:
                write_all(fd, data, 0)
                os.fsync(fd)
            except BaseException:
                os.unlink(staged, dir_fd=parent)
                raise
            finally:
                os.close(fd)
            os.rename(staged, name, src_dir_fd=parent, dst_dir_fd=parent)
        self._unsynced.add(folder)
        self.finish()

    def remove_record(self, path: str) -> None:
        """Remove it, durably."""
        folder, name = _split(path)
        with self._in_our_words(path), suppress(FileNotFoundError):
            with open_folder(self._base, folder) as parent:
                os.unlink(name, dir_fd=parent)
            self._sync(folder)

    def _staged_path(self, path: str) -> str:
        """Where a file is staged, in its own folder."""
        folder, _name = _split(path)
        what = os.fsencode(f"{self._whose.attempt}/{path}")
        name = f"{self._prefix}{blake3(what).hexdigest()[:_HASH_DIGITS]}"
        return f"{folder}/{name}" if folder else name

    def _make_folder(self, folder: str) -> None:
        """Make a folder and those above it, unless they are there; sweep it once."""
        if folder not in self._made:
            above, name = _split(folder)
            self._make_folder(above)
            with self._in_our_words(folder), open_folder(self._base, above) as parent:
                with suppress(FileExistsError):
                    os.mkdir(name, _ACCESS.folder_mode, dir_fd=parent)
                    self._unsynced.add(above)
                if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                    raise self._in_the_way(folder)
            self._made.add(folder)
        if self._whose.attempt > 1 and folder not in self._swept:
            self._swept.add(folder)
            self._sweep(folder)

    def _sweep(self, folder: str) -> None:
        """Remove what this task's dead attempts staged in the folder."""
        with self._in_our_words(folder), self._readable(folder) as fd:
            for name in os.listdir(fd):  # noqa: PTH208 - of a descriptor
                if name.startswith(self._prefix):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=fd)

    def _sync(self, folder: str) -> None:
        with self._in_our_words(folder), self._readable(folder) as fd:
            os.fsync(fd)

    @contextmanager
    def _readable(self, folder: str) -> Iterator[int]:
        with open_folder(self._base, folder) as path_fd:
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path_fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def _shown(self, path: str) -> str:
        return f"{self.called.rstrip('/')}/{path}" if path else self.called

    def _in_the_way(self, path: str) -> DeliveryConflict:
        is_record = is_for_records(path)
        return DeliveryConflict(
            f"{self._shown(path)} {'must be a record of perdure' if is_record else 'is needed'},"
            " and it, or what leads there, is a link or of another kind",
            hint="Move it away, or use another --deliver folder.",
            path=self._shown(path),
        )

    @contextmanager
    def _in_our_words(self, path: str) -> Iterator[None]:
        """Whatever the file system says about ``path`` becomes an error of ours."""
        try:
            yield
        except OSError as error:
            if error.errno in _OTHER_KIND:
                raise self._in_the_way(path) from error
            shown = self._shown(path)
            doing = "write" if path else "make, or write to,"
            found = translated(error, doing, shown)
            if found is None:
                found = HomeError(f"cannot {doing} {shown}: {error.strerror}", path=shown)
            raise type(found)(found.message, hint=_cure(found), path=shown) from error


def _cure(error: PerdureError) -> str:
    """What to do about the target: what is said of a store would not help."""
    match error:
        case OutOfSpace():
            return "Free some space there, or name another --deliver folder."
        case StoreUnavailable():
            return error.hint
        case _:
            return "Name a --deliver folder that can be made and written to."


def _create(parent: int, staged: str, name: str) -> bool:
    """Give the file its name if that is free."""
    try:
        os.link(staged, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            return False
        os.rename(staged, name, src_dir_fd=parent, dst_dir_fd=parent)
        return True
    os.unlink(staged, dir_fd=parent)
    return True


def _split(path: str) -> tuple[str, str]:
    """The folder and the name."""
    folder, _slash, name = path.rpartition("/")
    return folder, name
