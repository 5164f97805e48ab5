"""The probe of `perdure doctor --engine slurm`: a job of a minute on a node, and what it saw.

Theory of operation. A folder in the home holds the probe's script output and report. The script
says first that it reached that folder, then becomes our interpreter (`node_probe`), which looks
around and writes a checkpoint; this side reads the report and the checkpoint back. What does not
come is told by how the job ended. Whatever happens, an interruption included, the job is cancelled,
and the folder and the checkpoint are taken away.

Source: docs/cli.md, `perdure doctor`.
"""

import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import perdure
from perdure.cli.doctor_here import judge_clock, new_probe, seconds_off
from perdure.cli.findings import Finding, failed, ok, warning
from perdure.cli.node_probe import REPORT
from perdure.cli.places import Places
from perdure.engines.slurm.probe_job import ProbeJob, ProbeState
from perdure.engines.slurm.survey import missing_commands
from perdure.errors import EngineError, EngineUnavailable, PerdureError
from perdure.manager.probe_checkpoint import Probe
from perdure.store.opening import Store

_LOOK_SECONDS = 0.5
#: Slurm is asked no more often than this.
_ASK_SECONDS = 2.0
#: Network file systems show a new file late: so long a report is waited for behind its job's end.
_LATE_SECONDS = 30.0
#: How the script ends where it cannot go on.
_NO_HOME, _NO_PYTHON = 21, 22
#: How a job ends whose output file could not be opened.
_NO_OUTPUT = "0:53"


def check_slurm(where: Places, options: Sequence[str], timeout_seconds: float) -> Iterator[Finding]:
    """The checks of the cluster, one after the other; blocks while the probe waits and runs.

    Args:
        where: this host's places.
        options: of sbatch.
        timeout_seconds: so long the probe is waited for.
    """
    if missing := missing_commands():
        yield failed(
            "slurm",
            f"{', '.join(missing)} not on PATH",
            "Give the command on a login node of the cluster.",
        )
        return
    yield ok("slurm", "its commands are on PATH")
    try:
        store = where.open(write=True, create=True)
    except PerdureError as error:
        yield failed("probe", f"no probe without a store: {error.message}", error.hint)
        return
    yield from _Probing(where, store, timeout_seconds).findings(options)


class _Probing:
    """One probe."""

    def __init__(self, where: Places, store: Store, timeout_seconds: float) -> None:
        self._where = where
        self._store = store
        self._timeout_seconds = timeout_seconds
        self._probe: Probe = new_probe(store)
        self._folder = where.home / "probes" / self._probe.job
        self._job = ProbeJob(f"perdure-doctor-{self._probe.job}")

    def findings(self, options: Sequence[str]) -> Iterator[Finding]:
        try:
            self._folder.mkdir(mode=0o700, parents=True)
            self._job.submit(
                self._script(),
                str(self._folder / "out"),
                options,
                wait_seconds=self._timeout_seconds,
            )
            yield ok("probe", f"Slurm took it as job {self._job.job}")
            yield from self._what_came()
        except EngineError as error:
            yield failed("probe", error.message, error.hint)
        except OSError as error:
            yield failed("probe", f"{self._folder}: {error.strerror}", "See `home`.")
        finally:
            self._job.cancel()
            self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):
            self._folder.parent.rmdir()
        try:
            self._probe.remove()
        except PerdureError as error:
            print(f"perdure: the probe could not be removed: {error.message}", file=sys.stderr)

    def _script(self) -> str:
        folder, python = shlex.quote(str(self._folder)), shlex.quote(sys.executable)
        command = [sys.executable, "-P", "-m", "perdure.cli.node_probe"]
        command += ["--folder", str(self._folder), "--store", self._where.store_url]
        command += ["--job", self._probe.job]
        return "\n".join(
            [
                "#!/bin/sh",
                f"cd {folder} && hostname >node || exit {_NO_HOME}",
                f"[ -x {python} ] || exit {_NO_PYTHON}",
                f"exec {shlex.join(command)}",
                "",
            ]
        )

    def _what_came(self) -> Iterator[Finding]:
        """Wait for the report, or for the job's end without one."""
        report, state, (before, after) = self._wait()
        if report is not None:
            yield from node_findings(report)
            yield self._checkpoint(report)
            off = seconds_off(float(report["at"]), before, after)
            yield judge_clock("node clock", str(report["host"]), off)
        elif state.is_over:
            yield why_no_report(state, self._said("node"), self._said("out"), self._where.home)
        else:
            yield failed(
                "node",
                f"job {self._job.job} did not report within {self._timeout_seconds:.0f} s:"
                f" it is {state.state}, and Slurm's reason is {state.reason}",
                "Give it more time (--timeout S), or another partition (--slurm).",
            )

    def _wait(self) -> tuple[dict[str, Any] | None, ProbeState, tuple[float, float]]:
        """The report if it comes, what Slurm says, and between which moments it came."""
        deadline = time.monotonic() + self._timeout_seconds
        asked_at, over_at = 0.0, 0.0
        state = ProbeState(state="PENDING", reason="None")
        before = time.time()
        while True:
            report, after, now = self._report(), time.time(), time.monotonic()
            is_late = over_at and now - over_at >= _LATE_SECONDS
            if report is not None or is_late or now >= deadline:
                return report, state, (before, after)
            before = after
            if now - asked_at >= _ASK_SECONDS:
                asked_at = now
                with suppress(EngineUnavailable):  # it is asked again
                    state = self._job.state()
            over_at = over_at or (now if state.is_over else 0.0)
            if over_at and _cannot_report(state):
                return None, state, (before, after)
            time.sleep(_LOOK_SECONDS)

    def _report(self) -> dict[str, Any] | None:
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self._folder / REPORT).read_bytes())
            return found
        return None

    def _said(self, name: str) -> str:
        """What a file of the probe's says; "" where it is not there."""
        with suppress(OSError):
            return (self._folder / name).read_text(encoding="utf-8", errors="replace").strip()
        return ""

    def _checkpoint(self, report: dict[str, Any]) -> Finding:
        """The node's checkpoint, read back here."""
        if "store_error" in report:
            advice = "Name a store that every node reaches: --store DIR|URL."
            return failed("node store", str(report["store_error"]), advice)
        if report["store_id"] != self._store.store_id:
            return failed(
                "node store",
                f"another store lies at {self._where.store_url} on {report['host']}",
                "Name one that all nodes share: --store DIR|URL.",
            )
        try:
            is_same = self._probe.read() == report["content"]
        except PerdureError as error:
            return failed("node store", error.message, error.hint or "Use another store.")
        if not is_same:
            return failed("node store", "what was read is not what was written", "Use another.")
        return ok("node store", "a checkpoint of 1 MiB that the node wrote was read back here")


def _cannot_report(state: ProbeState) -> bool:
    """Whether it ended where no report was written, so that none comes late."""
    return state.state not in ("COMPLETED", "")


def node_findings(report: dict[str, Any]) -> Iterator[Finding]:
    """What a node's report means. Pure."""
    host = report["host"]
    yield ok("node home", f"{host} reaches the home at the same path")
    if report["perdure"] == perdure.__version__:
        yield ok("node interpreter", f"{report['python']} with perdure {report['perdure']}")
    else:
        yield failed(
            "node interpreter",
            f"{host} has perdure {report['perdure']}, and here is {perdure.__version__}",
            "Install the same version on all nodes, or in a folder that they share.",
        )
    missing = [name for name in ("sbatch", "scontrol", "squeue") if name not in report["commands"]]
    if missing:
        yield warning(
            "node commands",
            f"{host} has no {', '.join(missing)}",
            "Time limits are not seen there, and nothing is put back: use nodes that have them,"
            " and give `perdure settle JOB` when an array is over.",
        )
        return
    yield ok("node commands", f"{host} has Slurm's commands")
    if report["submit"]:
        yield warning(
            "jobs submit",
            f"a job may not submit jobs: {report['submit']}",
            "Give `perdure settle JOB` when an array is over.",
        )
    else:
        yield ok("jobs submit", "a job may submit jobs")


def why_no_report(state: ProbeState, node: str, said: str, home: Path) -> Finding:
    """Why a probe that is over left no report. Pure.

    Args:
        state: how it ended.
        node: the host that reached the home; "" for none.
        said: what it printed.
        home: the home.
    """
    last = said.splitlines()[-1] if said else "nothing"
    if state.state == "CANCELLED":
        return failed("node", "somebody cancelled the probe", "Give the command again.")
    if state.exit_code in (f"{_NO_HOME}:0", _NO_OUTPUT):
        return failed(
            "node home",
            f"the node does not reach {home} at the same path, or may not write there",
            "Name a home that all nodes share: --home DIR, or PERDURE_HOME.",
        )
    if state.exit_code == f"{_NO_PYTHON}:0":
        return failed(
            "node interpreter",
            f"{node} has no {sys.executable}",
            "Install perdure in a folder that all nodes share, and give the command from there.",
        )
    how = f"it is {state.state}, exit code {state.exit_code}" if state.state else "it is gone"
    return failed(
        "node",
        f"the probe ended without a report: {how}; the last that it printed: {last}",
        "Start a job there by hand: sbatch --wrap 'PYTHON -m perdure --version'.",
    )
