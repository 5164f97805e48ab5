"""Which part of what is stored is read back, when not all of it is.

Every block is as likely as any other, whatever its size, until enough bytes are chosen; of whatever
holds anything at least one block is. The same seed chooses the same blocks of the same store.

Source: docs/decisions/135.
"""

import math
from collections.abc import Sequence
from random import Random

from msgspec import Struct


class Subset(Struct, frozen=True, kw_only=True):
    """A part of all bytes, or so many bytes of them.

    Attributes:
        part: above 0 and up to 1; None: by size.
        size_bytes: so many in all.
        seed: of the choice.
    """

    part: float | None = None
    size_bytes: int | None = None
    seed: int = 0

    def of(self, total_bytes: int) -> "Subset":
        """The same as a part of ``total_bytes``."""
        if self.part is not None:
            return self
        wanted = self.size_bytes or 0
        part = min(1.0, wanted / total_bytes) if total_bytes else 1.0
        return Subset(part=part, size_bytes=self.size_bytes, seed=self.seed)


def choose(sizes: Sequence[int], subset: Subset, *, name: str) -> list[int]:
    """The indexes of the blocks to read, at least a ``part`` of all their bytes, in order.

    Args:
        sizes: of the blocks, in an order that is always the same.
        subset: by its part.
        name: of what holds the blocks: another one's choice is another one.
    """
    assert subset.part is not None
    wanted = math.ceil(subset.part * sum(sizes))
    order = list(range(len(sizes)))
    Random(f"{subset.seed} {name}").shuffle(order)  # noqa: S311 - nothing secret is drawn
    chosen: list[int] = []
    for index in order:
        if chosen and wanted <= 0:
            break
        chosen.append(index)
        wanted -= sizes[index]
    return sorted(chosen)
