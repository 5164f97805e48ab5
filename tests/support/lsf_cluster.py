"""The simulated LSF for tests: its folder, its commands on a PATH, its scheduler."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from support.simulated_lsf import COMMANDS, state, tree
from support.worker_runs import wait_until

PROGRAM = Path(__file__).with_name("simulated_lsf.py")


class LsfCluster:
    """One simulated cluster.

    Args:
        folder: for all that it writes.
        minute: how many seconds a minute of a limit takes.
        terminate_interval: seconds between bkill's signals.
        hosts: names; each has `slots`.
    """

    def __init__(
        self, folder: Path, *, minute=6.0, terminate_interval=3.0, hosts=("h1", "h2"), slots=4
    ) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        for one in (folder, self.bin, folder / "spool"):
            one.mkdir(exist_ok=True)
        known = {
            "next": 101,
            "jobs": {},
            "hosts": list(hosts),
            "lost": {},
            "slots": slots,
            "queues": ["normal", "long"],
            "minute": minute,
            "terminate_interval": terminate_interval,
        }
        (folder / "state.json").write_text(json.dumps(known))
        for name in COMMANDS:
            path = self.bin / name
            words = [sys.executable, "-I", "-S", str(PROGRAM), str(folder), name]
            path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            path.chmod(0o755)
        self._scheduler: subprocess.Popen | None = None
        self._methods: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        """With its commands first on PATH."""
        outside = {n: t for n, t in os.environ.items() if not n.startswith(("PERDURE_", "LSB_"))}
        outside |= self._methods
        return {**outside, "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    def methods(self, folder: Path) -> None:
        """Where the programs of ``bsub -k "DIR method=NAME"`` are."""
        self._methods = {"LSB_ECHKPNT_METHOD_DIR": str(folder)}

    def up(self) -> None:
        """Start the scheduler."""
        with (self.folder / "scheduler.out").open("ab") as out:
            self._scheduler = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(self.folder), "schedule"],
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def down(self) -> None:
        """End the jobs and the scheduler."""
        if self._scheduler is None:
            return
        (self.folder / "stop").touch()
        self._scheduler.wait(60)

    def ask(self, *command: str, check=True) -> str:
        """Give one of its commands."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def jobs(self) -> dict[str, dict]:
        """All jobs by id."""
        with state(self.folder) as known:
            return known["jobs"]

    def elements(self, *states: str) -> list[str]:
        """Elements of arrays of workers in these states, or in any."""
        return [
            key
            for key, job in self.jobs().items()
            if job["name"].startswith("perdure-")
            and not job["name"].startswith("perdure-settle")
            and (not states or job["stat"] in states)
        ]

    def asked(self) -> int:
        """How often bjobs was asked."""
        with state(self.folder) as known:
            return known.get("asked", 0)

    def set(self, **settings) -> None:
        """Change settings: silent, refuses_requeue."""
        with state(self.folder) as known:
            known.update(settings)

    def lose(self, host: str, *, kill: bool) -> None:
        """Take a host out of LSF's reach, with what runs there or without."""
        with state(self.folder) as known:
            known["lost"][host] = "out of reach"
            on_host = [job for job in known["jobs"].values() if job.get("host") == host]
            pids = [job["pid"] for job in on_host if job["stat"] in ("RUN", "UNKWN")]
        for pid in pids if kill else ():
            self.kill_processes(pid)

    def give_up(self, host: str) -> None:
        """LSF takes the host for lost: what is rerunnable runs again elsewhere."""
        with state(self.folder) as known:
            known["lost"][host] = "given up"

    def kill_processes(self, pid: int) -> None:
        """SIGKILL to all that a job runs."""
        for one in tree(pid):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def wait_until_idle(self) -> None:
        """Wait until nothing waits or runs."""
        wait_until(
            "LSF is idle", lambda: all(j["stat"] in ("DONE", "EXIT") for j in self.jobs().values())
        )
