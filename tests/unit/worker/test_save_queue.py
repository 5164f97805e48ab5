"""What waits for the capture thread, and in which order it is taken."""

import pytest

from perdure.protocol.attempt_messages import FilesDeclared, SaveAnnounced
from perdure.protocol.dataset import Dataset
from perdure.store.capture.save_values import Announcement, Frozen
from perdure.worker.save_facts import SaveFacts
from perdure.worker.save_queue import DeclaredSet, QueuedSave, QueuedValues, SaveQueue


def frozen(n: int = 1) -> Frozen:
    return Frozen(announcement=Announcement(save=n, line_at_ns=0))


def save(n: int) -> QueuedSave:
    event = SaveAnnounced(line_number=n, n=n, state=str(n), file=None, dataset=Dataset())
    return QueuedSave(
        event=event, frozen=frozen(n), heard_at=0.0, is_after_notice=False, covered=()
    )


def values(*numbers: int, files=()) -> QueuedValues:
    return QueuedValues(values=numbers, dataset=Dataset(files=tuple(files)), frozen=frozen())


def declared(*files: str, reset: bool = False) -> FilesDeclared:
    return FilesDeclared(line_number=1, count=1, files=files, dirs=(), is_reset=reset)


def test_a_save_before_values_before_early_bytes():
    queue = SaveQueue()
    queue.put_early(declared("/a"))
    queue.put_values(values(1))
    queue.put_save(save(1))
    queue.finish(drop=False)
    assert [type(queue.take()).__name__ for _ in range(3)] == [
        "QueuedSave",
        "QueuedValues",
        "NoneType",
    ]


def test_early_bytes_are_taken_while_the_task_runs():
    queue = SaveQueue()
    queue.put_early(declared("/a"))
    queue.put_early(declared("/b"))
    assert [event.files for event in queue.take()] == [("/a",), ("/b",)]
    queue.put_early(declared("/a"))
    queue.put_early(declared("/c", reset=True))
    assert [event.files for event in queue.take()] == [("/c",)]


def test_a_newer_save_gives_back_the_one_that_it_supersedes():
    queue = SaveQueue()
    first, second = save(1), save(2)
    assert queue.put_save(first) is None
    assert queue.put_save(second) is first
    assert queue.take() is second


def test_values_that_are_owed_come_with_the_next_ones_and_at_the_end():
    queue = SaveQueue()
    queue.owe(values(1, files=["/1"]))
    waiting = queue.waiting_values()
    assert waiting is not None
    together = waiting.joined(values(2, files=["/2"]))
    assert (together.values, together.dataset.files) == ((1, 2), ("/1", "/2"))
    assert together.frozen is None
    queue.owe(values(3))
    queue.owe(values(4))
    queue.finish(drop=False)
    last = queue.take()
    assert isinstance(last, QueuedValues)
    assert last.values == (3, 4)
    queue.owe(last)  # in vain: there is no third time
    assert queue.take() is None


def test_dropping_forgets_all_and_gives_back_what_was_stamped():
    queue = SaveQueue()
    queue.put_save(save(1))
    queue.put_values(values(1))
    queue.finish(drop=True)
    assert queue.take() is None
    assert len(queue.dropped()) == 2
    assert queue.dropped() == ()


def test_a_reset_begins_a_new_generation():
    known = DeclaredSet()
    known.add(declared("/a", "/b", "/a"))
    assert (known.generation, known.dataset.files) == (0, ("/a", "/b"))
    known.add(declared("/c", reset=True))
    assert (known.generation, known.dataset.files) == (1, ("/c",))


@pytest.mark.parametrize("second_is_committed", [True, False])
def test_one_durable_save_after_the_notice_is_enough(second_is_committed):
    facts = SaveFacts()
    facts.announce(1, at=10.0, is_after_notice=True)
    assert facts.after_notice == 10.0
    assert not facts.after_notice_durable
    facts.commit(heard_at=10.0, took_seconds=0.1, is_after_notice=True)
    facts.announce(2, at=12.0, is_after_notice=True)
    if second_is_committed:
        facts.commit(heard_at=12.0, took_seconds=0.1, is_after_notice=True)
    assert facts.after_notice_durable
    assert facts.after_notice == (12.0 if second_is_committed else 10.0)
