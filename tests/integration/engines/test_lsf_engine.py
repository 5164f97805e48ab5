"""What LSF's states and reasons mean for a worker, with a bjobs that prints what a test says."""

import json
import os

import pytest

from perdure.engines import answers
from perdure.engines.causes import TOLD_LATER
from perdure.engines.lsf import engine as lsf_engine
from perdure.engines.lsf.engine import LsfEngine, ids_of
from perdure.engines.tokens import Token
from perdure.errors import EngineUnavailable

IDS = ids_of("7[2]")
OWNER = "TERM_OWNER: job killed by owner"
LIMIT = "TERM_RUNLIMIT: job killed after reaching LSF run time limit"


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Makes bjobs say that element 2 of job 7 is in a state, for a reason."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(answers, "FRESH_SECONDS", 0.0)
    path = tmp_path / "bjobs"

    def say(state, reason="", code=""):
        record = {"JOBID": "7", "JOBINDEX": "2", "JOB_NAME": "perdure-ab[2]"}
        record |= {"STAT": state, "EXIT_REASON": reason, "EXIT_CODE": code}
        records = [record] if state else []
        text = json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records})
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)

    return say


@pytest.mark.parametrize("state", ["PEND", "RUN", "PSUSP", "SSUSP", "UNKWN", "ZOMBI", "NEW_STATE"])
def test_whatever_is_not_over_is_there(says, state):
    says(state)
    engine = LsfEngine()
    assert engine.is_there(IDS)
    assert engine.find(str(Token(array="ab", index=2))) == IDS
    assert engine.why_stopped(IDS, has_begun=False) is None


@pytest.mark.parametrize("state", ["DONE", "EXIT", "POST_DONE", "POST_ERR", ""])
def test_what_is_over_or_forgotten_is_not(says, state):
    says(state)
    engine = LsfEngine()
    assert not engine.is_there(IDS)
    assert engine.find(str(Token(array="ab", index=2))) is None
    assert not engine.may_live(IDS)


@pytest.mark.parametrize("index", [1, 22])
def test_another_element_is_not_found(says, index):
    says("RUN")
    assert LsfEngine().find(str(Token(array="ab", index=index))) is None


@pytest.mark.parametrize("state", ["UNKWN", "ZOMBI", "SSUSP", "USUSP"])
def test_what_is_out_of_reach_or_stopped_may_live_for_ever(says, state, monkeypatch):
    monkeypatch.setattr(lsf_engine, "_TOLD_SECONDS", 0.0)
    says(state)
    assert LsfEngine().may_live(IDS)


def test_what_is_running_may_live_until_lsf_had_its_time_to_notice(says, monkeypatch):
    says("RUN")
    engine = LsfEngine()
    assert engine.may_live(IDS)
    assert engine.may_live(IDS)
    monkeypatch.setattr(lsf_engine, "_TOLD_SECONDS", 0.0)
    assert not engine.may_live(IDS)


def test_a_run_that_was_put_back_is_over(says):
    says("PEND")
    assert not LsfEngine().may_live(IDS)


def test_an_element_that_runs_says_nothing_of_its_own_earlier_runs(says):
    says("RUN")
    assert not LsfEngine(own_job="7[2]").may_live(IDS)


@pytest.mark.parametrize("has_begun", [True, False])
def test_what_a_person_ended_stays_stopped(says, has_begun):
    says("EXIT", OWNER, "130")
    engine = LsfEngine()
    assert not engine.is_there(IDS)
    assert engine.why_stopped(IDS, has_begun=has_begun) == f"LSF's job 7[2] was ended: {OWNER}"


@pytest.mark.parametrize("told_later", [True, False])
def test_what_lost_its_place_goes_on(says, told_later):
    says("EXIT", LIMIT, "140")
    engine = LsfEngine()
    ids = {**IDS, TOLD_LATER: True} if told_later else IDS
    assert not engine.is_there(ids)
    assert engine.why_stopped(ids, has_begun=False) is None


def test_what_was_told_to_end_and_nobody_knows_why_is_held(says):
    says("EXIT", "", "143")
    engine = LsfEngine()
    ids = {**IDS, TOLD_LATER: True}
    assert not engine.is_there(ids)
    said = engine.why_stopped(ids, has_begun=False)
    assert said is not None
    assert "does not say by whom" in said
    assert "143" in said
    assert engine.why_stopped(ids, has_begun=True) is None
    assert engine.why_stopped(IDS, has_begun=False) is None


def test_what_lsf_forgot_before_it_began_is_held(says):
    says("")
    engine = LsfEngine()
    assert not engine.is_there(IDS)
    assert "does not know job 7[2]" in (engine.why_stopped(IDS, has_begun=False) or "")
    assert engine.why_stopped(IDS, has_begun=True) is None


def test_while_nobody_answered_yet_everything_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    path = tmp_path / "bjobs"
    path.write_text("#!/bin/sh\necho 'LSF is down. Please wait ...' >&2\nexit 255\n")
    path.chmod(0o755)
    engine = LsfEngine()
    assert engine.is_there(IDS)
    with pytest.raises(EngineUnavailable, match="does not answer"):
        engine.why_stopped(IDS, has_begun=False)


def test_whoever_asks_why_first_gets_an_answer(says):
    says("EXIT", OWNER, "130")
    assert OWNER in (LsfEngine().why_stopped(IDS, has_begun=True) or "")


def test_what_was_said_last_holds_on_while_nobody_answers(says, tmp_path):
    says("RUN")
    engine = LsfEngine()
    assert engine.is_there(IDS)
    (tmp_path / "bjobs").write_text("#!/bin/sh\nexec sh -c 'echo LSF is down >&2; exit 255'\n")
    assert engine.is_there(IDS)
