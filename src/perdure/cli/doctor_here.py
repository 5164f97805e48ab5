"""What `perdure doctor` looks at on this host: each check says one line, and none ends the others.

Blocks while a file of 1 MiB is written to the store and read back.
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ulid import ULID

import perdure
from perdure.cli.findings import Finding, failed, ok, warning
from perdure.cli.places import Places
from perdure.clock import SystemClock, pause
from perdure.errors import PerdureError
from perdure.manager.probe_checkpoint import PROBE_BYTES, Probe
from perdure.sizes import size_text
from perdure.store.layout import JobId
from perdure.store.opening import Store
from perdure.store.room import free_bytes, free_in

#: Less free room than this is worth a word.
_LITTLE_BYTES = 1 << 30
#: A clock that is farther off than this is worth a word: it stands beside every checkpoint.
CLOCK_SECONDS = 5.0
#: And less than this is what a kernel's coarse clock is late by.
_NO_SECONDS = 0.1


def check_here(where: Places) -> Iterator[Finding]:
    """The checks of this host, one after the other."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield ok("interpreter", f"{sys.executable}, Python {version}, perdure {perdure.__version__}")
    store, found = _store(where)
    yield _writable("home", where.home)
    yield found
    yield _writable("sessions", Path(tempfile.gettempdir()))
    yield from _room(where, store)
    yield _clock(where.home)
    if store is not None:
        yield _checkpoint(store)


def new_probe(store: Store) -> Probe:
    """A probe of the store, under an id that no job has."""
    job = JobId(str(ULID()).lower())
    return Probe(driver=store.driver, job=job, clock=SystemClock(), pause=pause)


def _store(where: Places) -> tuple[Store | None, Finding]:
    """The store, opened for writing: it is made where none is, as the first job would do."""
    try:
        store = where.open(write=True, create=True)
    except PerdureError as error:
        return None, failed("store", error.message, error.hint)
    return store, ok("store", f"{where.store_url} opens, and refuses a second put of one key")


def _writable(check: str, folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"probe")
    except OSError as error:
        return failed(
            check, f"{folder} cannot be written: {error.strerror}", "Name a folder of your own."
        )
    return ok(check, f"{folder} can be written")


def _room(where: Places, store: Store | None) -> Iterator[Finding]:
    """What may still be written, by free room and quota."""
    places = [("home", _free(where.home))]
    places += [] if store is None else [("store", free_in(store.driver))]
    for name, free in places:
        if free is None:
            continue
        text = f"{size_text(free)} are free in the {name}"
        if free < _LITTLE_BYTES:
            yield warning("room", text, "Free some: `perdure du` shows what jobs take.")
        else:
            yield ok("room", text)


def _free(folder: Path) -> int | None:
    try:
        return free_bytes(folder)
    except OSError:
        return None


def _clock(folder: Path) -> Finding:
    """This host's clock against that of whoever keeps the home's files (a file server, say)."""
    path = folder / f".clock-{secrets.token_hex(8)}"
    try:
        before = time.time()
        path.touch(mode=0o600, exist_ok=False)
        written = path.stat().st_mtime
        after = time.time()
        path.unlink()
    except OSError as error:
        return warning("clock", f"it cannot be compared: {error.strerror}", "See `home`.")
    return judge_clock("clock", "the home's files", seconds_off(written, before, after))


def seconds_off(theirs: float, before: float, after: float) -> float:
    """How far a clock is off at least, that was read between two moments of ours."""
    return theirs - after if theirs > after else min(0.0, theirs - before)


def judge_clock(check: str, whose: str, off: float) -> Finding:
    """A clock that is so far from ours."""
    text = f"{whose}: {abs(off):.1f} s {'ahead of' if off > 0 else 'behind'} our clock"
    if abs(off) < _NO_SECONDS:
        text = f"{whose}: as our clock"
    if abs(off) <= CLOCK_SECONDS:
        return ok(check, text)
    advice = "Have its clock set: nothing is decided by it, but moments beside checkpoints are off."
    return warning(check, text, advice)


def _checkpoint(store: Store) -> Finding:
    """A checkpoint through the store and back."""
    probe = new_probe(store)
    try:
        began = time.monotonic()
        content = probe.write(os.urandom(PROBE_BYTES))
        is_same = probe.read() == content
        took = time.monotonic() - began
    except PerdureError as error:
        return failed("checkpoint", error.message, error.hint or "See `store`.")
    finally:
        _remove(probe)
    if not is_same:
        return failed("checkpoint", "what was read is not what was written", "Use another store.")
    return ok("checkpoint", f"1 MiB was saved and read back in {took:.2f} s")


def _remove(probe: Probe) -> None:
    try:
        probe.remove()
    except PerdureError as error:  # what is left is taken away by `perdure repair`
        print(f"perdure: the probe could not be removed: {error.message}", file=sys.stderr)
