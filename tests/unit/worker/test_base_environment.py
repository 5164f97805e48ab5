"""What a task's environment is made of, where a worker runs in an allocation of Slurm."""

import pytest

from perdure.store.layout import JobId
from perdure.store.records.job_document import JobDocument, Text
from perdure.worker.task_environment import base_environment


def environment(tmp_path, submitted, carried):
    document = JobDocument(
        job=JobId("0" * 26),
        name="Job",
        template=Text(name="t", text=""),
        template_dir="/",
        current_dir="/",
        variables={"PATH": "/usr/bin:/bin", **submitted},
    )
    return base_environment(document, carried, python_dir=tmp_path)


@pytest.mark.parametrize("submitted", [{}, {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "64"}])
def test_a_task_sees_the_allocation_that_it_runs_in(tmp_path, submitted):
    carried = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "CUDA_VISIBLE_DEVICES": "2", "X": "1"}
    found = environment(tmp_path, submitted, carried)
    assert found["SLURM_JOB_ID"] == "7"
    assert found["SLURMD_NODENAME"] == "n1"
    assert found["CUDA_VISIBLE_DEVICES"] == "2"
    assert "SLURM_NTASKS" not in found
    assert "X" not in found


def test_a_task_outside_of_slurm_sees_no_allocation_of_the_submitter(tmp_path):
    found = environment(tmp_path, {"SLURM_JOB_ID": "1", "A": "b"}, {"CUDA_VISIBLE_DEVICES": "2"})
    assert "SLURM_JOB_ID" not in found
    assert found["A"] == "b"
    assert "CUDA_VISIBLE_DEVICES" not in found
