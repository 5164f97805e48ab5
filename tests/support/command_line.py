"""The command line as a person uses it: real processes, in places of their own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

DEADLINE_SECONDS = 90.0


class CommandLine:
    """``perdure`` with a home, a store, a cache and session folders below one folder.

    With ``PERDURE_TEST_FORGET=1`` the home and the cache are deleted before every command while
    nothing runs: every answer must stay the same.
    """

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.environment = {
            **{n: t for n, t in os.environ.items() if not n.startswith("PERDURE_")},
            "PERDURE_HOME": str(self.home),
            "PERDURE_STORE": str(folder / "store"),
            "PERDURE_CACHE": str(folder / "cache"),
            "TMPDIR": str(folder / "tmp"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        (folder / "tmp").mkdir(exist_ok=True)
        self.forgets = os.environ.get("PERDURE_TEST_FORGET") == "1"

    def forget(self):
        """What is not the store is deleted."""
        if self.forgets and not self.processes():
            shutil.rmtree(self.environment["PERDURE_HOME"], ignore_errors=True)
            shutil.rmtree(self.environment["PERDURE_CACHE"], ignore_errors=True)

    def command(self, *arguments):
        return [sys.executable, "-m", "perdure", *map(str, arguments)]

    def __call__(self, *arguments, expect=0, timeout=DEADLINE_SECONDS):
        """Run to the end; the completed process, with the exit code expected (None: any)."""
        self.forget()
        done = subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.work,
            timeout=timeout,
            check=False,
        )
        assert expect in (None, done.returncode), (
            arguments,
            done.returncode,
            done.stdout,
            done.stderr,
        )
        return done

    def json(self, *arguments, expect=0):
        return json.loads(self(*arguments, "--json", expect=expect).stdout)

    @contextmanager
    def running(self, *arguments):
        """A command under way; whatever is left of it is ended."""
        self.forget()
        process = subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.work,
        )
        try:
            yield Watched(process)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def suspended_at(self, pattern, *arguments):
        """Run a command until a line matches, and suspend it there; all that it said."""
        with self.running(*arguments) as run:
            run.until(pattern)
            run.signal(signal.SIGINT)
            return run.end(expect=75)

    def wait_for_checkpoints(self, count, job="last"):
        """Wait until the job has at least so many checkpoints; what `checkpoints` says of them."""

        def found():
            listed = self.json("checkpoints", job)["checkpoints"]
            return listed if len(listed) >= count else None

        wait_until(lambda: found() is not None, f"{count} checkpoints")
        return found()

    def template(self, text, name="job.yaml"):
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        return path

    def processes(self):
        """Pids of everything that names this folder in its command line or environment."""
        mark = str(self.folder).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                    state = (entry / "stat").read_bytes().rsplit(b")", 1)[1].split()[0]
                except OSError:
                    continue
                if mark in text and state != b"Z":
                    found.append(int(entry.name))
        return found

    def kill_all(self):
        """SIGKILL to everything of this command line's jobs."""
        while pids := self.processes():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)

    def wait_until_no_process(self):
        wait_until(lambda: not self.processes(), "processes are left")


class Watched:
    """A command under way, whose output is read line by line."""

    def __init__(self, process):
        self.process = process
        self.lines = []

    def until(self, pattern):
        """Read until a line matches; the match."""
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"no line matched {pattern!r}:\n{''.join(self.lines)}")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, expect):
        """Read to the end; the exit code is the one expected. The whole output."""
        self.lines.extend(self.process.stdout)
        code = self.process.wait(DEADLINE_SECONDS)
        assert code == expect, (code, "".join(self.lines))
        return "".join(self.lines)


def wait_until(condition, what):
    """Wait for a condition with a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
