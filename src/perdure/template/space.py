"""A step's tasks: which there are, which is the n-th, and what each is called.

A space is never enumerated: 100,000 tasks cost what one costs. `TaskSpace.task` finds the n-th by
arithmetic. With adaptive chunking there is no n-th, since chunks are cut as earlier ones show how
long a value takes: there `TaskSpace.next_chunk` goes on from a cursor, a small value that a share
record can hold.

Task keys, the order of tasks and the bounds of chunks are part of the store's format.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NewType, Self

from blake3 import blake3
from msgspec import Struct

from perdure.template.chunks import ChunkSpec, FormedChunks, chunk_values
from perdure.template.combination import Expression, Name, Product, parse_combination
from perdure.template.dimensions import Axis, dimension
from perdure.template.ranges import IntegerRow, interval_text, parse_ranges, range_text

TaskKey = NewType("TaskKey", str)
#: Where adaptive chunking goes on: (which values of the other parameters, which value next).
Cursor = tuple[int, int]
START: Cursor = (0, 0)
#: Of values that are named in an error, so many, and so much of each.
_SHOWN_VALUES = 8
_SHOWN_CHARACTERS = 40


class TaskValue(Struct, frozen=True, kw_only=True):
    """One parameter's value: its type as the specification spells it, and its text."""

    type: str
    value: str


class TaskParameters(Struct, frozen=True, kw_only=True):
    """What makes a task this one: its parameters' values, in the order of the space."""

    values: Mapping[str, TaskValue]

    def texts(self) -> dict[str, str]:
        """Name and text of each value; what the task key is made of."""
        return {name: value.value for name, value in self.values.items()}

    def to_json(self) -> dict[str, dict[str, str]]:
        """A JSON-able value that `from_json` reads."""
        return {
            name: {"type": value.type, "value": value.value} for name, value in self.values.items()
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The parameters that `to_json` wrote.

        Raises:
            ValueError: ``data`` is something else.
        """
        try:
            values = {
                str(name): TaskValue(type=str(item["type"]), value=str(item["value"]))
                for name, item in data.items()
            }
        except (AttributeError, KeyError, TypeError) as exc:
            raise ValueError(f"{data!r} are no task parameters") from exc
        return cls(values=values)

    def for_session(self) -> dict[str, Any]:
        """The same as the Open Job Description library's ``TaskParameterSet``."""
        from openjd.model import ParameterValue, ParameterValueType  # noqa: PLC0415 - 0.2 s

        return {
            name: ParameterValue(type=ParameterValueType(value.type), value=value.value)
            for name, value in self.values.items()
        }


def task_key(parameters: TaskParameters | Mapping[str, str]) -> TaskKey:
    """16 hex digits of BLAKE3 over the canonical JSON (sorted, no spaces) of names and texts."""
    texts = parameters.texts() if isinstance(parameters, TaskParameters) else dict(parameters)
    canonical = json.dumps(texts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return TaskKey(blake3(canonical.encode()).hexdigest(length=8))


class AxisOutline(Struct, frozen=True, kw_only=True):
    """A parameter's values: listed texts, or ranges (first, past the last, step) of integers."""

    name: str
    type: str
    texts: tuple[str, ...] | None = None
    ranges: tuple[tuple[int, int, int], ...] = ()

    def axis(self) -> Axis:
        """The axis with these values."""
        if self.texts is not None:
            return Axis.of_texts(self.name, self.type, self.texts)
        return Axis.of_integers(self.name, self.type, _row(self.ranges))


class SpaceOutline(Struct, frozen=True, kw_only=True):
    """All that a space follows from.

    Attributes:
        axes: of all parameters but the chunk parameter.
        names: of all parameters, in the order in which they are defined.
        combination: as written.
        chunk, chunk_ranges: how chunks are formed, and of which values.
    """

    axes: tuple[AxisOutline, ...] = ()
    names: tuple[str, ...] = ()
    combination: str | None = None
    chunk: ChunkSpec | None = None
    chunk_ranges: tuple[tuple[int, int, int], ...] = ()


class TaskSpace:
    """All tasks of a step.

    Attributes:
        outline: what it follows from, where it was made from one.
        names: the parameters, in the order in which they are defined.
        types: each one's type, as the specification spells it.
        chunk: how chunks are formed; None: the step has no chunk parameter.
    """

    def __init__(
        self,
        axes: Mapping[str, Axis],
        *,
        names: tuple[str, ...] = (),
        combination: str | None = None,
        chunk: ChunkSpec | None = None,
        chunk_row: IntegerRow | None = None,
    ) -> None:
        self.outline = SpaceOutline()
        self.names = names or tuple(axes)
        self.types = {name: axis.type for name, axis in axes.items()}
        self.chunk = chunk
        self._chunk_row = chunk_row or IntegerRow(())
        axes = dict(axes)
        if chunk is not None:
            self.types[chunk.parameter] = "CHUNK[INT]"
            if not chunk.is_adaptive:
                formed = FormedChunks(self._chunk_row, chunk)
                axes[chunk.parameter] = Axis.of_chunks(chunk.parameter, formed)
        self._axes = axes
        self._other = dimension(_expression(self.names, combination, without=self._inner), axes)
        self._chunk_count = len(axes[chunk.parameter]) if chunk and not chunk.is_adaptive else 1

    @classmethod
    def of(cls, outline: SpaceOutline) -> Self:
        """The space that follows from the outline."""
        space = cls(
            {one.name: one.axis() for one in outline.axes},
            names=outline.names,
            combination=outline.combination,
            chunk=outline.chunk,
            chunk_row=_row(outline.chunk_ranges),
        )
        space.outline = outline
        return space

    @property
    def _inner(self) -> str | None:
        return self.chunk.parameter if self.chunk and self.chunk.is_adaptive else None

    @property
    def is_adaptive(self) -> bool:
        """Whether chunks are cut on the fly."""
        return self._inner is not None

    @property
    def len(self) -> int | None:
        """How many tasks (or chunks) there are; None with adaptive chunking."""
        return None if self.is_adaptive else len(self._other)

    @property
    def value_count(self) -> int:
        """How many tasks there are when each value of a chunk parameter counts as one."""
        if self.chunk is None:
            return len(self._other)
        others = len(self._other) // max(self._chunk_count, 1)
        return others * len(self._chunk_row)

    def task(self, index: int) -> TaskParameters:
        """The task with ``index``, from 0.

        Raises:
            IndexError: there is no such task.
            ValueError: the space is adaptive.
        """
        if self.is_adaptive:
            raise ValueError("with adaptive chunking tasks have no numbers; use next_chunk")
        if not 0 <= index < len(self._other):
            raise IndexError(f"there are {len(self._other)} tasks, and no task {index}")
        return self._typed(self._other.texts(index))

    def find(self, parameters: TaskParameters | Mapping[str, str]) -> int | None:
        """The index of exactly this task or chunk; None: not one that the space forms."""
        if self.is_adaptive:
            return None
        texts = _texts(parameters)
        if set(texts) != set(self.names):
            return None
        return next(self._other.positions(texts), None)

    def contains(self, parameters: TaskParameters | Mapping[str, str]) -> bool:
        """Whether the space has this task; of a chunk any subset of the values will do."""
        texts = dict(_texts(parameters))
        if set(texts) != set(self.names):
            return False
        if isinstance(parameters, TaskParameters) and any(
            value.type != self.types[name] for name, value in parameters.values.items()
        ):
            return False
        if self.chunk is not None and not self._holds_chunk(texts[self.chunk.parameter]):
            return False
        return self._other.holds(texts)

    def typed(self, texts: Mapping[str, str]) -> TaskParameters:
        """The task that people (or records) name by texts alone.

        Raises:
            ValueError: the space has no such task; says why.
        """
        missing = [name for name in self.names if name not in texts]
        unknown = [name for name in texts if name not in self.types]
        if unknown:
            known = ", ".join(self.names) or "none"
            raise ValueError(
                f"the step has no task parameter {', '.join(unknown)}; its parameters: {known}"
            )
        if missing:
            raise ValueError(f"the task lacks a value for {', '.join(missing)}")
        if not self.contains(texts):
            shown = ", ".join(f"{name}={texts[name]}" for name in self.names)
            raise ValueError(f"the step has no task with {shown}; {self._there_are(texts)}")
        return self._typed(texts)

    def _there_are(self, texts: Mapping[str, str]) -> str:
        """The values that there are of those parameters that have another one in ``texts``."""
        found = []
        for name in self.names:
            if self.chunk is not None and name == self.chunk.parameter:
                if not self._holds_chunk(texts[name]):
                    there = _listed(len(self._chunk_row), lambda n: str(self._chunk_row[n]))
                    found.append(f"{name} is of {there}")
            elif not (axis := self._axes[name]).holds(texts):
                found.append(f"{name} is one of {_listed(len(axis), axis.text)}")
        return "; ".join(found) or "these values do not come together"

    def chunk_texts(self, values: Iterable[int]) -> tuple[str, ...]:
        """The remainder ``values`` of a chunk, split again as the range constraint demands."""
        if self.chunk is None:
            raise ValueError("the step has no chunk parameter")
        return self.chunk.texts(values)

    def chunk_values(self, parameters: TaskParameters | Mapping[str, str]) -> tuple[int, ...]:
        """The values of the chunk parameter in ``parameters``."""
        if self.chunk is None:
            return ()
        return chunk_values(_texts(parameters)[self.chunk.parameter])

    def with_chunk(self, parameters: TaskParameters, text: str) -> TaskParameters:
        """The same task with other values of the chunk parameter."""
        if self.chunk is None:
            raise ValueError("the step has no chunk parameter")
        return self._typed({**parameters.texts(), self.chunk.parameter: text})

    def next_chunk(
        self, cursor: Cursor | Iterable[int], count: int
    ) -> tuple[TaskParameters, Cursor] | None:
        """The next chunk of at most ``count`` values, and where to go on; None: that was all.

        For adaptive spaces. A contiguous chunk ends at a gap.
        """
        if self.chunk is None or not self.is_adaptive:
            raise ValueError("only with adaptive chunking are chunks cut one by one")
        outer, position = cursor
        if outer >= len(self._other) or not len(self._chunk_row):
            return None
        stop = self._chunk_end(position, max(count, 1))
        if self.chunk.is_contiguous:
            text = interval_text(self._chunk_row[position], self._chunk_row[stop - 1])
        else:
            text = range_text(self._chunk_row.part(position, stop))
        texts = {**self._other.texts(outer), self.chunk.parameter: text}
        following = (outer, stop) if stop < len(self._chunk_row) else (outer + 1, 0)
        return self._typed(texts), following

    def _chunk_end(self, position: int, count: int) -> int:
        limit = min(position + count, len(self._chunk_row))
        if self.chunk is None or not self.chunk.is_contiguous:
            return limit
        stop = position + 1
        while stop < limit and self._chunk_row[stop] == self._chunk_row[stop - 1] + 1:
            stop += 1
        return stop

    def _holds_chunk(self, text: str) -> bool:
        assert self.chunk is not None
        try:
            values = parse_ranges(text)
        except ValueError:
            return False
        if len(values) > len(self._chunk_row):
            return False
        if self.chunk.is_contiguous and text != interval_text(values[0], values[len(values) - 1]):
            return False
        return all(value in self._chunk_row for value in values)

    def _typed(self, texts: Mapping[str, str]) -> TaskParameters:
        return TaskParameters(
            values={
                name: TaskValue(type=self.types[name], value=texts[name]) for name in self.names
            }
        )


def _listed(length: int, text: Callable[[int], str]) -> str:
    """The first values and the last one."""
    shown = [_shortened(text(index)) for index in range(min(length, _SHOWN_VALUES))]
    if length > _SHOWN_VALUES:
        shown += ["…", f"{_shortened(text(length - 1))} ({length} values)"]
    return ", ".join(shown)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _texts(parameters: TaskParameters | Mapping[str, str]) -> Mapping[str, str]:
    return parameters.texts() if isinstance(parameters, TaskParameters) else parameters


def _expression(
    names: tuple[str, ...], combination: str | None, *, without: str | None
) -> Expression:
    """The space's expression, without the parameter that adaptive chunking moves innermost."""
    if combination is None:
        parsed: Expression = Product(parts=tuple(Name(name=name) for name in names))
    else:
        parsed = parse_combination(combination)
    if without is None:
        return parsed
    # The specification keeps a chunk parameter out of associations: it is a factor of its own.
    parts = parsed.parts if isinstance(parsed, Product) else (parsed,)
    return Product(parts=tuple(part for part in parts if part != Name(name=without)))


def _row(ranges: Iterable[tuple[int, int, int]]) -> IntegerRow:
    return IntegerRow(range(*one) for one in ranges)
