"""What a view that is read on and on must not miss."""

from looking_kit import CHUNKS, JOB, LAUNCH, HandMade
from perdure.journal.journal_format import Kind
from perdure.policy.states import State
from perdure.store import layout
from perdure.store.drivers.memory import Call, MemoryDriver
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.template import task_key

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


OTHER = LaunchId("01jdxyz0000000000000000002")


def test_a_remainder_seen_afresh_is_the_chunk_that_it_remains_of():
    """Its attempts have other values than those that the lineage is known by."""
    made = HandMade(template=CHUNKS)
    chunk, next_one = made.key(0), made.key(1)
    made.launch()
    made.share(0, 1)
    made.begun(chunk, {"Frame": "1-5"})
    made.record("fence", launch=LAUNCH, offset=2**20)
    made.launch(OTHER)
    made.claim(chunk, 2, launch=OTHER, values={"Frame": "3-5"})
    made.begun(chunk, {"Frame": "3-5"}, launch=OTHER, attempt=2)
    step = made.view().steps[StepKey(1)]
    assert (step.watched[chunk].ref.index, step.total()) == (0, 4)
    made.ended(chunk, "SUCCEEDED", launch=OTHER, attempt=2)
    made.claim(next_one, 2, launch=OTHER)
    made.begun(next_one, {"Frame": "6-10"}, launch=OTHER, attempt=2)
    made.ended(next_one, "SUCCEEDED", launch=OTHER, attempt=2)
    view = made.view()
    step = view.steps[StepKey(1)]
    assert {task: watched.ref.index for task, watched in step.watched.items()} == {
        chunk: 0,
        next_one: 1,
    }
    assert (step.total(), step.counts(view.stops).pending) == (4, 2)


def test_a_piece_whose_worker_died_is_not_counted_as_running_for_ever():
    """It may be begun before the log that names it was read."""
    made = HandMade(template=CHUNKS)
    chunk = made.key(0)
    piece = TaskKey(task_key({"Frame": "5-5"}))
    made.launch()
    made.share(0, 3)
    made.begun(chunk, {"Frame": "1-5"})
    made.record("fence", launch=LAUNCH, offset=2**20)
    made.launch(OTHER)
    made.claim(chunk, 2, launch=OTHER, values={"Frame": "3-3"}, split=[{"Frame": "5-5"}])
    made.begun(chunk, {"Frame": "3-3"}, launch=OTHER, attempt=2)
    made.claim(piece, 1, launch=OTHER)
    made.begun(piece, {"Frame": "5-5"}, launch=OTHER)
    view = made.view()
    step = view.steps[StepKey(1)]
    assert piece in step.watched
    assert (step.total(), step.counts(view.stops).running) == (5, 2)
    made.record("fence", launch=OTHER, offset=2**20)
    view.refresh()
    assert step.counts(view.stops).running == 0


def test_a_share_that_is_taken_while_its_launch_ends_is_seen():
    """It is put behind the look at the shares, and the journal is closed before it is read."""
    made = HandMade()
    made.launch()
    view = made.view()
    read = view.records.shares
    taken = []

    def take_and_close_behind(step):
        found = read(step)
        if not taken:
            taken.append(True)
            made.share(0, 0)
            made.begun(made.key(0), VALUES)
            made.ended(made.key(0), "SUCCEEDED")
            made.journal(Kind.CLOSED)
        return found

    view.records.shares = take_and_close_behind
    view.refresh()
    assert view.has_ended(LAUNCH)
    assert [share.number for share in view.records.shares_read(StepKey(1))] == [1]


def test_a_look_at_a_bucket_costs_a_request_a_log_and_a_journal_that_may_have_grown():
    asked = []
    driver = MemoryDriver(appends=False, before=lambda call, key: asked.append((call, key)))
    made = HandMade(driver=driver)
    made.launch()
    made.share(0, 1)
    made.begun(made.key(0), VALUES)
    made.launch(OTHER, step=2)
    made.journal(Kind.CLOSED, launch=OTHER)
    view = made.view()
    asked.clear()
    view.refresh()
    keys = [key.rpartition("/")[0] for call, key in asked]
    assert {call for call, _ in asked} == {Call.GET}
    assert sorted(keys) == sorted(
        [layout.job_log(JOB), layout.shares(JOB, StepKey(1)), layout.launch_prefix(JOB, LAUNCH)]
    )


def test_a_launch_whose_intent_was_damaged_is_known_by_its_journal():
    """What it held goes on: nobody takes it to be running, or never to have been."""
    made = HandMade()
    made.record("damaged")  # stands where the intent stood
    made.share(0, 0)
    made.journal(Kind.OPENED, token="t", step=1)
    made.begun(made.key(0), VALUES)
    made.ended(made.key(0), "FAILED", cause="exit", exit_code=1)
    made.journal(Kind.CLOSED)
    view = made.view()
    step = view.steps[StepKey(1)]
    intent = view.records.state.launches[LAUNCH]
    assert (intent.step, intent.token, intent.is_recovered) == (1, "t", True)
    assert view.has_ended(LAUNCH)
    assert not step.watched[made.key(0)].is_running
    assert [pending.task for pending in step.pending(view.stops, 0.0)] == [made.key(0)]


def test_a_launch_that_lost_its_intent_and_its_journal_is_known_by_what_it_holds():
    """Else its share would be nobody's, and its tasks would wait for ever."""
    made = HandMade()
    made.record("damaged")
    made.share(0, 1)
    made.claim(made.key(1), 2, launch=OTHER)
    view = made.view()
    launches = view.records.state.launches
    assert {launch: (launches[launch].step, view.has_ended(launch)) for launch in launches} == {
        LAUNCH: (1, False),
        OTHER: (1, False),
    }
    step = view.steps[StepKey(1)]
    for launch in (LAUNCH, OTHER):
        made.record("fence", launch=launch, offset=0)
    view.refresh()
    pending = {pending.task for pending in step.pending(view.stops, 0.0)}
    assert pending == {made.key(0), made.key(1)}


def test_a_launch_whose_intent_comes_while_holders_are_looked_for_is_not_taken_for_lost():
    made = HandMade()
    made.record("damaged")
    records = made.view().records
    listed = made.driver.list

    def launch_behind(prefix):
        if prefix == layout.shares_prefix(JOB):
            made.launch()
            made.share(0, 0)
        return listed(prefix)

    made.driver.list = launch_behind
    made.record("damaged")
    records.refresh()
    assert not records.state.launches[LAUNCH].is_recovered
