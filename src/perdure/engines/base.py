"""What starts workers, seen from a turn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from perdure.policy.memory_growth import MemoryWish
from perdure.policy.resources import Requirements


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """One worker to start.

    Attributes:
        store: URL of the store.
        token: that everything of the launch carries, and by which the engine finds it again.
        logs: where the launch's log goes.
        sessions: where session folders are made.
        gpus: for CUDA_VISIBLE_DEVICES; None: as it is.
        environment: variables that the worker brings its tasks (secrets are not in the store).
        requirements: what its step asks of a host, for an engine that chooses one.
        avoid_hosts: where some of its tasks could not start.
        memory: more than its step asks for, because that ran out; None: what it asks for.
        delay_seconds: it is to begin so much later, by an engine that can.
    """

    store: str
    job: str
    launch: str
    token: str
    logs: Path
    sessions: Path
    gpus: str | None
    environment: Mapping[str, str]
    requirements: Requirements = field(default_factory=Requirements)
    avoid_hosts: tuple[str, ...] = ()
    memory: MemoryWish | None = None
    delay_seconds: float = 0.0


class Engine(Protocol):
    """Starts workers and knows whether they are there.

    Attributes:
        ends_with_host: whether its workers end when the host of whoever started them does.
    """

    ends_with_host: bool

    def new_tokens(self, count: int) -> Sequence[str]:
        """Tokens for launches of one step whose intents are about to be recorded.

        Raises:
            EngineUnavailable, EngineRefused: it cannot tell how they would be started.
        """
        ...

    def start(self, requests: Sequence[LaunchRequest]) -> Sequence[Mapping[str, Any]]:
        """Start workers of one step; returns the engine's own ids for each, JSON-able.

        Raises:
            EngineUnavailable, EngineRefused: none of them, or not all of them, were started.
        """
        ...

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The ids of a worker that was started with that token and is there, or None."""
        ...

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        """Whether the engine still has that worker, running or waiting."""
        ...

    def may_live(self, ids: Mapping[str, Any]) -> bool:
        """Whether a worker whose heartbeat stands still is not to be taken for dead.

        Its host is out of the engine's reach, it is stopped, or the engine has not said yet that it
        is over: somebody else at its work would be a second copy.
        """
        ...

    def why_stopped(self, ids: Mapping[str, Any], *, has_begun: bool) -> str | None:
        """Why a worker that ended by no doing of its own is not to be started again; None: it is.

        Args:
            ids: of the worker.
            has_begun: whether it said that it started.
        """
        ...

    def ran_out_of_memory(self, ids: Mapping[str, Any]) -> bool:
        """Whether the engine ended that worker because its memory was used up, as far as known."""
        ...

    def follow_later(self, seconds: float, logs: Path) -> bool:
        """Have a turn made in so many seconds by nobody who waits; whether that can be had.

        Raises:
            EngineUnavailable, EngineRefused: it can be, and is not.
        """
        ...

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        """Tell a worker at once what stands in the job's log anyway; best effort."""
        ...

    def withdraw(self, ids: Mapping[str, Any]) -> None:
        """Take a worker back that waits and has not begun; nothing to one that runs.

        Raises:
            EngineUnavailable, EngineRefused: it may still be there, and begin.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Return when a worker that this engine started has ended (True), or after so long."""
        ...
