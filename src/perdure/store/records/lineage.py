"""What a lineage's log says: who owns it, where it goes on from, what is void. Pure.

Source: docs/journal-format.md, "Logs" (owner, point) and docs/store-format.md, "Lineage log".
Number 0 stands for the share: the claim of first attempts that lies outside of the log.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from perdure.store.layout import LaunchId
from perdure.store.records.log import Entry

#: The number by which a save names the share as its claim.
SHARE = 0


class Claim(Struct, frozen=True, kw_only=True):
    """A launch took the lineage.

    Attributes:
        number: in the log; `SHARE` for a share.
        at: when, for people, and for which files outside are the lineage's.
        values: the parameter values that the attempt runs; None: the lineage's own.
        split: parameter values that became lineages of their own with this claim.
        left: the point before it; not its base where that was passed over.
        is_housekeeping: nothing runs by it: it only ends the right of earlier holders to add saves,
            so that the lineage may be pruned. It is over as soon as it is there.
    """

    number: int
    attempt: int
    launch: LaunchId
    at: str = ""
    base: int | None = None
    values: Mapping[str, str] | None = None
    split: tuple[Mapping[str, str], ...] = ()
    left: int | None = None
    is_housekeeping: bool = False


class Save(Struct, frozen=True, kw_only=True):
    """A checkpoint that was committed; ``header`` is its manifest's.

    Attributes:
        parent: the checkpoint that was the point when this one was saved.
        digests: of adopted files that were read after it was committed, by entry.
        is_void: passed over by a claim or branch (a side branch), or added by nobody's right.
    """

    number: int
    claim: int
    header: Mapping[str, Any]
    parent: int | None
    is_void: bool
    is_pruned: bool
    is_pinned: bool
    digests: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """Its content id."""
        return str(self.header.get("content", ""))


class Branch(Struct, frozen=True, kw_only=True):
    """A person chose where the lineage goes on from; ``left`` was the point before."""

    number: int
    base: int | None
    by: str
    left: int | None = None


class Lineage(Struct, frozen=True, kw_only=True):
    """The fold of one lineage's log.

    Attributes:
        claims: by which attempts are run, in order, the share first.
        owner: who may add records, by its claim; None: nobody (no claim yet, or a branch).
        point: the checkpoint to go on from; None: the beginning.
        last: number of the last record folded.
        pruned_at: packs that prune records name, each with when that was first written.
    """

    claims: tuple[Claim, ...]
    saves: tuple[Save, ...]
    branches: tuple[Branch, ...]
    owner: Claim | None
    point: int | None
    last: int
    pruned_at: Mapping[str, str]

    @property
    def pruned_packs(self) -> frozenset[str]:
        """Packs that prune records name: nothing new rests on them."""
        return frozenset(self.pruned_at)

    def save(self, number: int) -> Save | None:
        """The checkpoint with that sequence."""
        return next((save for save in self.saves if save.number == number), None)

    def ancestry(self, number: int | None) -> tuple[int, ...]:
        """That checkpoint and those that it was saved on top of, newest first.

        What is in none of them is not in its files either.
        """
        return _ancestry(number, {save.number: save.parent for save in self.saves})

    def since_branch(self) -> frozenset[int]:
        """What leads to the point, or did before a claim passed it over, since the last branch.

        All of it is of the lineage's own right; what a person left by going back is not among it.
        """
        last = self.branches[-1].number if self.branches else -1
        left = (claim.left for claim in self.claims if claim.number > last)
        return frozenset(n for tip in (self.point, *left) for n in self.ancestry(tip))

    def branched(self, base: int | None) -> "Lineage":
        """The lineage as a branch record put now would leave it."""
        chain = self.ancestry(base)
        branch = Branch(number=self.last + 1, base=base, by="user", left=self.point)
        return replace(
            self,
            saves=tuple(replace(save, is_void=save.number not in chain) for save in self.saves),
            branches=(*self.branches, branch),
            owner=None,
            point=base,
            last=branch.number,
        )


class _Fold:
    """The state while folding; one method a kind."""

    def __init__(self, share: Claim | None) -> None:
        self.claims: list[Claim] = [share] if share else []
        self.saves: dict[int, Mapping[str, Any]] = {}
        self.parents: dict[int, int | None] = {}
        self.pruned: set[int] = set()
        self.packs: dict[str, str] = {}
        self.pins: set[int] = set()
        self.lost: set[int] = set()
        self.branches: list[Branch] = []
        self.digests: dict[int, dict[int, bytes]] = {}
        self.owner: Claim | None = share
        self.point: int | None = None

    def claim(self, number: int, header: Mapping[str, Any]) -> None:
        claim = Claim(
            number=number,
            attempt=int(header["attempt"]),
            launch=LaunchId(header["launch"]),
            at=str(header.get("at", "")),
            base=header.get("base"),
            values=header.get("values"),
            split=tuple(header.get("split", ())),
            left=self.point,
            is_housekeeping=bool(header.get("housekeeping", False)),
        )
        if not claim.is_housekeeping:
            self.claims.append(claim)
        self.owner = claim
        self.point = claim.base

    def branch(self, number: int, header: Mapping[str, Any]) -> None:
        by = str(header.get("by", ""))
        branch = Branch(number=number, base=header.get("base"), by=by, left=self.point)
        self.branches.append(branch)
        self.owner = None
        self.point = branch.base

    def damaged(self, number: int, _header: Mapping[str, Any]) -> None:
        self.lost.add(number)

    def save(self, number: int, header: Mapping[str, Any]) -> None:
        if header["claim"] in self.lost:
            self._recover_claim(header)
        elif header["claim"] == SHARE:
            self._recover_share(header)
        self.saves[number] = header
        self.parents[number] = None
        if self.owner is not None and header["claim"] == self.owner.number:
            self.parents[number] = self.point
            self.point = number

    def _recover_claim(self, header: Mapping[str, Any]) -> None:
        """A claim whose record was damaged, as far as its first save tells.

        Not its base: what its saves were made on top of is unknown, so that nothing is.
        """
        number = int(header["claim"])
        self.lost.discard(number)
        if self.owner is None or self.owner.number < number:
            attempt, launch = header["attempt"], header["launch"]
            self.claim(number, {"attempt": attempt, "launch": launch})

    def _recover_share(self, header: Mapping[str, Any]) -> None:
        """A share that was lost, or is not shown: its saves say whose it was.

        Without it nobody would see that the task was begun, and it would begin anew. Where another
        launch took a share with the task since, that is none of the task's.
        """
        first = next((claim for claim in self.claims if claim.number == SHARE), None)
        launch = header.get("launch")
        if launch is None or (first is not None and first.launch == launch):
            return
        share = share_claim(LaunchId(launch), str(header.get("at", "")))
        self.claims = [share, *(claim for claim in self.claims if claim is not first)]
        if self.owner is first and not self.branches:
            self.owner = share

    def prune(self, _number: int, header: Mapping[str, Any]) -> None:
        self.pruned.update(header.get("saves", ()))
        for pack in header.get("packs", ()):
            self.packs.setdefault(pack, str(header.get("at", "")))

    def pin(self, _number: int, header: Mapping[str, Any]) -> None:
        self.pins.add(int(header["save"]))

    def unpin(self, _number: int, header: Mapping[str, Any]) -> None:
        self.pins.discard(int(header["save"]))

    def hashed(self, _number: int, header: Mapping[str, Any]) -> None:
        self.digests.setdefault(int(header["save"]), {}).update(hashed_digests(header))


def hashed_digests(header: Mapping[str, Any]) -> dict[int, bytes]:
    """The digests that a ``hashed`` record adds, by the number of the entry."""
    digests = header.get("digests", {}).items()
    return {int(index): bytes.fromhex(digest) for index, digest in digests}


def _ancestry(number: int | None, parents: Mapping[int, int | None]) -> tuple[int, ...]:
    """That save and those that it was saved on top of, newest first; ``parents`` has all saves."""
    found: dict[int, None] = {}
    while number is not None and number in parents and number not in found:
        found[number] = None
        number = parents[number]
    return tuple(found)


def share_claim(launch: LaunchId, at: str) -> Claim:
    """The claim of a first attempt that a share is."""
    return Claim(number=SHARE, attempt=1, launch=launch, at=at)


def fold_lineage(entries: Iterable[Entry], *, share: Claim | None) -> Lineage:
    """The state of a lineage after ``entries``, its first attempt taken by ``share``.

    Unknown kinds are passed over: later versions only add.
    """
    fold = _Fold(share)
    steps = {
        "claim": fold.claim,
        "branch": fold.branch,
        "save": fold.save,
        "prune": fold.prune,
        "pin": fold.pin,
        "unpin": fold.unpin,
        "damaged": fold.damaged,
        "hashed": fold.hashed,
    }
    last = 0
    for entry in entries:
        last = entry.number
        step = steps.get(entry.kind)
        if step is not None:
            step(entry.number, entry.header)
    chain = frozenset(_ancestry(fold.point, fold.parents))
    return Lineage(
        claims=tuple(fold.claims),
        saves=tuple(
            Save(
                number=number,
                claim=int(header["claim"]),
                header=header,
                parent=fold.parents[number],
                is_void=number not in chain,
                is_pruned=number in fold.pruned,
                is_pinned=number in fold.pins,
                digests=fold.digests.get(number, {}),
            )
            for number, header in fold.saves.items()
        ),
        branches=tuple(fold.branches),
        owner=fold.owner,
        point=fold.point,
        last=last,
        pruned_at=fold.packs,
    )
