"""What a step asks of a host, what a host has, and what fits side by side.

Only what the host itself can tell is judged: CPUs, memory, GPUs, scratch space, the operating
system and the processor. An amount or attribute that nobody here knows is satisfied only where the
host's description names it.

Source: OpenJD 2023-09, <HostRequirements>.
"""

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

CPUS = "amount.worker.vcpu"
MEMORY_MIB = "amount.worker.memory"
GPUS = "amount.worker.gpu"
GPU_MEMORY_MIB = "amount.worker.gpu.memory"
SCRATCH_MIB = "amount.worker.disk.scratch"

#: Amounts that several launches share; of the others each launch sees all.
_SHARED = (CPUS, MEMORY_MIB, GPUS, SCRATCH_MIB)
_UNITS = {CPUS: "CPUs", MEMORY_MIB: "MiB of memory", GPUS: "GPUs", SCRATCH_MIB: "MiB of scratch"}


class AmountRequirement(Struct, frozen=True, kw_only=True):
    """At least, and at most, so much of something."""

    name: str
    min: float = 0.0
    max: float | None = None


class AttributeRequirement(Struct, frozen=True, kw_only=True):
    """One of these, or all of these."""

    name: str
    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()


class Requirements(Struct, frozen=True, kw_only=True):
    """What a step asks of a host."""

    amounts: tuple[AmountRequirement, ...] = ()
    attributes: tuple[AttributeRequirement, ...] = ()

    def least(self, name: str) -> float:
        """The least amount asked of ``name``; 0 when none is."""
        return max((amount.min for amount in self.amounts if amount.name == name), default=0.0)


class Host(Struct, frozen=True, kw_only=True):
    """What a host has.

    Attributes:
        amounts: by name; what is free of them, for `take`.
        attributes: by name, each with its values.
        gpus: the indexes of its GPUs.
    """

    amounts: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gpus: tuple[int, ...] = ()


class Grant(Struct, frozen=True, kw_only=True):
    """What one launch got.

    Attributes:
        gpus: the indexes for CUDA_VISIBLE_DEVICES; None when the step asks for none.
    """

    amounts: tuple[tuple[str, float], ...] = ()
    gpus: tuple[int, ...] | None = None


def unsatisfiable(requirements: Requirements, host: Host) -> tuple[str, ...]:
    """Why the host can never run the step; empty when it can."""
    reasons = [reason for amount in requirements.amounts for reason in _short_of(amount, host)]
    reasons += [
        reason for attribute in requirements.attributes for reason in _mismatch(attribute, host)
    ]
    return tuple(reasons)


def take(requirements: Requirements, free: Host) -> tuple[Grant, Host] | None:
    """A grant and what is free after it; None when it does not fit now."""
    amounts = dict(free.amounts)
    asked = [(name, requirements.least(name)) for name in _SHARED]
    granted = tuple((name, amount) for name, amount in asked if amount > 0)
    for name, amount in granted:
        if amounts.get(name, 0.0) < amount:
            return None
        amounts[name] -= amount
    gpu_count = _whole(requirements.least(GPUS))
    if gpu_count > len(free.gpus):
        return None
    gpus = free.gpus[:gpu_count] if gpu_count else None
    left = replace(free, amounts=amounts, gpus=free.gpus[gpu_count:])
    return Grant(amounts=granted, gpus=gpus), left


def minus(host: Host, grants: tuple[Grant, ...]) -> Host:
    """What is free of ``host`` while ``grants`` are in use; never less than nothing."""
    amounts = dict(host.amounts)
    taken: set[int] = set()
    for grant in grants:
        for name, amount in grant.amounts:
            amounts[name] = max(0.0, amounts.get(name, 0.0) - amount)
        taken.update(grant.gpus or ())
    gpus = tuple(gpu for gpu in host.gpus if gpu not in taken)
    return replace(host, amounts=amounts, gpus=gpus)


def _short_of(amount: AmountRequirement, host: Host) -> tuple[str, ...]:
    """Why the host has not enough, or too much, of something."""
    unit = _UNITS.get(amount.name, amount.name)
    has = host.amounts.get(amount.name, 0.0)
    if has < amount.min:
        return (f"{amount.min:g} {unit} are required, the host has {has:g}",)
    if amount.max is not None and has > amount.max and amount.name not in _SHARED:
        return (f"at most {amount.max:g} {unit} are allowed, the host has {has:g}",)
    return ()


def _mismatch(attribute: AttributeRequirement, host: Host) -> tuple[str, ...]:
    """Why the host's attribute is not one of those asked for."""
    has = {value.lower() for value in host.attributes.get(attribute.name, ())}
    shown = ", ".join(sorted(has)) or "none"
    reasons = []
    if attribute.any_of and not has & {value.lower() for value in attribute.any_of}:
        wanted = " or ".join(attribute.any_of)
        reasons.append(f"{attribute.name} must be {wanted}; the host has {shown}")
    if missing := [value for value in attribute.all_of if value.lower() not in has]:
        reasons.append(f"{attribute.name} must have {', '.join(missing)}; the host has {shown}")
    return tuple(reasons)


def _whole(count: float) -> int:
    """GPUs come whole."""
    return int(-(-count // 1))
