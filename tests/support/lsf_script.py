"""A script of LSF with `perdure run` in it."""

import shlex
import sys
from pathlib import Path

COUNT = Path(__file__).parent.parent / "cluster" / "count.yaml"


class Script:
    """A script that notes what is before and behind the command."""

    def __init__(self, job) -> None:
        self.job = job

    def submit(self, *words: str, options: tuple[str, ...] = ()) -> str:
        """Submit it; the job's id."""
        command = [sys.executable, "-P", "-m", "perdure", "run", str(COUNT)]
        command += ["-p", f"Out={self.job.out}", "--heartbeat-seconds", "0.5", *words]
        lines = [f"export {name}={path}" for name, path in self.job.variables.items()]
        lines += [f"cd {self.job.folder}", "echo before >>out/script", shlex.join(command)]
        lines += ["code=$?", "echo behind:$code >>out/script", "exit $code"]
        path = self.job.folder / "script.sh"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.job.cluster.ask(
            *("bsub", "-J", "script", "-o", str(self.job.folder / "script.out")),
            *(*options, "sh", str(path)),
        )
        (found,) = [k for k, one in self.job.cluster.jobs().items() if one["name"] == "script"]
        return found

    def state(self, number: str) -> str:
        """What LSF says of it."""
        return self.job.cluster.jobs()[number]["stat"]


def has_saved(job) -> bool:
    """Whether a task has begun, and has a checkpoint."""
    return bool(job.lines("starts")) and job.checkpoints() > 0
