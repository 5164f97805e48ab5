"""The library's parameter spaces and host requirements as values of our own."""

from typing import Any

from perdure.template.chunks import ChunkSpec
from perdure.template.requirements import Amount, Attribute, HostRequirements
from perdure.template.space import AxisOutline, SpaceOutline, TaskSpace


def task_space(model: Any) -> TaskSpace:
    """The tasks of a step whose ``parameterSpace`` is ``model``; without one: one task."""
    if model is None:
        return TaskSpace.of(SpaceOutline())
    axes: list[AxisOutline] = []
    chunk: ChunkSpec | None = None
    chunk_ranges: tuple[tuple[int, int, int], ...] = ()
    for name, definition in model.taskParameterDefinitions.items():
        kind = definition.type.value
        if definition.chunks is not None:
            chunk = _chunk_spec(name, definition.chunks)
            chunk_ranges = _ranges(definition.range)
        elif isinstance(definition.range, list):
            texts = tuple(str(value) for value in definition.range)
            axes.append(AxisOutline(name=name, type=kind, texts=texts))
        else:
            axes.append(AxisOutline(name=name, type=kind, ranges=_ranges(definition.range)))
    return TaskSpace.of(
        SpaceOutline(
            axes=tuple(axes),
            names=tuple(model.taskParameterDefinitions),
            combination=model.combination,
            chunk=chunk,
            chunk_ranges=chunk_ranges,
        )
    )


def host_requirements(model: Any) -> HostRequirements:
    """A step's ``hostRequirements``, resolved."""
    if model is None:
        return HostRequirements()
    amounts = tuple(
        Amount(
            name=str(one.name).lower(),
            minimum=None if one.min is None else float(one.min),
            maximum=None if one.max is None else float(one.max),
        )
        for one in model.amounts or []
    )
    attributes = tuple(
        Attribute(
            name=str(one.name).lower(),
            any_of=tuple(str(value) for value in one.anyOf or []),
            all_of=tuple(str(value) for value in one.allOf or []),
        )
        for one in model.attributes or []
    )
    return HostRequirements(amounts=amounts, attributes=attributes)


def _chunk_spec(name: str, chunks: Any) -> ChunkSpec:
    # A target of 0 seconds means that there is none (RFC 0001).
    target = int(chunks.targetRuntimeSeconds or 0)
    return ChunkSpec(
        parameter=name,
        default_task_count=int(chunks.defaultTaskCount),
        target_runtime_seconds=target or None,
        is_contiguous=chunks.rangeConstraint.value == "CONTIGUOUS",
    )


def _ranges(values: Any) -> tuple[tuple[int, int, int], ...]:
    if isinstance(values, list):
        return tuple((int(value), int(value) + 1, 1) for value in values)
    return tuple((part.start, part.end + 1, part.step) for part in values.ranges)
