"""What a batch system says of jobs, and when it is asked again."""

import pytest

from perdure.engines import answers
from perdure.engines.answers import FRESH_SECONDS, Answers
from perdure.errors import EngineUnavailable


class System:
    """A batch system with these jobs, which counts how often it is asked."""

    def __init__(self, *jobs):
        self.jobs = set(jobs)
        self.asked = 0
        self.trouble = None

    def ask(self):
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble
        return {job: f"{job} is there" for job in self.jobs}


@pytest.fixture
def now(monkeypatch):
    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(answers, "time", clock)
    return clock


def test_it_is_asked_once_for_all_while_the_answer_is_fresh(now):
    system = System("7_1", "7_2")
    said = Answers(system.ask)
    assert [said.of(name) for name in ("7_1", "7_2", "7_3", "6")] == [
        "7_1 is there",
        "7_2 is there",
        None,
        None,
    ]
    assert system.asked == 1
    now.now += FRESH_SECONDS
    said.all()
    assert system.asked == 2


@pytest.mark.parametrize("name", ["8_0", "8[1]", "8"])
def test_a_job_that_is_younger_than_the_answer_is_asked_for_once_more(now, name):
    del now
    system = System("7_1")
    said = Answers(system.ask)
    said.all()
    system.jobs.add(name)
    assert said.of(name) == f"{name} is there"
    assert said.of("9_0") is None
    assert said.of("9_1") is None
    assert system.asked == 3


def test_an_array_as_a_whole_stands_for_its_elements():
    assert Answers(System("7").ask).of("7_3") == "7 is there"


@pytest.mark.parametrize("trouble", [EngineUnavailable("nobody answers"), ValueError("no JSON")])
def test_where_nobody_answers_what_was_said_holds_on_and_nobody_is_asked_for_each_job(now, trouble):
    system = System("7_1")
    said = Answers(system.ask)
    said.all()
    now.now += FRESH_SECONDS
    system.trouble = trouble
    assert [said.of(name) for name in ("7_1", "8_1", "9_1")] == ["7_1 is there", None, None]
    assert said.is_there
    assert system.asked == 2
    said.forget()
    assert said.of("7_1") == "7_1 is there"
    assert not said.is_there
    assert system.asked == 3
