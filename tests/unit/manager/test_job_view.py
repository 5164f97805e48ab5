"""What a view that is read on and on must not miss."""

from looking_kit import HandMade
from perdure.policy.states import State
from perdure.store.layout import StepKey

VALUES = {"Frame": "1", "Camera": "left,top"}


def test_what_is_written_while_lineages_are_read_is_seen_at_the_next_look():
    """A journal read for one lineage's sake says things about others too."""
    made = HandMade()
    first, second = made.key(0), made.key(1)
    made.launch()
    made.share(0, 1)
    made.begun(first, VALUES)
    made.ended(first, "FAILED", cause="exit", exit_code=1)
    made.begun(second, VALUES)
    view = made.view()
    step = view.steps[StepKey(1)]
    assert set(step.running) == {second}
    step.watched[first].is_stale = True
    read = view.records.shares_read
    is_written = []

    def write_first(key):
        if not is_written:
            is_written.append(True)
            made.ended(second, "SUCCEEDED")
        return read(key)

    view.records.shares_read = write_first  # asked for between journals and lineages
    view.refresh()
    view.refresh()
    assert is_written
    assert set(step.running) == set()
    assert step.succeeded == {second}
    assert step.counts(view.stops).running == 0


def test_a_task_that_failed_waits_for_its_next_attempt():
    made = HandMade()
    made.launch()
    made.share(0, 0)
    made.begun(made.key(0), VALUES)
    made.ended(made.key(0), "FAILED", cause="exit", exit_code=1)
    view = made.view()
    step = view.steps[StepKey(1)]
    (watched,) = step.watched.values()
    assert step.status(watched, view.stops).state is State.PENDING
    (pending,) = step.pending(view.stops, 0.0)
    assert pending.task == made.key(0)
