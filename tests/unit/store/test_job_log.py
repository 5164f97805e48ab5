"""The fold of a job's log, fed as it is read on."""

from perdure.store.layout import StepKey, TaskKey
from perdure.store.records.job_log import EngineChoice, JobLogState, TaskRef, Wish
from perdure.store.records.log import Entry


def fold(*records, state=None, first=1):
    folded = JobLogState() if state is None else state
    folded.read(Entry(number=n, header=record) for n, record in enumerate(records, first))
    return folded


def test_launches_with_their_tasks():
    ref = TaskRef(task=TaskKey("ab"), index=3, share=2)
    split = TaskRef(task=TaskKey("cd"), values={"F": "1-2"})
    state = fold(
        {
            "kind": "launch",
            "launch": "a",
            "token": "t",
            "step": 1,
            "tasks": [ref.to_json(), split.to_json()],
            "resources": {"gpus": [0]},
        },
        {"kind": "launch", "launch": "a", "token": "other", "step": 2},
        {"kind": "launched", "token": "t", "ids": {"pid": 1}},
        {"kind": "started", "launch": "a", "token": "t", "host": "h"},
    )
    intent = state.launches["a"]
    assert (intent.number, intent.token, intent.step, intent.shares) == (1, "t", 1, False)
    assert intent.tasks == (ref, split)
    assert intent.resources == {"gpus": [0]}
    assert state.launched == {"t": {"pid": 1}}
    assert state.started["a"]["host"] == "h"
    assert state.last == 4


def test_the_last_choice_of_an_engine_holds_and_outdates_what_was_launched_before():
    launch = {"kind": "launch", "step": 1, "token": "t"}
    slurm = {"engine": "slurm", "slurm": ["-p", "long"], "later": 1}
    state = fold({**launch, "launch": "a"})
    assert (state.engine, state.chosen_at, state.is_outdated("a")) == (None, 0, False)
    fold(
        {"kind": "engine", "options": {"engine": "local", "slurm": []}, "by": "user"},
        {"kind": "engine", "options": slurm, "by": "user", "at": "now"},
        {**launch, "launch": "b"},
        state=state,
        first=2,
    )
    assert state.engine == EngineChoice(number=3, engine="slurm", slurm=("-p", "long"), at="now")
    assert [state.is_outdated(one) for one in ("a", "b", "never heard of")] == [True, False, False]


def test_a_kind_that_is_not_known_is_passed_over():
    """So an earlier reader passes over what a later one puts."""
    state = fold({"kind": "of a later version", "options": 1})
    assert state == JobLogState(last=1)


def test_the_first_seal_and_the_first_fence_hold():
    state = fold(
        {"kind": "seal", "launch": "a", "by": "b", "counter": 7},
        {"kind": "seal", "launch": "a", "by": "c", "counter": 9},
        {"kind": "fence", "launch": "a", "offset": 100},
        {"kind": "fence", "launch": "a", "offset": 200},
    )
    assert (state.seals, state.fences, state.still_at) == ({"a": 1}, {"a": 100}, {"a": 7})


def test_wishes_in_order():
    state = fold(
        {"kind": "suspend", "scope": {"step": 1}, "by": "host", "now": True},
        {"kind": "cancel", "scope": {}, "by": "user"},
    )
    fold({"kind": "resume", "scope": {}, "lifts": 2}, state=state, first=3)
    assert state.wishes == [
        Wish(number=1, kind="suspend", scope={"step": 1}, by="host", is_now=True),
        Wish(number=2, kind="cancel", scope={}, by="user"),
        Wish(number=3, kind="resume", scope={}, lifts=2),
    ]


def test_the_last_settled_counts_and_later_kinds_are_passed_over():
    state = fold(
        {"kind": "settled", "step": 1, "state": "FAILED"},
        {"kind": "sometime"},
        {"kind": "settled", "step": 1, "state": "SUCCEEDED"},
        {"kind": "settled", "step": None, "state": "SUCCEEDED"},
    )
    assert state.settled[StepKey(1)].number == 3
    assert state.settled[None].number == 4
    assert state.last == 4
