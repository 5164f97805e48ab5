"""A person's word: what is forgotten, and by whom it is heard."""

from looking_kit import HandMade
from perdure.manager.branching import forgive
from perdure.policy.stops import JOB, Scope
from perdure.store import layout
from perdure.store.layout import StepKey, TaskKey

VALUES = {"Frame": "1", "Camera": "left,top"}
#: Right after the attempts of `looking_kit` have ended.
NOW = 1795946700.0


def failed(made, *, is_over=True):
    """Task 0 saved twice, and failed three times from the second one."""
    key = made.key(0)
    made.launch()
    made.share(0, 0)
    made.begun(key, VALUES)
    made.save(key, "aa" * 32)
    made.save(key, "bb" * 32)
    made.ended(key, "FAILED", cause="exit")
    for attempt in (2, 3, 4):
        made.claim(key, attempt, base=2)
        made.begun(key, VALUES, attempt=attempt, action="onCheckpointResume", base=2)
        if attempt < 4 or is_over:
            made.ended(key, "FAILED", attempt=attempt, cause="exit")
    return key


def waiting(view):
    """What of the back-off is left, and the base."""
    (pending,) = view.steps[1].pending(view.stops, NOW)
    return pending.wait_seconds, view.steps[1].watched[pending.task].decision.answer.base


def last_record(made, key):
    return made.log(layout.lineage_log(made.job, StepKey(1), TaskKey(key))).entries[-1].header


def test_a_person_ends_the_back_off_and_the_passing_over():
    made = HandMade()
    failed(made)
    view = made.view()
    assert waiting(view) == (20.0, 1)
    (task,) = forgive(view, JOB)
    assert (task.label, task.base) == ("Render[Frame=1,Camera=left,top]", 2)
    view.refresh()
    assert waiting(view) == (0.0, 2)
    assert forgive(view, JOB) == ()


def test_a_manager_that_waits_hears_of_it():
    made = HandMade()
    failed(made)
    manager, command = made.view(), made.view()
    forgive(command, JOB)
    made.record("resume", scope={}, lifts=0)
    manager.refresh()
    assert waiting(manager) == (0.0, 2)


def test_what_is_not_covered_and_what_runs_is_left_alone():
    made = HandMade()
    failed(made)
    assert forgive(made.view(), Scope(2)) == ()
    at_work = HandMade()
    key = failed(at_work, is_over=False)
    assert forgive(at_work.view(), JOB) == ()
    assert last_record(at_work, key)["kind"] == "claim"
