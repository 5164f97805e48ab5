"""Delivering the files of a task that has ended: all of them, or none that was not there before.

Theory of operation. In this order:

1. each source is read, and in a folder staged, and compared with what is there; what is anybody
   else's there is a conflict, and then nothing gets a name at all;
2. the *plan* is put: from now on these contents are known to be this task's, whatever dies;
3. where something is to be replaced the record of the delivery before goes: it is whole no more;
4. names, one after the other; a name that somebody took meanwhile is looked at again;
5. the *record*, and then the plans go.

Killed anywhere, the next attempt does the same: what is there and equal is left as it is, and what
another run of the task has made otherwise is replaced, because the plan names it.

Source: docs/decisions/116; `delivery` has the pure part.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from perdure.errors import DeliveryConflict, SaveRefused
from perdure.store.delivery.delivery import (
    RECORD_LIMIT_BYTES,
    Act,
    DeliveredFile,
    DeliveryRecord,
    Known,
    Whose,
    contents_of,
    decide,
    decode_delivery,
    encode_delivery,
    is_for_records,
    listed,
    some,
)
from perdure.store.delivery.delivery_target import Check, Source, Target
from perdure.store.files.gathering import Gathered
from perdure.store.files.outside_decision import Content
from perdure.store.files.ownership import Owner
from perdure.store.files.roots import Place, Roots, Stamp, look
from perdure.store.manifests.manifest import EntryType, RootKind

#: Nobody else gives names there again and again; the removal of a second name moves a stamp once.
_NAME_TRIES = 4


class Delivered(Struct, frozen=True, kw_only=True):
    """What a delivery amounts to.

    Attributes:
        files: how many the record names.
        new: how many of them were not there.
    """

    files: int
    new: int


class _Planned(Struct, frozen=True, kw_only=True):
    source: Source
    wanted: Content
    act: Act


def sources_of(
    gathered: Gathered, roots: Roots, whose: Whose, target: Target
) -> tuple[list[Source], list[str]]:
    """The files to deliver, by where they go, and what people should know about the rest.

    Inputs are none of the task's. A link is delivered as the file that it leads to. What lies in
    the target already stays where it is, and is only recorded where its place there is the one
    that it would get.

    Raises:
        DeliveryConflict: two different files would go to one place, or one where records are.
    """
    found: dict[str, Source] = {}
    notes: list[str] = []
    for place, file in gathered.files.items():
        if file.owner is Owner.TASK:
            _add(found, _source(place, place, file.stamp, file.mode, roots, whose), target)
    for place, entry in gathered.others.items():
        if entry.type is EntryType.ABSENT:
            notes.append(f"{place.shown} was declared and is not there: it is not delivered")
        elif entry.type is EntryType.LINK:
            source = _linked(place, roots, whose)
            if source is None:
                notes.append(f"the link {place.shown} leads to no file: it is not delivered")
            else:
                _add(found, source, target)
    return [found[path] for path in sorted(found)], notes


def _add(found: dict[str, Source], source: Source, target: Target) -> None:
    path = source.path
    there = target.own_path(source.place.absolute)
    if there is not None and there != path:
        return
    if is_for_records(path):
        raise DeliveryConflict(
            f"{source.place.shown} would be delivered to {path}, where perdure's records are",
            hint="Let the task give it another name.",
            path=path,
        )
    other = found.setdefault(path, source)
    if other.place != source.place:
        raise DeliveryConflict(
            f"{other.place.shown} and {source.place.shown} would both be delivered to {path}",
            hint="Let the task give them different names.",
            path=path,
        )


def _source(
    named: Place, read: Place, stamp: Stamp, mode: int, roots: Roots, whose: Whose
) -> Source:
    is_inside = named.root.kind is RootKind.SESSION
    path = f"{whose.folder}/{named.path}" if is_inside else roots.below_root(named)
    return Source(place=read, stamp=stamp, mode=mode, path=path)


def _linked(place: Place, roots: Roots, whose: Whose) -> Source | None:
    """The file that a link leads to, to be delivered in the link's place."""
    try:
        end = roots.place(os.path.realpath(place.absolute))
    except SaveRefused:
        return None
    about = look(end)
    if about is None or not stat.S_ISREG(about.st_mode):
        return None
    return _source(place, end, Stamp.of(about), about.st_mode & 0o777, roots, whose)


class Delivery:
    """One delivery; used once.

    Args:
        target: where.
        whose: who delivers.
        now: the moment, as a record says it.
        check: called between files and blocks; whatever it raises ends the delivery.
    """

    def __init__(
        self, target: Target, whose: Whose, *, now: Callable[[], str], check: Check
    ) -> None:
        self._target = target
        self._whose = whose
        self._now = now
        self._check = check

    def deliver(self, sources: Iterable[Source]) -> Delivered:
        """Deliver them; blocks until the record is durable.

        Raises:
            DeliveryConflict: something else is there; nothing was changed.
            CheckpointTorn: a source changes.
            HomeError, OutOfSpace, StoreUnavailable, StoreDamaged: the target did not take it.
        """
        try:
            return self._deliver(sources)
        finally:
            self._target.drop()

    def _deliver(self, sources: Iterable[Source]) -> Delivered:
        self._target.open()
        before, plans = self._recorded()
        known = contents_of([*before, *plans.values()])
        planned = list(self._planned(sources, known))
        files = tuple(DeliveredFile.of(one.source.path, one.wanted) for one in planned)
        changes = [one for one in planned if one.act is not Act.LEAVE]
        if changes:
            self._put(self._whose.plan, files, earlier=listed(known))
            plans[self._whose.plan] = self._record(files)
            if any(one.act is Act.REPLACE for one in changes):
                self._target.remove_record(self._whose.record)
                before = []
            for one in changes:
                self._check()
                self._publish(one, known)
            self._target.finish()
        if not before or before[0].files != files:
            self._put(self._whose.record, files)
        for path in plans:
            self._target.remove_record(path)
        return Delivered(files=len(files), new=len(changes))

    def _recorded(self) -> tuple[list[DeliveryRecord], dict[str, DeliveryRecord]]:
        """The record, if there is one, and the plans of this attempt and earlier ones."""
        before = self._read(self._whose.record)
        plans = {
            path: plan
            for attempt in range(1, self._whose.attempt + 1)
            if (plan := self._read(path := self._whose.plan_of(attempt))) is not None
        }
        return ([] if before is None else [before]), plans

    def _read(self, path: str) -> DeliveryRecord | None:
        data = self._target.get_record(path, RECORD_LIMIT_BYTES)
        return None if data is None else decode_delivery(data, self._whose)

    def _planned(self, sources: Iterable[Source], known: Known) -> Iterator[_Planned]:
        """What is done with each file; all conflicts are told at once."""
        conflicts: list[str] = []
        for source in sources:
            self._check()
            one = self._plan(source, known.get(source.path, frozenset()))
            if one.act is Act.CONFLICT:
                conflicts.append(f"{source.path} (from {source.place.shown})")
            elif not conflicts:
                yield one
        if conflicts:
            raise self._conflict(conflicts)

    def _plan(self, source: Source, known: frozenset[Content]) -> _Planned:
        size = self._target.size(source.path)
        if size is None:
            return self._staged(source, Act.CREATE)
        may_be_ours = any(content.size == size for content in known)
        if size != source.stamp.size and not may_be_ours:
            return _Planned(source=source, wanted=Content(size=0, digest=b""), act=Act.CONFLICT)
        wanted = self._target.stage(source, is_wanted=False)
        present = self._target.content(source.path, size)
        act = decide(wanted, present, known)
        if act in (Act.LEAVE, Act.CONFLICT):
            return _Planned(source=source, wanted=wanted, act=act)
        return self._staged(source, act)

    def _staged(self, source: Source, act: Act) -> _Planned:
        wanted = self._target.stage(source, is_wanted=True)
        return _Planned(source=source, wanted=wanted, act=act)

    def _publish(self, one: _Planned, known: Known) -> None:
        """Give it its name; where that is not what was seen, it is decided anew."""
        path, act = one.source.path, one.act
        for _ in range(_NAME_TRIES):
            if self._target.publish(one.source, one.wanted, act):
                return
            size = self._target.size(path)
            present = None if size is None else self._target.content(path, size)
            act = decide(one.wanted, present, known.get(path, frozenset()))
            if act is Act.LEAVE:
                return
            if act is Act.CONFLICT:
                break
        raise self._conflict([f"{path} (from {one.source.place.shown})"])

    def _conflict(self, paths: list[str]) -> DeliveryConflict:
        return DeliveryConflict(
            f"{self._target.called} has another content already for {some(paths)}",
            hint="Move what is there away, or submit the job with another --deliver place.",
        )

    def _put(
        self,
        path: str,
        files: tuple[DeliveredFile, ...],
        *,
        earlier: tuple[DeliveredFile, ...] = (),
    ) -> None:
        self._target.put_record(path, encode_delivery(self._record(files, earlier)))

    def _record(
        self, files: tuple[DeliveredFile, ...], earlier: tuple[DeliveredFile, ...] = ()
    ) -> DeliveryRecord:
        return DeliveryRecord(
            job=self._whose.job,
            step=self._whose.step,
            task=self._whose.task,
            attempt=self._whose.attempt,
            at=self._now(),
            files=files,
            earlier=earlier,
        )
