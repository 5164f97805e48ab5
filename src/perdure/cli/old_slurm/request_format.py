"""``scontrol checkpoint OP ID [ImageDir=] [MaxWait=] [StickToNodes]``: the line as a value. Pure.

Source: scontrol(1) of Slurm 15.08 and 19.05, "checkpoint": words may be shortened, and their case
does not matter.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from perdure.cli.old_slurm.old_text import OldTextError

#: So long a request waits unless it says otherwise (MaxWait is a number of 16 bits).
DEFAULT_WAIT_SECONDS = 10
_LONGEST_WAIT_SECONDS = 65_535
#: With how many letters of each at least; the first that fits is meant.
_OPERATIONS = (
    ("able", 1),
    ("disable", 1),
    ("enable", 2),
    ("create", 2),
    ("vacate", 2),
    ("restart", 2),
    ("requeue", 3),
    ("error", 2),
)
_WITH_IMAGE = ("create", "vacate", "requeue", "restart")
_ID = re.compile(r"(?P<job>[0-9]+)(?:\.(?P<step>[0-9]+))?")
_STICK_LETTERS = 5
_MOST_WORDS = 5


class Request(Struct, frozen=True, kw_only=True):
    """What is asked.

    Attributes:
        operation: its whole name.
        job: the job's id.
        step: of the job; None for the whole job.
        image_dir: where the image is written or read; None: where the job says.
        wait_seconds: so long the request may take.
        sticks: a restart stays on the nodes that the image was made on.
    """

    operation: str
    job: str
    step: str | None
    image_dir: str | None = None
    wait_seconds: int = DEFAULT_WAIT_SECONDS
    sticks: bool = False

    @property
    def name(self) -> str:
        """As people call the job or step."""
        return self.job if self.step is None else f"{self.job}.{self.step}"


def is_checkpoint(word: str) -> bool:
    """Whether a first word of scontrol is this one (``ch`` and longer)."""
    return len(word) > 1 and "checkpoint".startswith(word.lower())


def parse_request(words: Sequence[str]) -> Request:
    """The request behind ``scontrol checkpoint``.

    Raises:
        OldTextError: it is none.
    """
    if len(words) < 2:
        raise OldTextError("too few arguments for keyword:checkpoint")
    if len(words) > _MOST_WORDS:
        raise OldTextError("too many arguments for keyword:checkpoint")
    found = _ID.fullmatch(words[1])
    if found is None:
        raise OldTextError("Invalid job step name")
    operation = _operation(words[0])
    request = Request(operation=operation, job=found["job"], step=found["step"])
    return _with_values(request, words[2:]) if operation in _WITH_IMAGE else request


def _operation(word: str) -> str:
    given = word.lower()
    for name, letters in _OPERATIONS:
        if len(given) >= letters and name.startswith(given):
            return name
    raise OldTextError(f"Invalid checkpoint operation: {word}")


def _with_values(request: Request, words: Sequence[str]) -> Request:
    image_dir, wait, sticks = request.image_dir, request.wait_seconds, request.sticks
    is_restart = request.operation == "restart"
    for word in words:
        name, equals, value = word.partition("=")
        lower = name.lower()
        if equals and lower == "imagedir":
            image_dir = value
        elif equals and lower == "maxwait" and not is_restart and _is_wait(value):
            wait = int(value)
        elif is_restart and not equals and lower[:_STICK_LETTERS] == "stick":
            sticks = True
        else:
            raise OldTextError(f"Invalid input: {word}\nRequest aborted")
    return Request(
        operation=request.operation,
        job=request.job,
        step=request.step,
        image_dir=image_dir,
        wait_seconds=wait,
        sticks=sticks,
    )


def _is_wait(text: str) -> bool:
    is_number = text.isascii() and text.isdigit()
    return is_number and int(text) <= _LONGEST_WAIT_SECONDS
