"""Whose is a file outside of the session folder? Pure.

perdure writes only what a lineage wrote, and so it takes only that:

1. a named file that did not change since the lineage's first claim is an *input*: recorded, never
   taken, never written;
2. a file met by walking a declared folder is the task's if the lineage recorded it before, or if it
   changed since the attempt began and no other lineage declares it; else it is none of ours.

"Changed" is the file's ctime: it cannot be set back, and a copy that keeps an old mtime is new.

Source: design, "Files outside the session folder", rules 1 and 2; docs/decisions/047.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from msgspec import Struct

from perdure.store.files.outside_decision import Content
from perdure.store.manifests.manifest import EntryType, Kept, Manifest, RootKind


class Owner(Enum):
    """Whose a file is."""

    #: this lineage's: taken, and put back on resume
    TASK = "task"
    #: nobody's here: read by the task, recorded
    INPUT = "input"
    #: somebody else's, or was there before: passed over
    OTHER = "other"


class Ownership(Struct, frozen=True, kw_only=True):
    """What is known about outside files of one attempt.

    Attributes:
        first_claim_at_ns: when the lineage was first claimed, by this host's wall clock.
        attempt_began_at_ns: when this attempt began, by the same.
        recorded: outside paths whose bytes an earlier save of the lineage holds.
        is_declared_elsewhere: whether another lineage declares a path.
    """

    first_claim_at_ns: int
    attempt_began_at_ns: int
    recorded: frozenset[str] = frozenset()
    is_declared_elsewhere: Callable[[str], bool] = lambda _path: False

    def judge(self, path: str, changed_at_ns: int, *, is_named: bool) -> Owner:
        """Whose the outside file ``path`` is, which changed last at ``changed_at_ns``."""
        if path in self.recorded:
            return Owner.TASK
        if is_named:
            return Owner.TASK if changed_at_ns >= self.first_claim_at_ns else Owner.INPUT
        if changed_at_ns < self.attempt_began_at_ns or self.is_declared_elsewhere(path):
            return Owner.OTHER
        return Owner.TASK


def recorded_contents(manifests: Iterable[Manifest]) -> dict[str, frozenset[Content]]:
    """By outside path, every content of it that the checkpoints of a lineage hold.

    The paths are `Ownership.recorded`; the contents are what a restore may replace.
    """
    contents: dict[str, set[Content]] = {}
    for manifest in manifests:
        for entry in manifest.entries:
            is_outside = manifest.roots[entry.root].kind is RootKind.OUTSIDE
            if is_outside and entry.type is EntryType.FILE and entry.kept is Kept.BYTES:
                content = Content(size=entry.size, digest=entry.digest)
                contents.setdefault(manifest.shown_path(entry), set()).add(content)
    return {path: frozenset(found) for path, found in contents.items()}
