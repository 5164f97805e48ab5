"""What starts workers, seen from a turn."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """One worker to start.

    Attributes:
        store: URL of the store.
        token: that everything of the launch carries, and by which the engine finds it again.
        logs: where the launch's log goes.
        sessions: where session folders are made.
        gpus: for CUDA_VISIBLE_DEVICES; None: as it is.
        environment: variables that the worker brings its tasks (secrets are not in the store).
    """

    store: str
    job: str
    launch: str
    token: str
    logs: Path
    sessions: Path
    gpus: str | None
    environment: Mapping[str, str]


class Engine(Protocol):
    """Starts workers and knows whether they are there."""

    def new_token(self) -> str:
        """A token for a launch whose intent is about to be recorded."""
        ...

    def start(self, request: LaunchRequest) -> Mapping[str, Any]:
        """Start a worker; returns the engine's own ids for it, JSON-able.

        Raises:
            EngineUnavailable, EngineRefused: it was not started.
        """
        ...

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The ids of a worker that was started with that token and is there, or None."""
        ...

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        """Whether the engine still has that worker, running or waiting."""
        ...

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        """Tell a worker at once what stands in the job's log anyway; best effort."""
        ...

    def wait(self, seconds: float) -> bool:
        """Return when a worker that this engine started has ended (True), or after so long."""
        ...
