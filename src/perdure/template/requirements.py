"""What a step demands of the host that runs it, with every format string resolved.

The standard amounts have fields of their own; all others are kept by name, so that a scheduler
that does not know one can say so instead of ignoring it.

Source: Open Job Description 2023-09 §3.3; ``amount.worker.memory``, ``….gpu.memory`` and
``….disk.scratch`` are in MiB.
"""

from msgspec import Struct

CPUS = "amount.worker.vcpu"
MEMORY = "amount.worker.memory"
GPUS = "amount.worker.gpu"
GPU_MEMORY = "amount.worker.gpu.memory"
SCRATCH = "amount.worker.disk.scratch"
OS_FAMILY = "attr.worker.os.family"
CPU_ARCH = "attr.worker.cpu.arch"


class Amount(Struct, frozen=True, kw_only=True):
    """A countable demand; names are in lower case, since they compare without case."""

    name: str
    minimum: float | None
    maximum: float | None


class Attribute(Struct, frozen=True, kw_only=True):
    """A demand for properties: one of ``any_of`` (where given) and all of ``all_of``."""

    name: str
    any_of: tuple[str, ...]
    all_of: tuple[str, ...]

    def allows(self, values: tuple[str, ...]) -> bool:
        """Whether a host whose property has ``values`` will do; compared without case."""
        has = {value.lower() for value in values}
        any_of = {value.lower() for value in self.any_of}
        return (not any_of or bool(any_of & has)) and {v.lower() for v in self.all_of} <= has


class HostRequirements(Struct, frozen=True, kw_only=True):
    """All that a step demands; the empty one demands nothing."""

    amounts: tuple[Amount, ...] = ()
    attributes: tuple[Attribute, ...] = ()

    def amount(self, name: str) -> Amount | None:
        """The demand for ``name``, if there is one."""
        return next((amount for amount in self.amounts if amount.name == name), None)

    def attribute(self, name: str) -> Attribute | None:
        """The demand on the property ``name``, if there is one."""
        return next((one for one in self.attributes if one.name == name), None)

    def _minimum(self, name: str) -> float | None:
        amount = self.amount(name)
        return None if amount is None else amount.minimum

    @property
    def cpus(self) -> float | None:
        """CPUs that the task takes; parts of one are allowed."""
        return self._minimum(CPUS)

    @property
    def memory_mib(self) -> float | None:
        """Memory that the task takes, in MiB."""
        return self._minimum(MEMORY)

    @property
    def gpus(self) -> float | None:
        """GPUs that the task takes."""
        return self._minimum(GPUS)

    @property
    def gpu_memory_mib(self) -> float | None:
        """Memory of each GPU, in MiB."""
        return self._minimum(GPU_MEMORY)

    @property
    def scratch_mib(self) -> float | None:
        """Scratch space that the task takes, in MiB."""
        return self._minimum(SCRATCH)
