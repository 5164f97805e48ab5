"""What Slurm prints of a job's steps; the texts are those of Slurm 22.05."""

import pytest

from perdure.engines.slurm.steps_format import (
    Step,
    differing,
    lost_node,
    parse_places,
    parse_steps,
)

STEPS = """\
StepId=3.batch UserId=1002 StartTime=2026-11-30T13:54:15 TimeLimit=UNLIMITED State=RUNNING \
Partition=low NodeList=n1 Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null) TRES=(null) \
ResvPorts=(null) CPUFreqReq=Default SrunHost:Pid=(null):0
StepId=3.0 UserId=1002 StartTime=2026-11-30T13:54:15 TimeLimit=UNLIMITED State=RUNNING \
Partition=low NodeList=n[1-2] Nodes=2 CPUs=2 Tasks=2 Name=sleep Network=(null) \
TRES=cpu=2,mem=0,node=2 ResvPorts=(null) CPUFreqReq=Default Dist=Cyclic SrunHost:Pid=vm:9605
"""


def test_the_steps_of_srun_are_read_and_the_scripts_own_is_passed_over():
    assert parse_steps(STEPS) == (Step(step="3.0", state="RUNNING", host="vm", pid=9605),)
    assert parse_steps("No steps in the system\n") == ()


@pytest.mark.parametrize(
    ("named", "here", "is_it"),
    [
        ("vm", "vm", True),
        ("vm", "vm.example.org", True),
        ("vm.example.org", "vm", True),
        ("vm2", "vm", False),
        ("(null)", "vm", False),
    ],
)
def test_where_a_step_was_started(named, here, is_it):
    assert Step(step="3.0", state="", host=named, pid=1).is_of(here) is is_it


def test_what_is_not_the_same_on_every_node():
    said = "n1 0 11\nn1 1 12\nn1 2\nn2 0 11\nn2 1 99\nn2 2\nnoise\nn3 0 11\nn3 1 12\nn3 2 13\n"
    places = parse_places(said, 3)
    assert places == {
        "n1": ["11", "12", ""],
        "n2": ["11", "99", ""],
        "n3": ["11", "12", "13"],
    }
    assert differing(places, "n1") == {1: "n2", 2: "n1"}
    assert differing({}, "n1") == {}


@pytest.mark.parametrize(
    ("count", "lost"),
    [("2", False), ("2-2", False), ("1", True), ("1-2", True), ("", False), ("x", False)],
)
def test_a_node_that_a_job_has_lost(count, lost):
    assert bool(lost_node({"NumNodes": count}, 2)) is lost
    assert lost_node({}, 2) == ""
