"""Fixtures of the tests that run real workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worker_runs import Ground, Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Forks workers fast."""
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def ground(tmp_path: Path, zygote: Zygote) -> Iterator[Ground]:
    """A store and its surroundings, of which no process is left when the test is over."""
    made = Ground(tmp_path, zygote)
    yield made
    made.end()
    made.nothing_runs()
