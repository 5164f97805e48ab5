"""Full packs on their way: side by side or not, failing, tried again, given up."""

import threading

import pytest

from perdure.errors import StoreDamaged, StoreUnavailable
from perdure.store.drivers.driver import PutUncertain
from perdure.store.drivers.memory import Call, LoseReply, MemoryDriver
from perdure.store.layout import PackId
from perdure.store.packs.pack_uploads import PackUploads
from support.worker_runs import wait_until


class Store(MemoryDriver):
    """Fails the first creations as ``troubles`` says, in order."""

    def __init__(self, uploads_at_once, troubles=()):
        super().__init__(before=self._before)
        self.uploads_at_once = uploads_at_once
        self.troubles = list(troubles)
        self.creations = 0
        self.may_go = threading.Event()
        self.may_go.set()

    def _before(self, call, _key):
        if call is Call.PUT_IF_ABSENT:
            self.creations += 1
            assert self.may_go.wait(30)
            if self.troubles:
                raise self.troubles.pop(0)

    def started(self, uploads, *names):
        made = []
        for name in names:
            upload = self.upload(name)
            upload.write(name.encode())
            uploads.start(PackId(name), upload)
            made.append(upload)
        return made


@pytest.fixture(params=[1, 2, 3])
def at_once(request):
    return request.param


def test_all_are_there_when_it_is_finished(at_once):
    store = Store(at_once)
    uploads = PackUploads(store)
    store.started(uploads, "a", "b", "c", "d")
    uploads.finish()
    assert list(store.list("")) == ["a", "b", "c", "d"]
    assert store.creations == 4


def test_what_failed_is_tried_again_by_who_asks_again(at_once):
    store = Store(at_once, [StoreUnavailable("away")])
    uploads = PackUploads(store)
    with pytest.raises(StoreUnavailable):
        start_and_finish(store, uploads, "a")
    uploads.finish()
    uploads.finish()
    assert store.get("a") == b"a"


def start_and_finish(store, uploads, *names):
    store.started(uploads, *names)
    uploads.finish()


@pytest.mark.parametrize("lost", [1, 4, 5, 7])
def test_a_pack_whose_answers_were_lost_is_ours(lost, at_once):
    store = Store(at_once, [LoseReply(applied=True)] * lost)
    uploads = PackUploads(store)
    try:
        start_and_finish(store, uploads, "a")
    except PutUncertain:
        assert lost >= 5
        uploads.finish()
    assert store.get("a") == b"a"


def test_a_pack_that_somebody_else_made_is_damage(at_once):
    store = Store(at_once)
    store.objects.create("a", b"theirs")
    with pytest.raises(StoreDamaged, match="the pack a exists already"):
        start_and_finish(store, PackUploads(store), "a")


def test_what_is_given_up_is_waited_for_by_nobody_and_its_failure_is_nobodys():
    store = Store(2, [StoreUnavailable("away"), StoreUnavailable("away")])
    store.may_go.clear()
    uploads = PackUploads(store)
    first, second = store.started(uploads, "a", "b")
    uploads.abandon()
    uploads.abandon()
    store.may_go.set()
    wait_until("both failures", lambda: not store.troubles)  # or they would be others'
    start_and_finish(store, uploads, "c", "d", "e")
    assert list(store.list("")) == ["c", "d", "e"]
    assert (first.size, second.size) == (0, 0)


def test_who_is_faster_than_the_line_waits():
    store = Store(2)
    store.may_go.clear()
    uploads = PackUploads(store)
    store.started(uploads, "a", "b")
    third = threading.Thread(target=store.started, args=(uploads, "c"))
    third.start()
    assert store.creations <= 2
    store.may_go.set()
    third.join(30)
    uploads.finish()
    assert list(store.list("")) == ["a", "b", "c"]
