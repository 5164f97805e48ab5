"""What a host can run at all, and what fits beside what runs."""

import pytest

from perdure.policy.resources import (
    CPUS,
    GPU_MEMORY_MIB,
    GPUS,
    MEMORY_MIB,
    AmountRequirement,
    AttributeRequirement,
    Grant,
    Host,
    Requirements,
    minus,
    take,
    unsatisfiable,
)

HOST = Host(
    amounts={CPUS: 8.0, MEMORY_MIB: 16_000.0, GPUS: 2.0, GPU_MEMORY_MIB: 24_000.0},
    attributes={"attr.worker.os.family": ("linux",), "attr.worker.cpu.arch": ("x86_64",)},
    gpus=(0, 1),
)


def amounts(**least):
    names = {"cpus": CPUS, "memory": MEMORY_MIB, "gpus": GPUS, "gpu_memory": GPU_MEMORY_MIB}
    return Requirements(
        amounts=tuple(AmountRequirement(name=names[name], min=n) for name, n in least.items())
    )


def attribute(name, **more):
    return Requirements(attributes=(AttributeRequirement(name=name, **more),))


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        (Requirements(), None),
        (amounts(cpus=8, memory=16_000, gpus=2, gpu_memory=24_000), None),
        (amounts(cpus=9), "9 CPUs are required, the host has 8"),
        (amounts(memory=16_001), "16001 MiB of memory are required, the host has 16000"),
        (amounts(gpus=3), "3 GPUs are required, the host has 2"),
        (amounts(gpu_memory=24_001), "amount.worker.gpu.memory"),
        (
            Requirements(amounts=(AmountRequirement(name="amount.licences", min=1),)),
            "1 amount.licences are required, the host has 0",
        ),
        (Requirements(amounts=(AmountRequirement(name=CPUS, min=1, max=4),)), None),
        (
            Requirements(amounts=(AmountRequirement(name=GPU_MEMORY_MIB, max=8_000),)),
            "at most 8000",
        ),
        (attribute("attr.worker.os.family", any_of=("linux", "windows")), None),
        (attribute("attr.worker.os.family", any_of=("LINUX",)), None),
        (attribute("attr.worker.os.family", any_of=("windows",)), "the host has linux"),
        (attribute("attr.worker.cpu.arch", all_of=("x86_64",)), None),
        (attribute("attr.worker.cpu.arch", all_of=("x86_64", "arm64")), "must have arm64"),
        (attribute("attr.site", any_of=("a",)), "the host has none"),
    ],
)
def test_satisfiable_or_why_not(requirements, reason):
    reasons = unsatisfiable(requirements, HOST)
    assert (reasons == ()) == (reason is None)
    assert reason is None or reason in reasons[0]


def test_all_reasons_are_told():
    assert len(unsatisfiable(amounts(cpus=9, memory=99_999, gpus=3), HOST)) == 3


def test_launches_fit_side_by_side_until_something_is_used_up():
    need = amounts(cpus=2, memory=6_000)
    free, grants = HOST, []
    while (taken := take(need, free)) is not None:
        grant, free = taken
        grants.append(grant)
    assert len(grants) == 2  # memory, not CPUs, ends it
    assert free.amounts[MEMORY_MIB] == 4_000
    assert minus(HOST, tuple(grants)) == free


def test_gpus_are_given_by_index_and_never_twice():
    first, free = take(amounts(gpus=1), HOST)
    second, free = take(amounts(gpus=1), free)
    assert (first.gpus, second.gpus) == ((0,), (1,))
    assert take(amounts(gpus=1), free) is None
    assert take(amounts(cpus=1), free)[0].gpus is None
    assert minus(HOST, (first,)).gpus == (1,)
    assert take(amounts(gpus=0.5), HOST)[0].gpus == (0,)


def test_a_host_that_shrank_is_never_less_than_nothing():
    small = Host(amounts={CPUS: 1.0})
    assert minus(small, (Grant(amounts=((CPUS, 4.0),), gpus=(7,)),)).amounts == {CPUS: 0.0}
