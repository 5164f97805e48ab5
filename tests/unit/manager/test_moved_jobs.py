"""A person chose another engine: what goes by it, and what nobody starts any more."""

from pathlib import Path

import pytest

from clock_kit import HandClock
from looking_kit import LAUNCH, HandMade
from perdure.cli import job_options
from perdure.cli.config_format import Config
from perdure.cli.kept_options import kept_options
from perdure.cli.managed import present_document
from perdure.cli.moving import chosen_options, engine_text
from perdure.errors import EngineRefused, UsageError
from perdure.manager.facts import EngineFacts
from perdure.manager.facts_reading import read_facts
from perdure.manager.turns import TurnMaker, TurnParts
from perdure.policy.snapshot import LaunchState
from perdure.store.layout import LaunchId
from perdure.store.records.job_document import Options

SLURM = {"engine": "slurm", "slurm": ["-p", "long"]}
AFTER = LaunchId("01jdxyz0000000000000000002")


class Engine:
    """Knows nothing, and is asked nothing about launches of another engine."""

    ends_with_host = False

    def __init__(self):
        self.asked = []

    def is_there(self, ids):
        self.asked.append(ids["job"])
        return True

    def why_stopped(self, ids):
        return f"{ids['job']} was cancelled"

    def new_tokens(self, count):
        raise AssertionError(count)


class Moved:
    """A job whose first launch is queued, and that is moved then."""

    def __init__(self):
        self.made = HandMade()
        self.engine = Engine()
        self.view = self.made.view()
        self.launch(LAUNCH, "1_0")

    def launch(self, launch, job):
        fields = {"step": 1, "tasks": [], "shares": True, "resources": {}}
        self.made.record("launch", launch=launch, token=f"token-{job}", **fields)
        self.made.record("launched", token=f"token-{job}", ids={"engine": "slurm", "job": job})

    def move(self):
        self.made.record("engine", options=SLURM, by="user")

    def states(self):
        self.view.refresh()
        launches = self.view.records.state.launches
        return {name: self.view.launch_state(intent) for name, intent in launches.items()}

    def maker(self, **more):
        self.view.start_by(self.engine, None)
        folder = Path("/nowhere")
        parts = TurnParts(
            store="memory://",
            driver=self.made.driver,
            engine=self.engine,
            logs=folder,
            sessions=folder,
            environment={},
            clock=HandClock(),
        )
        return TurnMaker(self.view, parts, name="test", **more)


@pytest.fixture
def moved():
    return Moved()


def test_the_document_has_the_engine_that_was_chosen(moved):
    before = moved.view.document
    assert before.options.engine == "local"
    moved.move()
    moved.view.refresh()
    options = moved.view.document.options
    assert (options.engine, options.slurm) == ("slurm", ("-p", "long"))
    assert moved.made.document == before, "the record itself never changes"
    moved.made.record("engine", options={"engine": "local"}, by="user")
    moved.view.refresh()
    assert moved.view.document == before


def test_what_was_queued_before_can_never_begin_and_nobody_is_asked(moved):
    moved.view.start_by(moved.engine, None)
    assert moved.states() == {LAUNCH: LaunchState.QUEUED}
    moved.move()
    moved.launch(AFTER, "2_0")
    moved.engine.asked.clear()
    assert moved.states() == {LAUNCH: LaunchState.DEAD, AFTER: LaunchState.QUEUED}
    assert moved.engine.asked == ["2_0"]


def test_a_manager_of_the_engine_that_it_had_starts_nothing_more(moved):
    maker = moved.maker()
    moved.move()
    with pytest.raises(EngineRefused, match="was given another engine"):
        maker.make()
    assert moved.view.is_moved


def test_what_was_taken_back_holds_nothing(moved):
    """A launch that was queued in the old engine was cancelled by the move, not by a person."""
    moved.move()
    moved.view.records.refresh()
    moved.maker(starts=False).make()
    assert LAUNCH in moved.view.records.state.fences
    assert moved.view.records.state.wishes == []


def test_a_later_line_is_told_the_engine_that_holds_now(moved):
    moved.move()
    kept = present_document(moved.made.driver, moved.made.document)
    what, _way_out = kept_options(moved.made.document, kept)
    assert "--engine stays slurm (given now: local)" in what
    assert "--slurm stays -p long (given now: nothing)" in what
    assert list(kept_options(kept, kept)) == []


def test_what_is_shown_of_it(moved):
    facts, _positions = read_facts(moved.view)
    assert facts.engine == EngineFacts(name="local")
    moved.move()
    facts, _positions = read_facts(moved.view)
    assert (facts.engine.name, facts.engine.options) == ("slurm", ("-p", "long"))
    assert facts.engine.changed_at


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        (Options(), (None, ()), ("local", ())),
        (Options(), ("slurm", ()), ("slurm", ())),
        (Options(), ("slurm", ("-p long",)), ("slurm", ("-p", "long"))),
        (
            Options(engine="slurm", slurm=("-p", "a")),
            (None, ("--mem=1G",)),
            ("slurm", ("--mem=1G",)),
        ),
        (Options(engine="slurm", slurm=("-p", "a")), ("local", ()), ("local", ("-p", "a"))),
        (Options(engine="local", slurm=("-p", "a")), ("slurm", ()), ("slurm", ("-p", "a"))),
        (Options(engine="slurm", slurm=("-p", "a")), (None, ("",)), ("slurm", ())),
    ],
)
def test_what_a_resume_may_say_of_the_engine(before, given, after, monkeypatch):
    monkeypatch.setattr(job_options, "user_config", Config)
    engine, words = given
    found = chosen_options(before, {"engine": engine, "slurm": words, "lsf": ()})
    assert (found.engine, found.slurm) == after


def test_what_the_users_file_says_stands_before(monkeypatch):
    monkeypatch.setattr(job_options, "user_config", lambda: Config(slurm=("-A", "me")))
    found = chosen_options(Options(), {"engine": "slurm", "slurm": (), "lsf": ()})
    assert found.slurm == ("-A", "me")
    found = chosen_options(found, {"engine": None, "slurm": ("-p long",), "lsf": ()})
    assert found.slurm == ("-A", "me", "-p", "long")
    back = chosen_options(found, {"engine": "local", "slurm": (), "lsf": ()})
    assert chosen_options(back, {"engine": "slurm", "slurm": (), "lsf": ()}).slurm == found.slurm


@pytest.mark.parametrize("engine", ["local", None])
def test_options_of_slurm_are_for_slurm(engine):
    with pytest.raises(UsageError, match="--slurm is for --engine slurm"):
        chosen_options(Options(), {"engine": engine, "slurm": ("-p long",), "lsf": ()})


def test_a_job_that_is_moved_to_lsf_and_given_other_options_there():
    given = {"engine": "lsf", "slurm": (), "lsf": ("-q long",)}
    moved = chosen_options(Options(engine="slurm", slurm=("-p", "a")), given)
    assert (moved.engine, moved.slurm, moved.lsf) == ("lsf", ("-p", "a"), ("-q", "long"))
    assert moved.engine_options == ("-q", "long")
    with pytest.raises(UsageError, match="--lsf is for --engine lsf"):
        chosen_options(moved, {**given, "engine": "slurm"})


def test_an_engine_as_people_read_it():
    assert engine_text(Options()) == "this host"
    assert engine_text(Options(engine="slurm", slurm=("-p", "a b"))) == "slurm with -p 'a b'"
