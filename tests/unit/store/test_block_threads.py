"""Rows of work, worked off by several threads."""

import os
import threading

import pytest

from perdure.store.drivers.buffers import is_aligned
from perdure.store.packs.block_threads import BUFFER_BYTES, BlockThreads


def test_every_item_is_worked_once_and_with_a_buffer_of_its_own():
    done, buffers, busy = [], set(), threading.Lock()
    both = threading.Barrier(2)

    def work(item, buffer):
        if item < 2:  # both threads hold one at this moment
            both.wait(timeout=30)
            buffers.add(id(buffer))
        assert is_aligned(buffer)
        assert buffer.nbytes == BUFFER_BYTES
        with busy:
            done.append(item)

    BlockThreads(2).run(iter(range(50)), work)
    assert sorted(done) == list(range(50))
    assert len(buffers) == 2


def test_the_first_failure_ends_the_row():
    done = []

    def work(item, _buffer):
        done.append(item)
        if item == 3:
            raise ValueError(item)

    with pytest.raises(ValueError, match="3"):
        BlockThreads(1).run(iter(range(50)), work)
    assert done == [0, 1, 2, 3]


def test_a_row_that_fails_is_told():
    def row():
        yield 1
        raise OSError

    with pytest.raises(OSError):
        BlockThreads(2).run(row(), lambda _item, _buffer: None)


def test_in_the_background_only_these_threads_step_back():
    seen = []
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work(_item, _buffer):
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    threads = BlockThreads(1)
    threads.run(iter([1]), work, in_background=True)
    threads.run(iter([1]), work)
    assert seen == [19, mine]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine
