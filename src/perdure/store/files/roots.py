"""Where a job's files may lie, and how they are opened without being led elsewhere.

Roots come from the job (the session folder, PATH parameters, the work folder, ``--allow-root``),
never from a message or a manifest. A path is placed below a root once, by its folder's real path;
from then on it is opened component by component from that root, and no component may be a link.
So a link that is swapped in between leads to a refusal, never out of the root.

Rules: only regular files, folders and links are looked at; a pipe or a device is never opened,
because opening alone may block or do something.

Source: openat(2), O_NOFOLLOW and O_PATH in open(2); design decision in docs/decisions/046.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Self

from msgspec import Struct

from perdure.errors import SaveRefused
from perdure.store.manifests.entry_paths import PATH_LIMIT_BYTES, stays_inside
from perdure.store.manifests.manifest import SESSION_ROOT, Root, RootKind, above

_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Stamp(Struct, frozen=True, gc=False):
    """What says which version of a file this is."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        """The stamp in what `os.stat` found."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


# What a stat says of a path that leads to nothing.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def stamp_of(path: str) -> Stamp | None:
    """The stamp of what is at ``path``, a link followed: what is read later is known by its inode.

    None: nothing is there.

    Raises:
        OSError: it cannot be looked at, which does not mean that nothing is there.
    """
    try:
        return Stamp.of(os.stat(path))  # noqa: PTH116 - half the time of Path
    except ValueError:
        return None
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise


class Place(Struct, frozen=True, kw_only=True, gc=False):
    """A path below a root.

    Attributes:
        root: as a manifest names it.
        base: the folder from which it is opened; no part of the path above it is checked.
        path: relative to ``base`` and to the root; "" for the root itself.
    """

    root: Root
    base: Path
    path: str

    def __hash__(self) -> int:  # a third of the time of hashing all of it
        return hash(self.path)

    @property
    def shown(self) -> str:
        """The path for people, and by which a lineage knows its outside files."""
        return self.root.shown(self.path) or "the session folder"

    @property
    def absolute(self) -> Path:
        """Where it is on this host."""
        return self.base / self.path if self.path else self.base

    @property
    def where(self) -> str:
        """The same as text, a fraction of the time."""
        return f"{self.base}/{self.path}" if self.path else str(self.base)

    def parents(self) -> Iterator["Place"]:
        """The folders of the path that this is in, below the root."""
        for path in above(self.path):
            yield Place(root=self.root, base=self.base, path=path)

    def top(self) -> "Place":
        """The root itself."""
        return Place(root=self.root, base=self.base, path="")

    def below(self, name: str) -> "Place":
        """The place of ``name`` in this folder."""
        path = f"{self.path}/{name}" if self.path else name
        return Place(root=self.root, base=self.base, path=path)


class _Allowed(Struct, frozen=True):
    """One root: as it is named, where it really is, and from where it is opened."""

    root: Root
    base: Path
    prefix: str
    real: str


class Roots:
    """The roots of one job on this host.

    Args:
        session: the session folder, which exists.
        outside: files and folders that the job may use, absolute; they need not exist.
    """

    def __init__(self, session: Path, outside: tuple[Path, ...] = ()) -> None:
        self.session = Path(os.path.realpath(session))
        allowed = [_Allowed(SESSION_ROOT, self.session, "", str(self.session))]
        for path in outside:
            real = Path(os.path.realpath(path))
            root = Root(kind=RootKind.OUTSIDE, path=str(path.parent))
            allowed.append(_Allowed(root, real.parent, real.name, str(real)))
        # The nearest root wins; the session folder before an equal one.
        self._allowed = sorted(allowed, key=lambda one: -len(one.real))

    def place(self, path: str) -> Place:
        """The place of an absolute ``path``.

        Raises:
            SaveRefused: it lies outside of all roots, or a link leads there.
        """
        if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise SaveRefused(
                f"{path!r} is no absolute path without '..'",
                hint="Declare absolute paths.",
                path=path,
            )
        if len(os.fsencode(path)) > PATH_LIMIT_BYTES:
            raise SaveRefused(f"a path is longer than {PATH_LIMIT_BYTES} bytes: {path[:80]}…")
        plain = PurePosixPath("/", path.lstrip("/"))
        real = Path(os.path.realpath(plain.parent), plain.name)
        for one in self._allowed:
            below = _relative(str(real), one.real)
            if below is not None:
                joined = "/".join(part for part in (one.prefix, below) if part)
                return Place(root=one.root, base=one.base, path=joined)
        raise SaveRefused(
            f"{path} lies outside of the job's folders",
            hint=f"If the job may use it, say so: --allow-root {plain.parent}",
            path=path,
        )

    def below_root(self, place: Place) -> str:
        """The path of an outside place below the nearest root; its name, where it is one itself."""
        path = str(place.absolute)
        for one in self._allowed:
            below = _relative(path, one.real) if one.root.kind is place.root.kind else None
            if below is not None:
                return below or one.prefix
        raise AssertionError(path)  # whatever made it a place found a root

    def find(self, root: Root, path: str) -> Place | None:
        """The place of a manifest's path on this host; None where this job may not go."""
        if root.kind is RootKind.SESSION:
            return Place(root=root, base=self.session, path=path)
        try:
            return self.place(root.shown(path))
        except SaveRefused:
            return None

    def link_on_the_way(self, root: Root, path: str) -> str | None:
        """The first link that a manifest's outside path leads through below its root; None: none.

        There was none when it was saved. A folder that the job names may itself have become one.
        """
        reached = os.path.realpath(root.path)
        for name in path.split("/")[:-1]:
            reached = f"{reached}/{name}"
            if os.path.islink(reached):  # noqa: PTH114 - for each entry of a restore
                real = os.path.realpath(reached)
                if all(one.real != real for one in self._allowed):
                    return reached
                reached = real
        return None


def _relative(path: str, root: str) -> str | None:
    """``path`` relative to ``root``; "" for itself, None if it is not below."""
    if path == root:
        return ""
    start = root if root.endswith("/") else f"{root}/"
    return path[len(start) :] if path.startswith(start) else None


@contextmanager
def open_folder(base: Path, path: str) -> Iterator[int]:
    """A descriptor of the folder ``path`` below ``base``, for use as ``dir_fd``.

    Raises:
        OSError: it is not there, or a component is no folder (a link, say).
    """
    fd = _open_folder(base, path)
    try:
        yield fd
    finally:
        os.close(fd)


def _open_folder(base: Path, path: str) -> int:
    fd = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.split("/") if path else ():
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def open_parent(place: Place) -> Iterator[tuple[int, str]]:
    """The folder that ``place`` is in, as a descriptor, and its name there."""
    folder, _slash, name = place.path.rpartition("/")
    with open_folder(place.base, folder) as fd:
        yield fd, name or "."


def look(place: Place) -> os.stat_result | None:
    """What lies at ``place``, not following a link; None if nothing does.

    What is reached only through a link that was put into the path since counts as nothing.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        with open_parent(place) as (fd, name):
            return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


class OpenFolders:
    """The folder of the place that was asked for last, kept open for the next one in it.

    For one thread, and a short time: a folder that is renamed meanwhile stays the one it was.
    """

    def __init__(self) -> None:
        self._base: Path | None = None
        self._folder = ""
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def parent(self, place: Place) -> tuple[int, str]:
        """The folder that ``place`` is in, as a descriptor, and its name there.

        Raises:
            OSError: it is not there, or a component is no folder.
        """
        folder, _slash, name = place.path.rpartition("/")
        return self.folder(place.base, folder), name or "."

    def folder(self, base: Path, path: str) -> int:
        """The folder at ``path`` below ``base``, as a descriptor; raises as `parent` does."""
        if self._fd < 0 or path != self._folder or base is not self._base:
            self.close()
            self._fd = _open_folder(base, path)
            self._base, self._folder = base, path
        return self._fd

    def open(self, place: Place) -> int:
        """What was a regular file when it was looked at, open for reading; the caller closes it.

        Whoever put something else there since finds it opened, and not read: the caller compares
        device and inode. Opening a pipe does not block.
        """
        path, _slash, name = place.path.rpartition("/")  # as `parent`, which is another call
        return os.open(name or ".", _READ_FLAGS, dir_fd=self.folder(place.base, path))

    def close(self) -> None:
        """Close the folder."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_regular_fd(place: Place, folders: OpenFolders | None = None) -> int:
    """The regular file at ``place``, open for reading; the caller closes it.

    Args:
        place: where.
        folders: for consecutive places in one folder.

    Raises:
        SaveRefused: it is something else.
        OSError: it is not there, or cannot be read.
    """
    with ExitStack() as stack:
        folder, name = (folders or stack.enter_context(OpenFolders())).parent(place)
        # Looked at first: opening a device may do something.
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise not_regular(place)
        fd = os.open(name, _READ_FLAGS, dir_fd=folder)
    try:
        is_regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    if not is_regular:
        os.close(fd)
        raise not_regular(place)
    return fd


@contextmanager
def open_regular(place: Place) -> Iterator[int]:
    """The regular file at ``place``, open for reading; raises as `open_regular_fd` does."""
    fd = open_regular_fd(place)
    try:
        yield fd
    finally:
        os.close(fd)


def not_regular(place: Place) -> SaveRefused:
    """The error for what is no file, folder or link."""
    return SaveRefused(
        f"{place.shown} is no regular file",
        hint="Declare files and folders only; pipes, sockets and devices cannot be saved.",
        path=place.shown,
    )


def walk(place: Place, *, limit: int) -> Iterator[tuple[Place, os.stat_result]]:
    """All that lies below the folder ``place``, folders before what is in them, in order.

    What vanishes meanwhile is left out.

    Raises:
        SaveRefused: there are more than ``limit`` things below it.
    """
    waiting = [place]
    left = limit
    while waiting:
        found = sorted(_entries(waiting.pop(), left, place), key=lambda item: item[0].path)
        left -= len(found)
        yield from found
        waiting.extend(below for below, about in reversed(found) if stat.S_ISDIR(about.st_mode))


def _entries(folder: Place, limit: int, top: Place) -> list[tuple[Place, os.stat_result]]:
    """What is in one folder."""
    found: list[tuple[Place, os.stat_result]] = []
    try:
        with open_folder(folder.base, folder.path) as path_fd:
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path_fd)
    except (FileNotFoundError, NotADirectoryError):
        return found
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if len(found) >= limit:
                    raise SaveRefused(
                        f"more than a checkpoint may have lies below {top.shown}",
                        hint="Declare a smaller folder, or pack its files into one.",
                        path=top.shown,
                    )
                try:  # suppress() takes as long as the call
                    about = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append((folder.below(entry.name), about))
        return found
    finally:
        os.close(fd)


def link_target(place: Place, roots: Roots) -> str | None:
    """The link at ``place`` as text that holds wherever the root lies; None if it leads outside.

    An absolute target becomes a relative one. A target that leads through other links is taken as
    it is where that is safe (`stays_inside`), else as where it really leads.
    """
    with open_parent(place) as (fd, name):
        text = os.readlink(name, dir_fd=fd)
    folder = place.absolute.parent
    real = os.path.realpath(place.absolute)
    inside = _relative(real, str(place.base))
    if inside is None:
        return None
    if place.root.kind is RootKind.OUTSIDE and not _same_root(roots, real, place):
        return None
    if stays_inside(place.path, text):
        return text
    relative = os.path.relpath(real, folder)
    return relative if stays_inside(place.path, relative) else None


def _same_root(roots: Roots, real: str, place: Place) -> bool:
    """Whether a link's end is allowed, and by the root that the link itself is under."""
    try:
        return roots.place(real).root == place.root
    except SaveRefused:
        return False
