"""By what a process knows that it is in a job of a batch system."""

import pytest

from perdure.cli.allocations import element_of, found_allocation, is_script, job_of

SLURM = {"SLURM_JOB_ID": "12"}
SLURM_ELEMENT = {"SLURM_JOB_ID": "14", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "0"}
LSF = {"LSB_JOBID": "7", "LSB_JOBINDEX": "0"}
LSF_ELEMENT = {"LSB_JOBID": "7", "LSB_JOBINDEX": "3"}


@pytest.mark.parametrize(
    ("environment", "engine", "name"),
    [
        (SLURM, "slurm", "12"),
        (SLURM_ELEMENT, "slurm", "12_0"),
        (LSF, "lsf", "7"),
        (LSF_ELEMENT, "lsf", "7[3]"),
    ],
)
def test_the_allocation(environment, engine, name):
    allocation = found_allocation(environment)
    assert allocation is not None
    assert allocation.ids() == {"engine": engine, "job": name}


def test_a_host_of_ones_own():
    assert found_allocation({}) is None
    assert not is_script({})
    assert job_of({}) is None


@pytest.mark.parametrize(
    ("environment", "element"), [(SLURM_ELEMENT, "0"), (LSF_ELEMENT, "3"), (LSF, None), ({}, None)]
)
def test_the_element(environment, element):
    assert element_of(environment) == element


def test_an_interactive_job_of_lsf_is_no_script():
    assert is_script(LSF)
    assert is_script(SLURM)
    assert not is_script({**LSF, "LSB_INTERACTIVE": "Y"})


def test_elements_are_jobs_of_their_own():
    assert job_of(LSF) != job_of(LSF_ELEMENT)
    assert job_of(LSF) == job_of({"LSB_JOBID": "7"})
    assert job_of(SLURM) == "12"
