"""What a disk may hold after the power failed: a model of files, names and syncs. Pure.

A history is a row of operations as a program did them. After any prefix of it the power may fail.
What is on the disk then is what was synced, and of the rest anything:

- the bytes of a file are durable up to its last sync; each later write may be there wholly, not at
  all, or in some of its sectors of 512 bytes, and later ones without earlier ones;
- a change of its size likewise; what was never written reads as zeros;
- a name is durable once its folder was synced; before that each change of names (made, linked,
  renamed, removed) may be there or not, whole: a rename is never half there. In half of all states
  the changes of one folder are there in their order, as a journal of metadata has them, in the
  others in any selection; between folders there is never an order;
- a folder whose own name is not there takes everything below it along.

Source: fsync(2), rename(2), link(2); Pillai et al., "All File Systems Are Not Created Equal" (OSDI
2014) on what file systems do with what was not synced.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

SECTOR_BYTES = 512
ROOT = 0


@dataclass(frozen=True)
class Made:
    """A new file or folder ``node`` was given a name."""

    folder: int
    name: str
    node: int
    is_folder: bool = False


@dataclass(frozen=True)
class Linked:
    """An existing file was given one more name, or took a name over."""

    folder: int
    name: str
    node: int


@dataclass(frozen=True)
class Renamed:
    """A name became another one, whatever had that."""

    folder: int
    name: str
    to_folder: int
    to_name: str
    node: int


@dataclass(frozen=True)
class Removed:
    """A name is gone."""

    folder: int
    name: str


@dataclass(frozen=True)
class Written:
    """Bytes were given to a file."""

    node: int
    start: int
    data: bytes


@dataclass(frozen=True)
class Resized:
    """A file was cut or extended."""

    node: int
    size: int


@dataclass(frozen=True)
class Synced:
    """A file's bytes, or a folder's names, are durable."""

    node: int


@dataclass(frozen=True)
class Said:
    """The program told somebody: what it said must be true from here on."""

    what: str
    number: int


NameChange: TypeAlias = Made | Linked | Renamed | Removed
DataChange: TypeAlias = Written | Resized
Operation: TypeAlias = NameChange | DataChange | Synced | Said


@dataclass
class _File:
    """The bytes of one file that are durable, and what came after."""

    durable: bytes = b""
    pending: list[DataChange] = field(default_factory=list)


@dataclass
class _Folder:
    """The names in one folder that are durable."""

    durable: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What is on the disk when the power is back.

    Attributes:
        files: by path below the root.
        folders: paths, in order.
        said: the last number that was told, by what it is of.
    """

    files: Mapping[str, bytes]
    folders: tuple[str, ...]
    said: Mapping[str, int]


class Disk:
    """The disk after a prefix of a history."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._folders: dict[int, _Folder] = {ROOT: _Folder()}
        self._names: list[NameChange] = []
        self._said: dict[str, int] = {}

    def do(self, operation: Operation) -> None:
        """Let one operation happen."""
        match operation:
            case Made(node=node, is_folder=is_folder):
                if is_folder:
                    self._folders[node] = _Folder()
                else:
                    self._files[node] = _File()
                self._names.append(operation)
            case Linked() | Renamed() | Removed():
                self._names.append(operation)
            case Written(node=node) | Resized(node=node):
                self._files[node].pending.append(operation)
            case Synced(node=node):
                self._sync(node)
            case Said(what=what, number=number):
                self._said[what] = number

    def _sync(self, node: int) -> None:
        file = self._files.get(node)
        if file is not None:
            file.durable = _with_all(file.durable, file.pending)
            file.pending = []
            return
        later: list[NameChange] = []
        for change in self._names:
            if node in _folders_of(change):
                # One rename is one transaction: it takes its other folder along.
                self._apply(change, self._durable_names())
            else:
                later.append(change)
        self._names = later

    def _durable_names(self) -> dict[int, dict[str, int]]:
        return {node: folder.durable for node, folder in self._folders.items()}

    def _apply(self, change: NameChange, names: dict[int, dict[str, int]]) -> None:
        match change:
            case (
                Made(folder=folder, name=name, node=node)
                | Linked(folder=folder, name=name, node=node)
            ):
                names[folder][name] = node
            case Renamed():
                if names[change.folder].get(change.name) == change.node:
                    del names[change.folder][change.name]
                names[change.to_folder][change.to_name] = change.node
            case Removed(folder=folder, name=name):
                names[folder].pop(name, None)

    def after_a_failure(self, chance: random.Random) -> State:
        """One state that may be there when the power is back."""
        luck = chance.choice((0.0, 1.0, 0.1, 0.5, 0.9, chance.random()))
        names = {node: dict(folder.durable) for node, folder in self._folders.items()}
        for change in self._landed(chance, luck):
            self._apply(change, names)
        files: dict[str, bytes] = {}
        folders: list[str] = []
        data: dict[int, bytes] = {}
        for path, node in _walked(names, ROOT, ""):
            if node in self._folders:
                folders.append(path)
                continue
            if node not in data:
                data[node] = _survivor(self._files[node], chance, luck)
            files[path] = data[node]
        return State(files=files, folders=tuple(folders), said=dict(self._said))

    def _landed(self, chance: random.Random, luck: float) -> list[NameChange]:
        """The changes of names that are there although nobody synced them."""
        if chance.random() < 0.5:
            return [change for change in self._names if chance.random() < luck]
        counts: dict[int, int] = {}
        for change in self._names:
            for folder in _folders_of(change):
                counts[folder] = counts.get(folder, 0) + 1
        left = {
            folder: sum(chance.random() < luck for _ in range(n)) for folder, n in counts.items()
        }
        landed: list[NameChange] = []
        for change in self._names:
            lands = all(left[folder] > 0 for folder in _folders_of(change))
            if lands:
                landed.append(change)
            for folder in _folders_of(change):
                left[folder] = left[folder] - 1 if lands else 0
        return landed


def states(
    history: Sequence[Operation], *, each: int, seed: int, prefixes: Sequence[int] | None = None
) -> Iterator[tuple[int, State]]:
    """``each`` states after every prefix of ``history`` (or after those), with its length.

    The first one of each prefix has nothing of what was not synced, the second one all of it.
    """
    disk = Disk()
    wanted = None if prefixes is None else frozenset(prefixes)
    for length in range(len(history) + 1):
        if length:
            disk.do(history[length - 1])
        if wanted is not None and length not in wanted:
            continue
        for number in range(each):
            chance = _Fixed(number) if number < 2 else random.Random(f"{seed} {length} {number}")
            yield length, disk.after_a_failure(chance)


class _Fixed(random.Random):
    """Never (0) or always (1)."""

    def __init__(self, always: int) -> None:
        super().__init__(0)
        self._always = always

    def random(self) -> float:
        return 0.0 if self._always else 1.0 - 2**-53

    def choice(self, seq: Any) -> Any:
        return float(self._always)

    def shuffle(self, x: Any) -> None:
        """What was written last is there last."""


def _folders_of(change: NameChange) -> tuple[int, ...]:
    if isinstance(change, Renamed) and change.to_folder != change.folder:
        return change.folder, change.to_folder
    return (change.folder,)


def _walked(
    names: Mapping[int, Mapping[str, int]], folder: int, below: str
) -> Iterator[tuple[str, int]]:
    for name, node in sorted(names[folder].items()):
        path = f"{below}{name}"
        yield path, node
        if node in names:
            yield from _walked(names, node, f"{path}/")


def _with_all(data: bytes, changes: Sequence[DataChange]) -> bytes:
    result = bytearray(data)
    for change in changes:
        _put(result, change)
    return bytes(result)


def _put(data: bytearray, change: DataChange) -> None:
    match change:
        case Resized(size=size):
            del data[size:]
            data.extend(bytes(size - len(data)))
        case Written(start=start, data=new):
            data.extend(bytes(max(0, start - len(data))))
            data[start : start + len(new)] = new


def _survivor(file: _File, chance: random.Random, luck: float) -> bytes:
    """The bytes of a file that may be there."""
    if not file.pending:
        return file.durable
    changes = [part for change in file.pending for part in _torn(change, chance, luck)]
    if chance.random() < 0.5:
        chance.shuffle(changes)
    return _with_all(file.durable, changes)


def _torn(change: DataChange, chance: random.Random, luck: float) -> list[DataChange]:
    """What of one change is there: all, nothing, or some of its sectors."""
    if chance.random() < luck:
        return [change]
    if isinstance(change, Resized) or luck == 0.0 or chance.random() < 0.5:
        return []
    end = change.start + len(change.data)
    kept: list[DataChange] = []
    for sector in range(change.start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
        start = max(change.start, sector * SECTOR_BYTES)
        stop = min(end, (sector + 1) * SECTOR_BYTES)
        if chance.random() < 0.5:
            data = change.data[start - change.start : stop - change.start]
            kept.append(Written(change.node, start, data))
    return kept
