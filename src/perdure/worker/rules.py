"""What a step says about its lineages: limits, resumability, and how a chunk is cut again."""

from msgspec.structs import replace

from perdure.policy.counting import DEFAULT_LIMITS
from perdure.store.records.job_document import Options
from perdure.template.outline import StepOutline
from perdure.worker.deciding import StepRules


def rules_of(step: StepOutline, options: Options) -> StepRules:
    """What a step says about its lineages."""
    written = {**options.limits, **options.step_limits.get(step.name, {})}
    limits = replace(DEFAULT_LIMITS, **written)

    def split(values: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        space = step.space
        assert space.chunk is not None
        name = space.chunk.parameter
        return tuple(space.chunk_values({name: text}) for text in space.chunk_texts(values))

    return StepRules(
        is_resumable=step.is_resumable,
        limits=limits,
        split=split,
        must_deliver=options.deliver is not None,
    )
