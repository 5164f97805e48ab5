"""``echkpnt.perdure`` and ``erestart.perdure``: LSF's checkpoints, by perdure.

LSF runs them, as the user, for jobs that were submitted with ``bsub -k "DIR method=perdure"``: the
first for `bchkpnt` and at every period, the second for `brestart`. The jobs are scripts with
`perdure run` in them, or elements of arrays of ``--engine lsf``.

A checkpoint that lets the job go on is one that the program takes by itself: it is waited for. To
ask a program to save means to ask it to leave: with ``-k`` it is asked, as when the host goes. A
restart needs no command of its own: the job's own, given again, goes on from the last save.

Exit codes: 0 all of it is saved, or can go on; 1 it is not, and the job runs on (unless ``-k``
stopped it); what is wrong stands on standard error, which LSF drops by default
(LSB_ECHKPNT_KEEP_OUTPUT=y keeps it).

Source: IBM Spectrum LSF 10.1, "Application-level checkpoint and restart executables"; docs/engines.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.clock import SystemClock, pause
from perdure.engines.lsf.checkpoint_notes import FOLDER_VARIABLE, CheckpointNote, read_notes
from perdure.errors import PerdureError, UsageError
from perdure.manager.launch_saves import AtWork, at_work
from perdure.manager.presence import live_manager
from perdure.store.layout import JobId, LaunchId
from perdure.store.opening import open_store
from perdure.worker.host import is_of_here
from perdure.worker.job_records import JobRecords
from perdure.worker.processes import ProcessInfo, carrying, send

#: So long a program is waited for that saves by itself; LSF advises periods of half an hour.
_SAVE_SECONDS = 1800.0
#: So long a worker that was told to leave is waited for.
_LEAVE_SECONDS = 600.0
_LOOK_SECONDS = 0.2


class Asked(Struct, frozen=True, kw_only=True):
    """What LSF asks of ``echkpnt``.

    Attributes:
        kills: the job is to be over afterwards.
        folder: of the job's checkpoints.
    """

    kills: bool
    folder: Path


def read_echkpnt(words: Sequence[str], environment: Mapping[str, str]) -> Asked:
    """``[-c] [-f] [-k | -s] [-d DIR] [-x] PROCESS_GROUP``; what means nothing here is passed over.

    Raises:
        UsageError: no folder is named, neither there nor by LSB_CHKPNT_DIR.
    """
    folder = environment.get(FOLDER_VARIABLE, "")
    if "-d" in words[:-1]:
        folder = words[words.index("-d") + 1]
    if not folder:
        raise UsageError(
            "echkpnt.perdure was not told where the job's checkpoints are",
            hint='LSF starts it, for jobs that were submitted with bsub -k "DIR method=perdure".',
        )
    return Asked(kills="-k" in words, folder=Path(folder))


def read_erestart(words: Sequence[str]) -> Path:
    """``[-c] [-f] DIR``.

    Raises:
        UsageError: there is no folder.
    """
    if not words or words[-1].startswith("-"):
        raise UsageError("erestart.perdure needs the folder of the job's checkpoints")
    return Path(words[-1])


class _Worker:
    """One worker in the job of LSF, and what was saved when it was found."""

    def __init__(self, note: CheckpointNote) -> None:
        self._note = note
        self._launch = LaunchId(note.launch)
        self._records = records_of(note)
        self._before = {task.task: task.save for task in self.tasks() if not task.is_over}

    def tasks(self) -> Sequence[AtWork]:
        """What it works at now, and what it has done."""
        return at_work(self._records, self._launch)

    def tell_to_leave(self) -> None:
        """As if the host went: by its manager, which else would start another one."""
        manager = None
        if self._note.engine == "local":
            manager = live_manager(self._records.driver, self._records.job)
        if manager is not None and is_of_here(manager):
            os.kill(int(manager["pid"]), signal.SIGTERM)
            return
        for process in _processes(self._note):
            send(process, signal.SIGTERM)

    def unsaved(self) -> list[AtWork]:
        """What ran when it was found and runs on, without a save since."""
        return [
            task
            for task in self.tasks()
            if task.task in self._before
            and not task.is_over
            and task.save <= self._before[task.task]
        ]

    def running(self) -> list[AtWork]:
        """What has not ended."""
        return [task for task in self.tasks() if not task.is_over]

    def lost(self) -> list[AtWork]:
        """What has ended and has to begin again: it never saved."""
        over = [task for task in self.tasks() if task.is_over and task.task in self._before]
        return [task for task in over if not task.save and task.state != "SUCCEEDED"]


def _checkpoint(words: Sequence[str]) -> int:
    asked = read_echkpnt(words, os.environ)
    index = os.environ.get("LSB_JOBINDEX", "0")
    notes = [n for n in read_notes(asked.folder) if n.index == index and _processes(n)]
    if not notes:
        return _refuse(f"no worker of perdure is at work that left a note in {asked.folder}")
    workers = [_Worker(note) for note in notes]
    return _end(workers) if asked.kills else _wait_for_saves(workers)


def _wait_for_saves(workers: Sequence[_Worker]) -> int:
    _wait_while(lambda: any(worker.unsaved() for worker in workers), _SAVE_SECONDS)
    return _tell(
        [task for worker in workers for task in worker.unsaved()],
        f"did not save within {_SAVE_SECONDS:.0f} s; bchkpnt -k asks it to",
    )


def _end(workers: Sequence[_Worker]) -> int:
    for worker in workers:
        worker.tell_to_leave()
    _wait_while(lambda: any(worker.running() for worker in workers), _LEAVE_SECONDS)
    running = [task for worker in workers for task in worker.running()]
    lost = [task for worker in workers for task in worker.lost()]
    code = _tell(running, f"did not leave within {_LEAVE_SECONDS:.0f} s")
    return _tell(lost, "has no checkpoint, and will begin again") or code


def _wait_while(check: Callable[[], bool], longest_seconds: float) -> None:
    until = time.monotonic() + longest_seconds
    while check() and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def _tell(tasks: Sequence[AtWork], what: str) -> int:
    """Say what is wrong with the tasks; the exit code."""
    for task in tasks:
        _refuse(f"task {task.task} {what}")
    return 1 if tasks else 0


def _restart(words: Sequence[str]) -> int:
    folder = read_erestart(words)
    notes = read_notes(folder)
    if not notes:
        return _refuse(f"no worker of perdure left a note in {folder}: begin the job anew")
    records = records_of(notes[-1])
    records.refresh()
    if not records.state.launches:
        return _refuse(f"job {notes[-1].job} is not in {notes[-1].store} any more")
    return 0


def records_of(note: CheckpointNote) -> JobRecords:
    """The job's records, not read yet.

    Raises:
        HomeError: the store cannot be read.
    """
    store = open_store(note.store, write=False)
    return JobRecords(store.driver, JobId(note.job), clock=SystemClock(), pause=pause)


def _processes(note: CheckpointNote) -> list[ProcessInfo]:
    """The worker and its keeper: what their tasks run carries tokens of its own."""
    return carrying(lambda token: token == note.token)


def _refuse(why: str) -> int:
    print(f"perdure: {why}", file=sys.stderr)
    return 1


def echkpnt() -> int:
    """The program that LSF runs to have a job saved."""
    return _guarded(_checkpoint)


def erestart() -> int:
    """The program that LSF runs before it starts a saved job again."""
    return _guarded(_restart)


def _guarded(run: Callable[[Sequence[str]], int]) -> int:
    try:
        return run(sys.argv[1:])
    except PerdureError as error:
        return _refuse(f"{error.message} {error.hint}".rstrip())
