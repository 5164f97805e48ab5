import pytest

from looking_kit import CHUNKS, JOB, HandMade
from perdure.cli.naming import (
    find_job,
    find_task,
    find_tasks,
    scope_of,
    split_named_checkpoint,
)
from perdure.errors import JobMissing, UsageError
from perdure.manager.labels import split_checkpoint, split_task, split_values, task_label
from perdure.store import layout

OTHER = "01jdxyzzzz000000000000000a"


@pytest.fixture(scope="module")
def movie():
    return HandMade()


@pytest.fixture(scope="module")
def view(movie):
    return movie.view()


def two_jobs():
    first = HandMade()
    HandMade(job=OTHER, driver=first.driver)
    return first


@pytest.mark.parametrize("name", [JOB, JOB.upper(), JOB[:24], "01jdxyz0"])
def test_a_job_is_found_by_its_id_and_by_what_begins_it(name):
    assert find_job(two_jobs().store, name).job == JOB


def test_last_is_the_job_that_was_made_last():
    assert find_job(two_jobs().store, "last").job == OTHER


def test_a_removed_job_is_not_the_last():
    made = two_jobs()
    made.driver.delete(layout.job_record(OTHER))
    assert find_job(made.store, "last").job == JOB


def test_a_key_is_found_and_goes_before_a_prefix():
    made = two_jobs()
    made.log(layout.name_log("01j")).append({"kind": "key", "name": "01j", "job": JOB})
    assert find_job(made.store, "01j").job == JOB


def test_a_prefix_of_several_jobs_lists_them():
    with pytest.raises(UsageError) as caught:
        find_job(two_jobs().store, "01jdxyz")
    assert JOB in caught.value.message
    assert OTHER in caught.value.message


def test_a_name_that_is_no_id_says_which_ids_have_it(movie):
    with pytest.raises(JobMissing) as caught:
        find_job(movie.store, "Movie")
    assert JOB in caught.value.hint


@pytest.mark.parametrize("name", ["", "nothing", "last"])
def test_where_there_is_no_such_job_it_is_said(name):
    empty = HandMade()
    empty.driver.delete(layout.job_record(JOB))
    with pytest.raises(JobMissing):
        find_job(empty.store, name)


@pytest.mark.parametrize(
    "name",
    [
        "Render[Frame=12,Camera=left,top]",
        "Render[Camera=left,top,Frame=12]",
        "Render[Camera=left,top, Frame=12]",
    ],
)
def test_a_task_is_found_by_its_values_in_any_order(view, name):
    found = find_task(view, None, name)
    assert found.label == "Render[Frame=12,Camera=left,top]"
    assert found.ref.index is not None


def test_a_task_is_found_by_its_key_and_by_what_begins_it(view, movie):
    key = movie.key(7)
    assert find_task(view, None, key).ref.index == 7
    assert find_task(view, None, key[:10]).ref.task == key


def test_a_step_of_one_task_is_that_task(view):
    assert find_task(view, None, "Encode").label == "Encode"


def test_values_that_fit_several_tasks_list_them(view):
    assert len(find_tasks(view, None, "Render[Frame=3]")) == 2
    with pytest.raises(UsageError) as caught:
        find_task(view, None, "Render[Frame=3]")
    assert "Render[Frame=3,Camera=right]" in caught.value.message


def test_with_a_step_the_values_alone_will_do(view):
    assert find_task(view, "Render", "Frame=3,Camera=right").label == "Render[Frame=3,Camera=right]"


@pytest.mark.parametrize("name", ["Render[Frame=99]", "Bake", "Render[Lens=1]", "ffffffffffffffff"])
def test_an_unknown_task_shows_how_tasks_are_called(view, name):
    with pytest.raises(UsageError) as caught:
        find_tasks(view, None, name)
    assert "Render[Frame=1,Camera=left,top]" in caught.value.hint


def test_a_chunk_is_found_by_one_of_its_values():
    view = HandMade(template=CHUNKS).view()
    assert find_task(view, None, "Render[Frame=7]").label == "Render[Frame=6-10]"
    assert find_task(view, None, "Render[Frame=6-10]").label == "Render[Frame=6-10]"


def test_scopes_are_what_wishes_record(view, movie):
    assert scope_of(view, None, None) == {}
    assert scope_of(view, "Encode", None) == {"step": 2}
    key = movie.key(0)
    assert scope_of(view, None, key) == {"step": 1, "task": key}
    with pytest.raises(UsageError, match="no step 'Bake'"):
        scope_of(view, "Bake", None)


def test_a_checkpoints_name_is_job_task_and_sequence():
    assert split_named_checkpoint("last/Step[Frame=12]@7") == [("last", "Step[Frame=12]", 7)]
    assert split_named_checkpoint("last/Step") == [("last", "Step", None)]
    assert split_named_checkpoint("a/b/Step@1") == [("a", "b/Step", 1), ("a/b", "Step", 1)]


@pytest.mark.parametrize("text", ["last", "", "/Step@1", "last/"])
def test_what_names_no_checkpoint_is_refused(text):
    with pytest.raises(UsageError, match="names no checkpoint"):
        split_named_checkpoint(text)


def test_labels_and_their_parts():
    assert task_label("Step", {}) == "Step"
    assert task_label("Step", {"A": "1", "B": "x"}) == "Step[A=1,B=x]"
    assert split_task("A[x][B=1]", ["A", "A[x]"]) == ("A[x]", "B=1")
    assert split_task("Nothing", ["A"]) is None
    assert split_values("A=1,2,B==", ["A", "B"]) == {"A": "1,2", "B": "="}
    assert split_values("1,A=2", ["A"]) is None
    assert split_checkpoint("a@b@3") == ("a@b", 3)
    assert split_checkpoint("a@b") == ("a@b", None)
