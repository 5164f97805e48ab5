"""When a delivery is tried again, held, and ended: against a target that is a script."""

from datetime import timedelta
from signal import Signals
from types import SimpleNamespace

import pytest

from clock_kit import HandClock
from perdure.errors import CheckpointTorn, HomeError, StoreUnavailable
from perdure.policy.outcome import By, DeliveryEnd
from perdure.store.files.gathering import Gathered
from perdure.store.layout import JobId, StepKey, TaskKey
from perdure.template import NotifyThenTerminate, Terminate
from perdure.worker import delivering
from perdure.worker.delivering import Deliverer, DeliveryOrder
from perdure.worker.job_records import LineageId
from perdure.worker.machine import Intent
from perdure.worker.stops import Stop, StopBoard

LINEAGE = LineageId(step=StepKey(1), task=TaskKey("f" * 16))
NOTICE = NotifyThenTerminate(signal=Signals.SIGTERM, notify_period=timedelta(seconds=60))


class Target:
    """Takes everything; ``script`` is what happens when it is opened, one item a try."""

    called = "/there"

    def __init__(self):
        self.script = []
        self.records = {}
        self.opened = 0

    def open(self):
        self.opened += 1
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            step()

    def get_record(self, path, _limit):
        return self.records.get(path)

    def put_record(self, path, data):
        self.records[path] = data

    def drop(self):
        pass


class Ground:
    def __init__(self, suspend=NOTICE):
        self.clock = HandClock()
        self.board = StopBoard()
        self.target = Target()
        self.notes = []
        self.kept = []
        context = SimpleNamespace(job_id=JobId("0" * 26), board=self.board, clock=self.clock)
        order = DeliveryOrder(
            lineage=LINEAGE,
            attempt=1,
            gather=Gathered,
            roots=None,
            resolved=SimpleNamespace(suspend=suspend, cancel=Terminate()),
            told=self.notes.append,
            warned=self.notes.append,
            keep=self.keep,
        )

        def opener(_whose, check, sleep):
            self.check, self.sleep = check, sleep
            return self.target

        self.deliverer = Deliverer(context, opener, order)

    def keep(self):
        self.kept.append(self.target.opened)
        return 7

    def stops(self, **how):
        """Post a stop when the target is opened, and see whether the delivery may go on after."""

        def post():
            given = {"intent": Intent.SUSPEND, "by": "host", **how}
            self.board.post(Stop(**given))
            self.check()

        return post


@pytest.fixture
def ground(monkeypatch):
    monkeypatch.setattr(delivering, "_FIRST_WAIT_SECONDS", 0.001)
    return Ground()


AWAY = "the bucket is out of reach"


def test_what_passes_by_itself_is_tried_again_and_said_once(ground):
    ground.target.script = [StoreUnavailable(AWAY)] * 5
    assert ground.deliverer.run() is None
    assert ground.target.opened == 6
    assert [note for note in ground.notes if AWAY in note] == [
        f"its files are not delivered yet: {AWAY}; it is tried again"
    ]


def test_what_does_not_pass_is_told_with_what_to_do(ground):
    ground.target.script = [HomeError("no such bucket", hint="Make it first.")]
    found = ground.deliverer.run()
    assert found.end is DeliveryEnd.FAILED
    assert found.reason == (
        "its files could not be delivered to /there: no such bucket (Make it first)"
    )
    assert ground.target.opened == 1


def test_a_source_that_changes_is_tried_a_few_times(ground):
    ground.target.script = [CheckpointTorn("x", path="/a\udcff")] * 10
    found = ground.deliverer.run()
    assert found.end is DeliveryEnd.FAILED
    assert "/a\\udcff changes while it is being delivered" in found.reason
    assert ground.target.opened == delivering._SOURCE_TRIES


def test_what_does_not_arrive_at_once_is_kept_before_it_is_waited_for(ground):
    ground.target.script = [StoreUnavailable(AWAY)] * 5
    assert ground.deliverer.run() is None
    assert ground.kept == [1]  # after the first try, and once


def test_what_arrives_at_once_is_kept_nowhere_else(ground):
    assert ground.deliverer.run() is None
    assert ground.kept == []


def test_what_cannot_be_delivered_is_kept(ground):
    ground.target.script = [HomeError("no such bucket")]
    assert ground.deliverer.run().kept == 7
    assert ground.kept == [1]


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({}, 7),
        ({"is_now": True}, None),  # at once, at the last checkpoint
        ({"deadline": 0.0}, None),  # the host is gone
        ({"intent": Intent.CANCEL}, None),
    ],
)
def test_what_a_stop_ends_is_kept_where_there_is_time(how, kept):
    ground = Ground(Terminate())
    if "deadline" in how:
        how = {"deadline": ground.clock.monotonic()}

    def later():
        ground.board.post(Stop(**{"intent": Intent.SUSPEND, "by": "host", **how}))
        ground.clock.seconds += 10.0
        ground.check()

    ground.target.script = [later]
    assert ground.deliverer.run().kept == kept


@pytest.mark.parametrize(
    ("suspend", "how", "passed", "goes_on"),
    [
        (NOTICE, {}, 59.0, True),
        (NOTICE, {}, 60.0, False),
        (NOTICE, {"deadline": 30.0}, 20.0, True),
        (NOTICE, {"deadline": 30.0}, 30.0, False),
        (Terminate(), {}, 9.0, True),
        (Terminate(), {}, 10.0, False),
        (NOTICE, {"is_now": True}, 0.0, False),
        (NOTICE, {"intent": Intent.CANCEL}, 0.0, False),
    ],
)
def test_how_long_a_delivery_goes_on_after_a_stop(suspend, how, passed, goes_on):
    ground = Ground(suspend)
    if "deadline" in how:
        how = {**how, "deadline": ground.clock.monotonic() + how["deadline"]}

    def later():
        ground.board.post(Stop(**{"intent": Intent.SUSPEND, "by": "host", **how}))
        ground.clock.seconds += passed
        ground.check()

    ground.target.script = [later]
    found = ground.deliverer.run()
    assert (found is None) == goes_on
    if not goes_on and "intent" not in how:
        assert (found.end, found.by) == (DeliveryEnd.STOPPED, By.HOST)


def test_a_stop_ends_the_waiting(ground):
    def away():
        ground.board.post(Stop(intent=Intent.SUSPEND, by="user"))
        raise StoreUnavailable(AWAY)

    ground.target.script = [away]
    found = ground.deliverer.run()
    assert (found.end, found.by) == (DeliveryEnd.STOPPED, By.USER)
    assert found.reason == "stopped while its files were being delivered to /there"


def test_a_stop_ends_the_waiting_between_two_requests_of_a_call(ground):
    def away():
        ground.board.post(Stop(intent=Intent.SUSPEND, by="user"))
        ground.sleep(1000.0)

    ground.target.script = [away]
    assert ground.deliverer.run().end is DeliveryEnd.STOPPED


def test_a_cancel_wins_over_a_suspension(ground):
    def both():
        ground.board.post(Stop(intent=Intent.SUSPEND, by="host"))
        ground.board.post(Stop(intent=Intent.CANCEL, by="user"))
        ground.check()

    ground.target.script = [both]
    assert ground.deliverer.run().end is DeliveryEnd.CANCELED


def test_a_stop_that_was_there_before_lets_what_is_quick_be_done(ground):
    ground.board.post(Stop(intent=Intent.SUSPEND, by="host"))
    assert ground.deliverer.run() is None


def test_a_stop_of_another_task_changes_nothing(ground):
    ground.target.script = [ground.stops(task=TaskKey("0" * 16), is_now=True)]
    assert ground.deliverer.run() is None


def test_what_is_held_changes_nothing_until_it_is_released(ground, monkeypatch):
    """It looks at whether it may go on more than once before it is released."""
    looks, real = [], ground.deliverer._is_free.wait

    def look(_seconds):
        looks.append(ground.target.opened)
        if len(looks) == 3:
            ground.deliverer.release()
        return real(0)

    monkeypatch.setattr(ground.deliverer._is_free, "wait", look)
    ground.deliverer.hold()
    assert ground.deliverer.run() is None
    assert looks[:3] == [0, 0, 0]
    assert ground.target.opened == 1


def test_what_is_held_ends_when_another_one_owns_the_task(ground, monkeypatch):
    monkeypatch.setattr(delivering, "_LOOK_SECONDS", 0.001)
    ground.deliverer.hold()
    ground.board.post(Stop(intent=Intent.SUSPEND, by="engine", is_now=True))
    assert ground.deliverer.run().end is DeliveryEnd.STOPPED
    assert ground.target.opened == 0
