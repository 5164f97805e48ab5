"""What a task finds in its environment.

The submitter's variables as they were at submit, the secrets that the resuming command brought, and
perdure's own: documented in docs/checkpoint-extension.md, only ever added to. perdure's interpreter
and paths never leak into the task; where PATH has no ``python``, one is offered last.

Source: design 9.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from perdure.store.records.job_document import JobDocument
from perdure.worker.processes import TOKEN_VARIABLE

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# What Slurm and LSF say about the job that a process is in: true there only.
_ALLOCATION = ("SLURM_", "SLURMD_", "LSB_", "LS_")
# Which of the host's devices an allocation has.
_DEVICES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES")


class AttemptVariables(Struct, frozen=True, kw_only=True):
    """What the variables say about one attempt.

    Attributes:
        state, file: of the checkpoint that it goes on from; "" for what it has not.
        checkpoint_dir: a folder in the session folder for checkpoints.
        commit_file: ``checkpoint_committed.json``.
        messages_file: the side channel.
        notice_seconds: how long the task has between the signal and SIGKILL.
        interval_seconds: how often a save is worth its cost.
        save_signal: what asks the task to save and go on, if it catches it.
    """

    job: str
    step: str
    task: str
    attempt: int
    resumed_from: int | None
    state: str
    file: str
    checkpoint_dir: Path
    commit_file: Path
    messages_file: Path
    notice_seconds: int
    interval_seconds: int
    save_signal: str

    def to_environment(self) -> dict[str, str]:
        """As variables."""
        return {
            "PERDURE_JOB": self.job,
            "PERDURE_STEP": self.step,
            "PERDURE_TASK": self.task,
            "PERDURE_ATTEMPT": str(self.attempt),
            "PERDURE_RESUMED_FROM": "" if self.resumed_from is None else str(self.resumed_from),
            "PERDURE_CHECKPOINT_FILE": self.file,
            "PERDURE_CHECKPOINT_STATE": self.state,
            "PERDURE_CHECKPOINT_DIR": str(self.checkpoint_dir),
            "PERDURE_COMMIT_FILE": str(self.commit_file),
            "PERDURE_MESSAGES": str(self.messages_file),
            "PERDURE_NOTICE_SECONDS": str(self.notice_seconds),
            "PERDURE_INTERVAL_SECONDS": str(self.interval_seconds),
            "PERDURE_SAVE_SIGNAL": self.save_signal,
        }


def base_environment(
    document: JobDocument, carried: Mapping[str, str], *, python_dir: Path, gpus: str | None = None
) -> dict[str, str]:
    """The variables that every process of a launch starts from.

    Args:
        document: has the submitter's variables.
        carried: the worker's own variables, of which only the omitted ones are taken, and those of
            the allocation that it runs in.
        python_dir: a folder of ours that may be put at the end of PATH (`offer_python`).
        gpus: for CUDA_VISIBLE_DEVICES; None: left as it is.
    """
    environment = {
        name: text for name, text in document.variables.items() if not name.startswith(_ALLOCATION)
    }
    environment |= {name: carried[name] for name in document.omitted if name in carried}
    environment |= _allocated(carried)
    environment["PYTHONUNBUFFERED"] = "1"
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    if document.command:  # it finds what the person finds
        return environment
    path = environment.get("PATH") or _DEFAULT_PATH
    if shutil.which("python", path=path) is None:
        offer_python(python_dir)
        path = f"{path}{os.pathsep}{python_dir}"
    environment["PATH"] = path
    return environment


def _allocated(carried: Mapping[str, str]) -> dict[str, str]:
    """What Slurm or LSF gave the worker's job; nothing where it is in none."""
    if "SLURM_JOB_ID" not in carried and "LSB_JOBID" not in carried:
        return {}
    return {
        name: text
        for name, text in carried.items()
        if name.startswith(_ALLOCATION) or name in _DEVICES
    }


def mpi_variables(environment: Mapping[str, str], notice_seconds: int) -> dict[str, str]:
    """What lets ranks of Open MPI save: its mpirun kills them a second after it passed SIGTERM on.

    Told to end, it waits that long, sends its ranks SIGTERM, waits as long again, and kills them;
    it passes no output on meanwhile. A third of the notice for each leaves time for the output.

    What is set already stays. Source: Open MPI 4, and 5 with PRRTE, odls_base_sigkill_timeout.
    """
    names = ("OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout")
    seconds = max(1, notice_seconds // 3)
    return {name: str(seconds) for name in names if name not in environment}


def missing_secrets(document: JobDocument, carried: Mapping[str, str]) -> tuple[str, ...]:
    """Names of variables that the submitter had and nobody brought."""
    return tuple(name for name in document.omitted if name not in carried)


def offer_python(folder: Path) -> None:
    """Put a ``python`` into ``folder``: the interpreter below our own environment, if any."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    target = Path(shutil.which("python3", path=_DEFAULT_PATH) or base)
    link = folder / "python"
    folder.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        new = folder / f"python.{os.getpid()}"
        new.symlink_to(target)
        new.replace(link)


def with_token(environment: Mapping[str, str], token: str) -> dict[str, str]:
    """The environment of one action: its processes are known by the token."""
    return {**environment, TOKEN_VARIABLE: token}
