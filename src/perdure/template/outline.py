"""What of a job all but its workers need: its steps, their tasks, what they demand of a host.

It follows from the template and can be written down, and reading it back takes none of the library
that templates need, which is a third of a second to import. Pure.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from perdure.template.requirements import HostRequirements
from perdure.template.space import SpaceOutline, TaskSpace


class StepOutline(Struct, frozen=True, kw_only=True):
    """A step.

    Attributes:
        index: its number in the template, from 1: the step key.
        name: as written.
        dependencies: the indexes of the steps that must have succeeded before.
        requirements: what the host must have.
        space: its tasks.
        is_resumable: whether a task can go on from its checkpoint instead of beginning again.
    """

    index: int
    name: str
    dependencies: tuple[int, ...]
    requirements: HostRequirements
    space: TaskSpace
    is_resumable: bool


class JobOutline(Struct, frozen=True, kw_only=True):
    """A job; ``steps`` in the template's order."""

    steps: tuple[StepOutline, ...]

    def step(self, index: int) -> StepOutline:
        """The step with this index, from 1."""
        return self.steps[index - 1]

    def step_named(self, name: str) -> StepOutline | None:
        """The step with this name, if there is one."""
        return next((step for step in self.steps if step.name == name), None)


def encode_outline(job: JobOutline) -> str:
    """The outline as text, of a whole job's part that is one, too."""
    steps = [
        {name: getattr(step, name) for name in StepOutline.__struct_fields__} for step in job.steps
    ]
    return msgspec.json.encode({"steps": steps}, enc_hook=_outline_of).decode()


def decode_outline(text: str) -> JobOutline:
    """The opposite of `encode_outline`.

    Raises:
        ValueError: it is none.
    """
    try:
        return msgspec.json.decode(text, type=JobOutline, dec_hook=_space_of)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def _outline_of(value: Any) -> SpaceOutline:
    assert isinstance(value, TaskSpace)
    return value.outline


def _space_of(_kind: type, value: Mapping[str, Any]) -> TaskSpace:
    return TaskSpace.of(msgspec.convert(value, SpaceOutline))
