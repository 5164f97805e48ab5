"""What a turn relies on, of any engine: to be inherited by a test class with a `ground`.

The workers that it starts find no store, say so and end: an engine has to see to processes, not to
what they do.
"""

import os
from pathlib import Path

import pytest

from perdure.engines.base import Engine, LaunchRequest
from perdure.store.opening import FORMAT_KEY, open_store
from support.worker_runs import wait_until


class EngineGround:
    """An engine with folders for its workers.

    Args:
        make: makes a new object for the same engine.
        folder: seen by all of its hosts.
    """

    def __init__(self, make, folder) -> None:
        self._make = make
        self.folder = folder
        self._started = []

    def make(self) -> Engine:
        """A new object for the engine."""
        return self._make()

    def close(self) -> None:
        """Wait until nothing that was started is there."""
        self._let_go()
        for engine, ids in self._started:
            wait_until("it has ended", lambda e=engine, i=ids: not e.is_there(i))

    def request(self, number: int, token: str, *, store: str | None = None) -> LaunchRequest:
        return LaunchRequest(
            store=store or str(self.folder / "no-such-store"),
            job="01k0000000000000000000000j",
            launch=f"01k000000000000000000000{number:02}",
            token=token,
            logs=self.folder / "logs",
            sessions=self.folder / "sessions",
            gpus=None,
            environment={},
        )

    def slow_store(self) -> Path:
        """A store whose mark is a pipe: whoever opens it waits for somebody who writes."""
        root = self.folder / "slow-store"
        open_store(str(root), write=True, create=True)
        mark = root / FORMAT_KEY
        mark.unlink()
        os.mkfifo(mark)
        return root

    def _let_go(self) -> None:
        """Nobody waits any more."""
        mark = self.folder / "slow-store" / FORMAT_KEY
        if mark.exists():
            writer = os.open(mark, os.O_RDWR | os.O_NONBLOCK)
            mark.unlink()
            os.close(writer)

    def start(self, engine: Engine, count: int = 1):
        tokens = list(engine.new_tokens(count))
        requests = [self.request(number, token) for number, token in enumerate(tokens)]
        return tokens, self.start_requests(engine, requests)

    def start_requests(self, engine: Engine, requests):
        ids = list(engine.start(requests))
        self._started += [(engine, one) for one in ids]
        return ids


class EngineContract:
    """The contract; `ground` is a fixture of the class that inherits it."""

    def test_tokens_are_never_the_same(self, ground):
        engine = ground.make()
        tokens = [*engine.new_tokens(3), *engine.new_tokens(3), *ground.make().new_tokens(3)]
        assert len(set(tokens)) == 9

    def test_each_worker_has_ids_of_its_own_and_they_say_whose_they_are(self, ground):
        _tokens, ids = ground.start(ground.make(), 2)
        assert len({repr(sorted(one.items())) for one in ids}) == 2
        assert len({one["engine"] for one in ids}) == 1

    def test_a_worker_is_found_by_its_token_by_somebody_else(self, ground, slow_worker):
        engine = ground.make()
        (token,) = engine.new_tokens(1)
        (ids,) = ground.start_requests(engine, [slow_worker(0, token)])
        other = ground.make()
        found = wait_until("it is found", lambda: other.find(token))
        assert found == ids
        assert other.is_there(ids)

    def test_nothing_is_found_by_a_token_that_nothing_carries(self, ground):
        engine = ground.make()
        (token,) = engine.new_tokens(1)
        assert engine.find(token) is None
        assert engine.find("no token of any engine") is None

    def test_a_worker_that_has_ended_is_not_there(self, ground):
        engine = ground.make()
        (token,), (ids,) = ground.start(engine)
        wait_until("it has ended", lambda: not engine.is_there(ids))
        assert engine.find(token) is None
        assert not engine.may_live(ids)

    def test_nobody_stopped_what_ended_by_itself(self, ground):
        engine = ground.make()
        _tokens, (ids,) = ground.start(engine)
        wait_until("it has ended", lambda: not engine.is_there(ids))
        assert engine.why_stopped(ids, has_begun=False) is None
        assert engine.why_stopped(ids, has_begun=True) is None
        assert ground.make().why_stopped(ids, has_begun=False) is None

    def test_what_a_worker_says_is_beside_the_logs(self, ground):
        engine = ground.make()
        _tokens, (ids,) = ground.start(engine)
        wait_until("it has ended", lambda: not engine.is_there(ids))

        def said() -> bool:
            files = (ground.folder / "logs").glob("*.out")
            return any("perdure-worker: " in one.read_text(encoding="utf-8") for one in files)

        wait_until("it is written", said)

    @pytest.fixture
    def slow_worker(self, ground):
        """Requests for a worker that waits for a pipe that nobody writes to."""
        root = ground.slow_store()

        def request(number: int, token: str) -> LaunchRequest:
            return ground.request(number, token, store=str(root))

        return request
