import io
import json
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from rich.console import Console

from looking_kit import GONE_PID, LAUNCH, HandMade
from perdure.cli.status import show_status
from perdure.journal.heartbeat import Heartbeat
from perdure.journal.journal_format import Kind
from perdure.manager import facts_reading
from perdure.manager.explaining import explain_job, explain_task
from perdure.manager.facts import from_json
from perdure.manager.facts_reading import read_facts
from perdure.manager.job_status import look, status_of
from perdure.manager.lineages import meant_base, next_base, stored_lineages
from perdure.manager.positions import is_current, positions_from_json
from perdure.policy.states import State
from perdure.store import layout
from perdure.store.records.job_document import Options

SECOND = "01jdxyz0000000000000000002"
NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
VALUES = {"Frame": "1", "Camera": "left,top"}


def status(made, **options):
    facts, _ = read_facts(made.view(), **options)
    return status_of(made.document, facts, look(made.driver, made.job, facts, NOON))


def running(pid=None):
    """One worker that has done task 0 and is at task 1."""
    made = HandMade()
    made.launch(pid=pid)
    made.share(0, 3)
    made.begun(made.key(0), VALUES)
    made.ended(made.key(0), "SUCCEEDED")
    made.begun(made.key(1), {"Frame": "1", "Camera": "right"})
    return made


def test_a_job_nobody_has_begun_is_pending_and_says_that_nobody_works_on_it():
    found = status(HandMade())
    assert found.status.state is State.PENDING
    assert "perdure resume" in found.status.reason
    assert found.to_json()["manager"] is None
    assert found.to_json()["steps"][0]["tasks"]["total"] == 40


def test_what_a_living_worker_does_is_running():
    found = status(running())
    tasks = found.to_json()["steps"][0]["tasks"]
    assert (tasks["succeeded"], tasks["running"], tasks["pending"]) == (1, 1, 38)
    assert found.status.state is State.RUNNING
    assert [a.outcome for a in found.facts.attempts] == ["SUCCEEDED", None]


def test_what_a_worker_that_is_gone_did_waits():
    found = status(running(pid=GONE_PID))
    tasks = found.to_json()["steps"][0]["tasks"]
    assert (tasks["succeeded"], tasks["running"], tasks["pending"]) == (1, 0, 39)
    assert found.status.state is State.PENDING
    assert "worker is gone" in found.facts.attempts[-1].reason


def test_progress_and_words_come_out_of_the_heartbeat():
    made = running()
    about = {"task": made.key(1), "progress": 40.0, "status": "busy", "torn": 2, "trouble": "full"}
    Heartbeat(made.driver, layout.heartbeat(made.job, LAUNCH)).beat(about)
    found = status(made)
    assert (found.facts.attempts[-1].progress, found.facts.attempts[-1].status) == (40.0, "busy")
    assert any("2 saves were torn" in warning for warning in found.warnings)
    assert any("full" in warning for warning in found.warnings)


def test_a_heartbeat_of_another_task_says_nothing_about_this_one():
    made = running()
    Heartbeat(made.driver, layout.heartbeat(made.job, LAUNCH)).beat({"task": "x", "progress": 9.0})
    assert status(made).facts.attempts[-1].progress is None


def test_a_resumable_task_without_a_checkpoint_for_long_is_warned_about():
    made = running()
    assert any("no checkpoint since" in warning for warning in status(made).warnings)
    late = replace(made.document)
    facts, _ = read_facts(made.view())
    just_now = datetime(2026, 11, 29, 10, 1, tzinfo=UTC)
    seen = look(made.driver, made.job, facts, just_now)
    assert not status_of(late, facts, seen).warnings


def noted(made, index, what, text):
    about = {"step": 1, "task": made.key(index), "attempt": 1}
    made.journal(Kind.NOTED, **about, what=what, text=text, at="2026-11-29T10:00:02.000Z")


def test_what_is_told_about_room_is_a_warning_while_the_job_goes_on(monkeypatch):
    monkeypatch.setattr(facts_reading, "EVERY_ATTEMPT_TASKS", 10)
    made = running()
    noted(made, 0, "space", "the store will be full at 10:00Z, in 20 seconds")
    noted(made, 1, "room", "not committed: no space left")
    noted(made, 1, "save", "something else")
    warnings = status(made).to_json()["warnings"]
    told = "the store will be full at 10:00Z, in 20 seconds (said at 2026-11-29T10:00:02.000Z)"
    assert any("left" in one and one.endswith(told) for one in warnings)
    assert any("]: not committed: no space" in warning for warning in warnings)
    assert not any("something else" in warning for warning in warnings)
    assert any(told in sentence for sentence in next(explain_job(status(made))).sentences)
    made.record("settled", step=None, state="FAILED", outcomes={}, upto=0, reason="")
    assert not any("full" in warning for warning in status(made).warnings)


def test_the_settled_record_decides_until_a_person_resumes():
    made = HandMade()
    outcomes = {"failed": 1, "succeeded": 39}
    made.record("settled", step=1, state="FAILED", outcomes=outcomes, upto=0, reason="1 failed")
    made.record("settled", step=2, state="CANCELED", outcomes={"canceled": 1}, upto=0)
    made.record("settled", step=None, state="FAILED", outcomes={}, upto=0, reason="step 1 failed")
    found = status(made)
    assert (found.status.state, found.status.reason) == (State.FAILED, "step 1 failed")
    assert found.to_json()["steps"][0]["tasks"]["failed"] == 1
    assert found.facts.settled_at is not None
    made.record("resume", scope={}, lifts=0)
    assert status(made).status.state is State.PENDING


def test_a_persons_stop_suspends_what_nobody_runs():
    made = HandMade()
    made.record("suspend", scope={}, by="user")
    found = status(made)
    assert found.status.state is State.SUSPENDED
    assert found.to_json()["steps"][0]["tasks"]["suspended"] == 40


def test_what_was_canceled_has_no_next_start():
    made = HandMade()
    failed_thrice(made)
    made.record("cancel", scope={}, by="user")
    (task,) = status(made).facts.tasks
    assert (task.state, task.base) == ("CANCELED", None)
    view = made.view()
    (stored,) = stored_lineages(view)
    assert next_base(view, stored) is None


def failed_thrice(made):
    """Task 0 saved once, and then failed three times from its checkpoint."""
    key = made.key(0)
    made.launch()
    made.share(0, 0)
    made.begun(key, VALUES)
    made.save(key, "aa" * 32, state="half")
    made.ended(key, "FAILED", cause="exit", exit_code=1, saves={"announced": 2, "torn": 1})
    for attempt in (2, 3, 4):
        made.claim(key, attempt, base=1)
        made.begun(key, VALUES, attempt=attempt, action="onCheckpointResume", base=1)
        made.ended(key, "FAILED", attempt=attempt, cause="exit", exit_code=1)
    return key


def test_a_held_task_shows_its_choices_with_the_lines_that_choose():
    made = HandMade()
    key = failed_thrice(made)
    found = status(made)
    (task,) = found.facts.tasks
    assert (task.held, task.choices, task.key) == (True, (1,), key)
    explanation = explain_task(found, task)
    line = f"perdure resume {made.job} --task {key} --from"
    assert any(command.startswith(f"{line} 1") for command in explanation.commands)
    assert f"{line} start" in explanation.commands
    text = "\n".join(explanation.sentences)
    assert "attempt 4 on here, from checkpoint 1: FAILED" in text
    assert "1 torn" in text


def failed_once():
    made = HandMade()
    key = made.key(0)
    made.launch()
    made.share(0, 0)
    made.begun(key, VALUES)
    made.save(key, "aa" * 32)
    made.ended(key, "FAILED", cause="exit", exit_code=1)
    return made, key


def test_while_a_failed_task_waits_for_its_next_try_its_logs_are_pointed_at():
    made, key = failed_once()
    found = status(made)
    explanation = explain_task(found, found.facts.tasks[0])
    assert explanation.commands == (f"perdure logs {made.job} {key}  # what it printed",)
    assert "the next attempt starts from checkpoint 1, its newest" in str(explanation.sentences)


def test_a_suspended_task_says_what_it_goes_on_from():
    made, _ = failed_once()
    made.record("suspend", scope={}, by="user")
    found = status(made)
    explanation = explain_task(found, found.facts.tasks[0])
    assert "when it is resumed it starts from checkpoint 1, its newest" in explanation.sentences


def managed_by(made, pid=None):
    """Its manager is this process, or one that is no more."""
    Heartbeat(made.driver, layout.manager(made.job)).beat(made.process(pid))
    return made


def test_a_running_task_of_which_an_attempt_failed_is_explained_with_the_job():
    made, key = failed_once()
    made.begun(key, VALUES, attempt=2, action="onCheckpointResume", base=1)
    made.claim(key, 2, base=1)
    found = status(managed_by(made))
    assert found.status.state is State.RUNNING
    (about,) = [one for one in explain_job(found) if key in one.about]
    assert about.state == "RUNNING"
    assert any("attempt 1 on here, from the beginning: FAILED" in s for s in about.sentences)
    assert about.commands == (f"perdure logs {made.job} {key}  # what it printed",)


def test_a_running_task_of_which_nothing_went_wrong_is_not():
    made = managed_by(running())
    assert len(list(explain_job(status(made)))) == 2  # the job, and the step that waits


@pytest.mark.parametrize(
    ("manage", "says"),
    [
        (lambda made: managed_by(made, GONE_PID), "its manager is gone: "),
        (lambda made: made, "nobody manages it: "),
        (managed_by, None),
    ],
)
def test_a_job_that_goes_on_without_a_manager_says_so_and_how_to_manage_it(manage, says):
    made = manage(running())
    found, line = status(made), f"perdure resume {made.job}"
    job = next(explain_job(found))
    assert found.status.state is State.RUNNING
    assert found.status.reason.startswith(says or "")
    assert (found.status.reason in job.sentences) is (says is not None)
    assert (line in found.status.reason, job.commands) == ((True, (line,)) if says else (False, ()))


@pytest.mark.parametrize(("settled", "says"), [(False, " is gone"), (True, "Manager: none")])
def test_a_manager_that_is_gone_is_missed_only_while_there_are_turns_to_make(settled, says):
    made = managed_by(running(), GONE_PID)
    if settled:
        made.record("settled", step=None, state="SUCCEEDED", outcomes={}, upto=0, reason="")
    shown = io.StringIO()
    show_status(Console(file=shown, width=400), status(made))
    (line,) = [line for line in shown.getvalue().splitlines() if line.startswith("Manager")]
    assert line.rstrip().endswith(says)


@pytest.mark.parametrize(("pid", "is_told"), [(None, True), (GONE_PID, False)])
def test_a_store_that_does_not_take_the_managers_records_is_a_warning_while_it_lives(pid, is_told):
    made = running()
    about = {**made.process(pid), "trouble": "no space left"}
    Heartbeat(made.driver, layout.manager(made.job)).beat(about)
    found = status(made)
    told = "the store does not take the job's records: no space left"
    assert (told in found.warnings) is is_told
    assert (told in next(explain_job(found)).sentences) is is_told


def test_what_a_suspended_task_said_last_is_told():
    made = running()
    words = {"progress": 25.0, "status": "half of it"}
    made.ended(made.key(1), "SUSPENDED", by="user", **words)
    made.record("suspend", scope={}, by="user")
    found = status(made)
    attempt = found.to_json()["attempts"][-1]
    assert (attempt["progress"], attempt["status"]) == (25.0, "half of it")
    explanations = list(explain_job(found))
    assert any("  it said last: 25 %, half of it" in one.sentences for one in explanations)
    shown = io.StringIO()
    show_status(Console(file=shown, width=400), found)
    assert "25%" in shown.getvalue()


def test_a_program_that_never_ran_said_nothing_about_the_checkpoint():
    made, key = failed_once()
    made.claim(key, 2, base=1)
    made.begun(key, VALUES, attempt=2, action="onCheckpointResume", base=1)
    made.ended(key, "NOT_STARTED", attempt=2, cause="enter", resume_status="unknown")
    found = status(made)
    assert found.facts.attempts[-1].resume_status is None
    explanation = explain_task(found, found.facts.tasks[0])
    assert not any("the program says" in sentence for sentence in explanation.sentences)


def test_attempts_carry_their_checkpoints_and_where_they_began():
    made = HandMade()
    key = failed_thrice(made)
    attempts = [a for a in status(made).facts.attempts if a.key == key]
    assert [a.number for a in attempts] == [1, 2, 3, 4]
    assert [a.resumed_from for a in attempts] == [None, 1, 1, 1]
    assert [c.sequence for c in attempts[0].checkpoints] == [1]
    assert attempts[0].checkpoints[0].state == "half"
    assert attempts[0].task == "Render[Frame=1,Camera=left,top]"


def test_an_attempt_whose_launch_is_fenced_without_a_word_is_lost():
    made = running()
    made.record("seal", launch=LAUNCH, by="x", counter=None)
    length = sum(len(made.driver.get(k)) for k in made.driver.list(f"jobs/{made.job}/launches"))
    made.record("fence", launch=LAUNCH, offset=length)
    lost = status(made).facts.attempts[-1]
    assert (lost.outcome, lost.ended_at) == ("LOST", None)
    assert "nobody saw it end" in lost.reason


def test_an_attempt_whose_worker_ended_of_an_error_says_which():
    made = HandMade()
    made.launch()
    made.share(0, 1)
    made.begun(made.key(0), VALUES)
    made.begun(made.key(1), VALUES)
    made.ended(made.key(1), "SUCCEEDED")
    made.journal(Kind.CLOSED, trouble="a bug")
    facts, _ = read_facts(made.view(), every_attempt=True)
    reasons = {attempt.key: attempt.reason for attempt in facts.attempts}
    assert reasons[made.key(0)] == "its worker ended of an error: a bug"
    assert reasons[made.key(1)] == "it SUCCEEDED"


def test_big_jobs_list_what_went_otherwise_than_well(monkeypatch):
    monkeypatch.setattr(facts_reading, "EVERY_ATTEMPT_TASKS", 10)
    made = HandMade()
    failed_thrice(made)
    made.share(1, 3)
    for index in (1, 2, 3):
        made.begun(made.key(index), VALUES)
        made.ended(made.key(index), "SUCCEEDED")
    found = status(made)
    assert {a.key for a in found.facts.attempts} == {made.key(0)}
    assert found.facts.attempts_left_out == 3
    assert len(status(made, every_attempt=True).facts.attempts) == 7


def test_facts_survive_json():
    made = HandMade()
    failed_thrice(made)
    facts, positions = read_facts(made.view())
    assert from_json(json.loads(json.dumps(facts.to_json()))) == facts
    assert positions_from_json(json.loads(json.dumps(positions.to_json()))) == positions


@pytest.mark.parametrize(
    "grow",
    [
        lambda made: made.record("suspend", scope={}, by="user"),
        lambda made: made.share(1, 1),
        lambda made: made.begun(made.key(1), VALUES),
        lambda made: made.save(made.key(0), "bb" * 32),
        lambda made: made.launch(SECOND),
    ],
)
def test_facts_hold_until_a_log_or_a_journal_grows(grow):
    made = HandMade()
    failed_thrice(made)
    _, positions = read_facts(made.view())
    assert is_current(made.driver, made.job, positions)
    grow(made)
    assert not is_current(made.driver, made.job, positions)


def test_facts_of_a_running_task_end_with_its_next_checkpoint():
    made = running()
    _, positions = read_facts(made.view())
    assert is_current(made.driver, made.job, positions)
    made.save(made.key(1), "cc" * 32)
    assert not is_current(made.driver, made.job, positions)


def test_a_damaged_journal_is_told():
    made = running()
    key = layout.journal(made.job, LAUNCH)
    made.driver.append(key, b"nonsense\tnonsense\n")
    assert any("damaged" in warning for warning in status(made).warnings)


def test_a_jobs_explanation_begins_with_the_job_and_names_what_waits():
    made = HandMade()
    failed_thrice(made)
    explanations = list(explain_job(status(made)))
    assert explanations[0].about.startswith("Job ")
    assert any(
        one.about == "Step Encode" and "waits for step Render" in one.sentences[0]
        for one in explanations
    )
    assert any(one.state == "SUSPENDED (held)" for one in explanations)


def test_pieces_split_off_by_a_claim_are_counted_at_once():
    from looking_kit import CHUNKS

    made = HandMade(template=CHUNKS)
    made.launch()
    made.share(0, 0)
    key = made.key(0)
    made.begun(key, {"Frame": "1-5"})
    made.ended(key, "FAILED", cause="exit", exit_code=1)
    log = made.log(layout.lineage_log(made.job, 1, key))
    described = {"attempt": 2, "launch": LAUNCH, "base": None, "values": {"Frame": "1-2"}}
    log.append({"kind": "claim", **described, "split": [{"Frame": "4-5"}]})
    assert status(made).to_json()["steps"][0]["tasks"]["total"] == 5


def passed_over(made, ran=1.0):
    """Task 0 saved twice; three attempts from its second checkpoint failed just now."""
    key = made.key(0)
    made.launch()
    made.share(0, 0)
    made.begun(key, VALUES)
    made.save(key, "aa" * 32)
    made.save(key, "bb" * 32)
    made.ended(key, "FAILED", cause="exit", exit_code=1)
    for attempt in (2, 3, 4):
        made.claim(key, attempt, base=2)
        made.begun(key, VALUES, attempt=attempt, action="onCheckpointResume", base=2)
        made.ended(key, "FAILED", attempt=attempt, cause="exit", exit_code=1, ran=ran)
    return key


def bases(made):
    """The next start of task 0 as `status` says it, and as `checkpoints` does."""
    (task,) = status(made).facts.tasks
    view = made.view()
    (stored,) = stored_lineages(view)
    assert meant_base(view, stored) == next_base(view, stored)
    return task.base, next_base(view, stored)


def test_every_command_says_the_same_of_the_next_start():
    made = HandMade()
    passed_over(made)
    assert bases(made) == (1, 1)
    made.record("suspend", scope={}, by="user")
    assert bases(made) == (2, 2), "a person resumes it, and that forgets what failed"


def test_a_first_attempt_under_way_would_go_on_from_its_newest():
    made = HandMade()
    made.launch()
    made.share(0, 0)
    made.begun(made.key(0), VALUES)
    made.save(made.key(0), "aa" * 32)
    (stored,) = stored_lineages(made.view())
    assert next_base(made.view(), stored) == 1


def test_choices_are_shown_where_newer_checkpoints_are_passed_over():
    made = HandMade()
    key = passed_over(made)
    found = status(made)
    (task,) = found.facts.tasks
    assert (task.state, task.choices) == ("PENDING", (2, 1))
    explanation = explain_task(found, task)
    assert any(f"--task {key} --from 2" in line for line in explanation.commands)
    assert any(sentence.startswith("checkpoint 2 is passed") for sentence in explanation.sentences)


def test_a_failed_task_shows_its_choices():
    made = HandMade(document={"options": Options(limits={"since_progress": 3})})
    passed_over(made)
    (task,) = status(made).facts.tasks
    assert (task.state, task.choices, task.base) == ("FAILED", (2, 1), 2)
