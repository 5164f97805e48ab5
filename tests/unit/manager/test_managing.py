"""A manager whose store takes no records, or does not answer."""

import pytest

from looking_kit import HandMade
from perdure.cli.news import News
from perdure.errors import OutOfSpace, StoreUnavailable
from perdure.manager.managing import Manager, Orders
from perdure.policy.states import State, Status
from perdure.policy.turn import Rest, Wait
from perdure.worker.host import this_host

FULL = OutOfSpace("cannot write log: No space left on device", hint="Free some.")


class Engine:
    """One worker on this host, until it is `gone`."""

    ends_with_host = True

    def __init__(self):
        self.is_gone = False
        self.heard = []

    def is_there(self, _ids):
        return not self.is_gone

    def find(self, _token):
        return None

    def interrupt(self, _ids, *, by_person):
        self.heard.append("person" if by_person else "host")


class Managed:
    """A manager of a running job; ``script`` says what happens in each wait, then nothing may."""

    def __init__(self, *script, error=FULL, answers=()):
        self.made = HandMade()
        self.made.launch()
        self.view = self.made.view()
        self.engine, self.orders = Engine(), Orders()
        self.error, self.answers = error, list(answers)
        self.told, self.troubles = [], []
        self.script = list(script)
        self.append = self.view.records.append
        self.view.records.append = self.take
        self.manager = Manager(
            self.view,
            self,
            self.engine,
            self.orders,
            between=lambda _seconds: self.script.pop(0)(self),
            told=self.told.append,
            troubled=self.troubles.append,
        )

    def take(self, record):
        if self.error is not None:
            raise self.error
        return self.append(record)

    def make(self):
        """A turn: what it answers, or why it could not be recorded."""
        answer = self.answers.pop(0) if self.answers else Wait(seconds=None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def suspend(self):
        self.orders.suspend += 1

    def leave(self):
        self.orders.leave = True

    def end(self):
        self.engine.is_gone = True

    def free(self):
        self.error = None
        self.answers = [Rest(status=Status(state=State.SUSPENDED))]

    def nothing(self):
        pass

    def wishes(self):
        return [(wish.kind, wish.is_now) for wish in self.view.records.state.wishes]


def test_workers_are_told_each_time_though_it_cannot_be_recorded():
    managed = Managed(Managed.suspend, Managed.suspend, Managed.nothing, Managed.free)
    assert managed.manager.manage().state is State.SUSPENDED
    assert managed.engine.heard == ["person", "person"]
    assert managed.wishes() == [("suspend", True)]


def test_it_is_said_once_what_is_not_recorded_and_when_it_is_over():
    steps = [Managed.nothing] * 5
    managed = Managed(Managed.suspend, *steps, Managed.free)
    managed.manager.manage()
    why, over = managed.told
    assert why.startswith("the suspension cannot be recorded: cannot write log: No space left")
    assert "the workers on this host were told" in why
    assert why.endswith("Free some.")
    assert "takes records again" in over
    assert managed.troubles == [FULL.message, ""]


def test_what_is_said_of_the_tasks_is_what_they_were_told():
    managed = Managed(Managed.end, Managed.suspend, Managed.free)
    managed.manager.manage()
    said = []
    News(managed.view, managed.orders, said.append).tell()
    assert said == []
    managed = Managed(Managed.suspend, Managed.free)
    managed.manager.manage()
    News(managed.view, managed.orders, said.append).tell()
    assert len(said) == 1


def test_with_nothing_running_ctrl_c_ends_the_waiting_and_says_what_is_left():
    script = [Managed.suspend, Managed.end, Managed.nothing, Managed.suspend]
    managed = Managed(*script)
    with pytest.raises(OutOfSpace, match="nothing more of it is recorded: cannot write") as ended:
        managed.manager.manage()
    assert "perdure resume" in ended.value.hint
    assert ["runs here" in one for one in managed.told] == [False, True]


def test_an_end_that_cannot_be_recorded_is_waited_for_until_a_person_ends_that():
    managed = Managed(Managed.nothing, Managed.suspend, answers=[FULL, FULL])
    managed.end()
    with pytest.raises(OutOfSpace):
        managed.manager.manage()
    assert managed.told[0].startswith("nothing can be recorded: ")


def test_the_host_is_obeyed_while_a_wish_cannot_be_recorded():
    managed = Managed(Managed.suspend, Managed.leave, Managed.end)
    managed.view.launch_state = managed.view.refresh = unanswered
    assert managed.manager.manage() is None
    assert managed.engine.heard == ["person", "host"]


def unanswered(*_):
    raise StoreUnavailable("it does not answer")


def test_a_store_that_does_not_answer_is_said_though_nothing_is_to_be_recorded():
    managed = Managed(lambda one: setattr(one.view, "refresh", unanswered), Managed.leave)
    managed.engine.is_gone = True
    assert managed.manager.manage() is None
    assert managed.told[0].startswith("nothing can be recorded: it does not answer")


def test_a_worker_whose_ids_could_not_be_recorded_is_told():
    managed = Managed(Managed.suspend, Managed.free)
    ids = managed.view.records.state.launched.popitem()[1]
    managed.view.records.state.launched.clear()
    managed.engine.find = lambda token: ids if token.startswith("token-") else None
    managed.manager.manage()
    assert managed.engine.heard == ["person"]
    assert ids["host"] == this_host().host


def test_workers_that_do_not_end_with_this_host_are_left_at_work():
    managed = Managed()
    managed.engine.ends_with_host = False
    managed.orders.leave = True
    assert managed.manager.manage() is None
    assert managed.engine.heard == []
