"""What a probe's report, its end, and clocks mean."""

import sys
from pathlib import Path

import pytest

import perdure
from perdure.cli.doctor_here import judge_clock, seconds_off
from perdure.cli.doctor_slurm import node_findings, why_no_report
from perdure.cli.findings import Health, have_failed
from perdure.engines.slurm.probe_job import ProbeState

REPORT = {
    "host": "n1",
    "python": "/opt/python",
    "perdure": perdure.__version__,
    "commands": ["sbatch", "scontrol", "squeue"],
    "submit": "",
}


def by_check(**other):
    return {one.check: one for one in node_findings({**REPORT, **other})}


def test_a_node_where_all_is_well():
    assert {one.health for one in node_findings(REPORT)} == {Health.OK}


@pytest.mark.parametrize(
    ("other", "check", "health"),
    [
        ({"perdure": "0.0.1"}, "node interpreter", Health.FAILED),
        ({"commands": ["squeue"]}, "node commands", Health.WARNING),
        ({"submit": "sbatch refused: not from here"}, "jobs submit", Health.WARNING),
    ],
)
def test_what_is_not_well_on_a_node_is_said_with_what_to_do(other, check, health):
    found = by_check(**other)[check]
    assert found.health is health
    assert found.advice


@pytest.mark.parametrize(
    ("state", "check", "said"),
    [
        (ProbeState(state="FAILED", exit_code="21:0"), "node home", "does not reach /home/x"),
        (ProbeState(state="FAILED", exit_code="0:53"), "node home", "does not reach /home/x"),
        (ProbeState(state="FAILED", exit_code="22:0"), "node interpreter", sys.executable),
        (ProbeState(state="CANCELLED"), "node", "cancelled"),
        (ProbeState(state="FAILED", exit_code="1:0"), "node", "No module named perdure"),
        (ProbeState(state="TIMEOUT", exit_code="0:15"), "node", "it is TIMEOUT"),
        (ProbeState(state=""), "node", "it is gone"),
    ],
)
def test_why_a_probe_left_no_report(state, check, said):
    printed = "a warning\nNo module named perdure"
    found = why_no_report(state, "n1", printed, Path("/home/x"))
    assert (found.check, found.health) == (check, Health.FAILED)
    assert said in found.text
    assert found.advice
    assert have_failed([found])


@pytest.mark.parametrize(
    ("theirs", "off"), [(10.0, 0.0), (11.0, 0.0), (10.5, 0.0), (13.0, 2.0), (4.0, -6.0)]
)
def test_a_clock_read_between_two_moments(theirs, off):
    assert seconds_off(theirs, 10.0, 11.0) == off


@pytest.mark.parametrize(
    ("off", "health", "said"),
    [
        (0.0, Health.OK, "n1: as our clock"),
        (4.0, Health.OK, "4.0 s ahead of"),
        (-6.0, Health.WARNING, "6.0 s behind"),
    ],
)
def test_a_clock_that_is_off(off, health, said):
    found = judge_clock("node clock", "n1", off)
    assert found.health is health
    assert said in found.text
