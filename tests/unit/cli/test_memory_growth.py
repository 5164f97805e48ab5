"""``--memory-growth`` as people write it."""

import pytest

from looking_kit import HandMade
from perdure.cli.memory_growth import check_growth, parse_growth
from perdure.errors import UsageError
from perdure.policy.memory_growth import MemoryGrowth
from perdure.store.records.job_document import Options
from perdure.worker.loading import load

TEMPLATE = """
specificationVersion: jobtemplate-2023-09
name: two
steps:
- name: Sized
  hostRequirements: {amounts: [{name: amount.worker.memory, min: 1024}]}
  script: {actions: {onRun: {command: "true"}}}
- name: Unsized
  script: {actions: {onRun: {command: "true"}}}
"""


def test_not_given_is_no_growth():
    assert parse_growth(None, engine="local") is None


@pytest.mark.parametrize(
    ("text", "growth"),
    [
        ("2:64G", MemoryGrowth(factor=2.0, most_mib=65536)),
        ("1.5:900M", MemoryGrowth(factor=1.5, most_mib=900)),
    ],
)
def test_a_factor_and_a_limit(text, growth):
    assert parse_growth(text, engine="slurm") == growth


@pytest.mark.parametrize(
    "text", ["", "2", "64G", "2:", ":64G", "1:64G", "0.5:64G", "17:64G", "nan:64G", "2:1K", "2:x"]
)
def test_what_is_none_is_refused(text):
    with pytest.raises(UsageError, match="--memory-growth"):
        parse_growth(text, engine="slurm")


def test_this_host_gives_out_no_memory():
    with pytest.raises(UsageError, match="--engine slurm"):
        parse_growth("2:64G", engine="local")


@pytest.mark.parametrize(
    ("slurm", "is_refused"), [((), True), (("-t", "5"), True), (("--mem=4G",), False)]
)
def test_a_step_that_nothing_says_the_memory_of_is_refused(slurm, is_refused):
    growth = MemoryGrowth(factor=2.0, most_mib=4096)
    options = Options(engine="slurm", slurm=slurm, memory_growth=growth)
    job = load(HandMade(template=TEMPLATE).document)
    if not is_refused:
        check_growth(options, job)
        return
    with pytest.raises(UsageError, match="step 'Unsized' has at first"):
        check_growth(options, job)


def test_without_the_option_nobody_asks():
    check_growth(Options(), load(HandMade(template=TEMPLATE).document))
