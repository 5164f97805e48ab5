"""Turns with an engine that outlives whoever makes them, played by hand."""

from pathlib import Path

from looking_kit import GONE_PID, LAUNCH, HandMade
from perdure.clock import SystemClock
from perdure.journal.journal_format import Kind
from perdure.manager.turns import TurnMaker, TurnParts
from perdure.policy.memory_growth import MemoryGrowth, MemoryWish
from perdure.policy.outcome import By
from perdure.policy.stops import Scope
from perdure.store.records.job_document import Options

GROWTH = MemoryGrowth(factor=2.0, most_mib=4096)
VALUES = {"Frame": "1", "Camera": "left,top"}


class Cluster:
    """An engine that takes all requests and has what is in `there`."""

    ends_with_host = False

    def __init__(self):
        self.requests = []
        self.there = set()
        self.out_of_memory = set()
        self.cancelled = set()

    def new_tokens(self, count):
        return [f"new-{len(self.requests)}-{number}" for number in range(count)]

    def start(self, requests):
        self.requests += requests
        self.there |= {request.token for request in requests}
        return [{"job": request.token} for request in requests]

    def find(self, _token):
        return None

    def is_there(self, ids):
        return ids["job"] in self.there

    def may_live(self, _ids):
        return False

    def why_stopped(self, ids, *, has_begun):
        return "it was cancelled" if ids["job"] in self.cancelled else None

    def ran_out_of_memory(self, ids):
        return ids["job"] in self.out_of_memory


class Played:
    """A job whose first worker ran on the cluster, and the next turn of it."""

    def __init__(self, **options):
        options = {"engine": "slurm", "limits": {"back_off_seconds": 0.0}, **options}
        self.made = HandMade(document={"options": Options(**options)})
        self.cluster = Cluster()

    def worker(self, *, pid=None):
        """It took one task, and is at work on it; a pid of its own is no more."""
        token = f"token-{LAUNCH}"
        fields = {"step": 1, "tasks": [], "shares": False, "resources": {}}
        self.made.record("launch", launch=LAUNCH, token=token, **fields)
        self.made.record("launched", token=token, ids={"job": "7_0"})
        self.made.journal(Kind.OPENED, format=1, **self.made.process(pid))
        self.made.share(0, 0)
        self.task = self.made.key(0)
        self.made.begun(self.task, VALUES)

    def turn(self):
        parts = TurnParts(
            store="memory://here",
            driver=self.made.driver,
            engine=self.cluster,
            logs=Path("/nowhere"),
            sessions=Path("/nowhere"),
            environment={},
            clock=SystemClock(),
        )
        return TurnMaker(self.made.view(self.cluster), parts, name="test").make()


def test_what_slurm_ended_for_want_of_memory_is_tried_again_with_more():
    played = Played(memory_growth=GROWTH)
    played.worker(pid=GONE_PID)
    played.cluster.out_of_memory.add("7_0")
    played.turn()
    (request,) = played.cluster.requests
    assert request.memory == MemoryWish(times=2.0, most_mib=4096)
    (intent,) = (i for i in played.made.view().records.state.launches.values() if i.tasks)
    assert [ref.task for ref in intent.tasks] == [played.task]
    assert intent.resources == {"memory_ends": 1}


def test_what_the_kernel_ended_for_want_of_memory_is_tried_again_with_more():
    played = Played(memory_growth=GROWTH)
    played.worker()
    played.made.ended(played.task, "FAILED", cause="memory", exit_code=-9)
    played.made.journal(Kind.CLOSED)
    played.turn()
    (request,) = played.cluster.requests
    assert request.memory == MemoryWish(times=2.0, most_mib=4096)


def test_nothing_grows_without_the_option():
    played = Played()
    played.worker(pid=GONE_PID)
    played.cluster.out_of_memory.add("7_0")
    played.turn()
    (request,) = played.cluster.requests
    assert request.memory is None


def test_a_worker_that_was_lost_for_another_reason_gets_what_it_had():
    played = Played(memory_growth=GROWTH)
    played.worker(pid=GONE_PID)
    played.turn()
    (request,) = played.cluster.requests
    assert request.memory is None


def test_a_worker_that_looks_alive_and_that_the_cluster_has_lost_is_seen():
    played = Played()
    played.worker()
    assert played.made.view(played.cluster).lost_workers() == (LAUNCH,)
    played.cluster.there.add("7_0")
    assert played.made.view(played.cluster).lost_workers() == ()
    played.cluster.there.clear()
    played.made.journal(Kind.CLOSED)
    assert played.made.view(played.cluster).lost_workers() == ()


def test_what_was_cancelled_while_it_saved_is_held_by_the_next_turn():
    """Its worker was killed before it could hold it, or ended as for any other stop."""
    played = Played()
    played.worker()
    played.made.ended(played.task, "SUSPENDED", by="engine")
    played.made.journal(Kind.CLOSED)
    played.cluster.cancelled.add("7_0")
    played.turn()
    assert all(request.token != "7_0" for request in played.cluster.requests)
    view = played.made.view(played.cluster)
    assert view.stops.stopped(Scope(1, played.task)).by is By.USER
    held = [i for i in view.records.state.launches.values() if played.task in _tasks(i)]
    assert held == []


def test_what_a_person_resumed_after_it_was_cancelled_goes_on():
    played = Played(workers=60)
    played.worker()
    played.made.ended(played.task, "SUSPENDED", by="engine")
    played.made.journal(Kind.CLOSED)
    played.cluster.cancelled.add("7_0")
    played.turn()
    lifts = played.made.view().stops.lifts()
    played.made.record("resume", scope={}, lifts=lifts)
    played.turn()
    view = played.made.view(played.cluster)
    assert view.stops.stopped(Scope(1, played.task)) is None
    assert any(played.task in _tasks(i) for i in view.records.state.launches.values())


def _tasks(intent):
    return [ref.task for ref in intent.tasks]
