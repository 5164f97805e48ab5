"""The elements of a job array as launches: tokens, and the file that says which is which. Pure.

An array has a token, which is in its job's name. An element's token is made from it, and carried by
everything that the element runs; an element that runs again is another launch, with ``-rN`` behind.
"""

import re
import shlex
from collections.abc import Sequence

from msgspec import Struct


class Token(Struct, frozen=True, kw_only=True):
    """The token of a launch: which array, which element, and how often that was put back."""

    array: str
    index: int
    restarts: int = 0

    def __str__(self) -> str:
        text = f"{self.array}-{self.index}"
        return f"{text}-r{self.restarts}" if self.restarts else text

    @property
    def next(self) -> "Token":
        """Of the element's next run."""
        return Token(array=self.array, index=self.index, restarts=self.restarts + 1)


def parse_token(text: str) -> Token | None:
    """The token, or None where it is none of an element's."""
    match = re.fullmatch(r"([0-9a-f]+)-([0-9]+)(?:-r([1-9][0-9]*))?", text)
    if match is None:
        return None
    return Token(array=match[1], index=int(match[2]), restarts=int(match[3] or 0))


def element_lines(elements: Sequence[tuple[str, Token]]) -> str:
    """The elements file: index, launch, token and how often it was put back, of each."""
    return "".join(
        f"{token.index} {launch} {token.array}-{token.index} {token.restarts}\n"
        for launch, token in elements
    )


def index_list(indexes: Sequence[int]) -> str:
    """Indexes as arrays are submitted: ``0-9``, or ``3,7`` where they have gaps."""
    first, last = indexes[0], indexes[-1]
    if list(indexes) == list(range(first, last + 1)) and len(indexes) > 1:
        return f"{first}-{last}"
    return ",".join(map(str, indexes))


def array_script(
    worker: Sequence[str], elements: str, *, index: str, counting: Sequence[str]
) -> str:
    """The batch script of an array of workers.

    Args:
        worker: the command that starts one; its launch and token are added.
        elements: the elements file.
        index: the variable that has the element's index.
        counting: lines of the script that add to ``restarts`` how often the element was put back.
    """
    return "\n".join(
        [
            "#!/bin/sh",
            f"elements={shlex.quote(elements)}",
            "while read -r index launch token restarts; do",
            f'  [ "$index" = "${index}" ] && break',
            'done <"$elements" || exit 1',
            *counting,
            '[ "$restarts" = 0 ] || token="$token-r$restarts"',
            'export PERDURE_TOKEN="$token"',
            f"exec {shlex.join(worker)} \\",
            '  --launch "$launch" --token "$token" --restarts "$restarts"',
            "",
        ]
    )
