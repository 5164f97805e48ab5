"""Scripts for the checkpoint options that Slurm had until 2019, through the shims, unchanged."""

import json
import os
import signal
import tarfile
import time
from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

#: Saves when it is asked to, and at its own steps where PERIOD is given; notes where it begins.
PROGRAM = """\
import os, signal, sys, time

out, most, own = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
number = int(os.environ.get("PERDURE_CHECKPOINT_STATE") or 0)
with open(f"{out}/starts", "a") as starts:
    starts.write(f"{number}\\n")

def save(*_):
    sys.stdout.write('openjd_checkpoint_save: {"state": "%d"}\\n' % number)
    sys.stdout.flush()

def leave(*_):
    save()
    sys.exit(1)

signal.signal(signal.SIGUSR2, save)
signal.signal(signal.SIGTERM, leave)
with open(f"{out}/pid", "w") as pid:
    pid.write(str(os.getpid()))
while number < most:
    time.sleep(0.1)
    number += 1
    if own and number % own == 0:
        save()
with open(f"{out}/done", "a") as done:
    done.write(f"{number}\\n")
"""


#: A script that starts no step, and saves itself.
WHOLE = """\
#!/bin/bash
n=${PERDURE_CHECKPOINT_STATE:-0}
echo $n >>$1/starts
echo $$ >$1/pid
save() { echo "openjd_checkpoint_save: {\\"state\\": \\"$n\\"}"; }
trap save USR2
trap 'save; exit 1' TERM
while [ $n -lt 150 ]; do sleep 0.1; n=$((n + 1)); done
echo $n >>$1/done
"""


class OldScript:
    """A batch script in a folder of its own, as somebody wrote it in 2018."""

    def __init__(self, job) -> None:
        self.job = job
        self.cluster = job.cluster
        self.images = job.folder / "images"
        self.path = job.folder / "old.sh"
        self.program = job.folder / "count.py"
        self.program.write_text(PROGRAM, encoding="utf-8")
        self.shims = job.folder / "shims"
        self._variables = {
            "PERDURE_HOME": str(job.folder / "home"),
            "PERDURE_CACHE": str(job.folder / "cache"),
        }
        self._pending_since: float | None = None
        job.perdure("shims", "install", str(self.shims))

    def run(self, *words: str, check: bool = True, **more: str):
        """Give a command with the shims first on PATH, as the plain user."""
        path = f"{self.shims}:{os.environ['PATH']}"
        return self.cluster.run(
            words,
            folder=self.job.folder,
            environment={**self._variables, "PATH": path, **more},
            check=check,
        )

    def program_line(self, most: int, own: int = 0) -> str:
        return f"{self.cluster.python()} {self.program} {self.job.out} {most} {own}"

    def write(self, *lines: str) -> None:
        text = "\n".join(["#!/bin/bash", *lines, "echo behind:$? >>out/script"])
        self.path.write_text(text + "\n", encoding="utf-8")

    def submit(self, *words: str) -> str:
        done = self.run("sbatch", "--parsable", *words, str(self.path))
        return done.stdout.strip()

    def image(self, name: str, folder: Path | None = None) -> dict:
        """What a reference file says; nothing where it is not there."""
        path = (folder or self.images) / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def kill(self) -> None:
        """SIGKILL the program, from outside."""
        os.kill(int(self.job.lines("pid")[0]), signal.SIGKILL)

    def control(self, *words: str) -> tuple[int, str]:
        """`scontrol checkpoint`: its exit code, and all that it said."""
        done = self.run("scontrol", "checkpoint", *words, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    def let_begin(self, number: str) -> None:
        """What was put back may begin; at once a slurmd still takes it for killed."""
        state = self.cluster.asked("squeue", "-h", "-j", number, "-t", "all", "-o", "%T")
        if state != "PENDING":
            self._pending_since = None
            return
        self._pending_since = self._pending_since or time.monotonic()
        if time.monotonic() - self._pending_since > 3:
            update = ["scontrol", "update", f"JobId={number}", "StartTime=now"]
            self.cluster.run(update, check=False)  # it may have begun just now

    def ended(self) -> bool:
        return any(line.startswith("behind") for line in self.job.lines("script"))

    def wait_for_end(self, number: str) -> None:
        try:
            wait_until("the script has ended", self.ended)
        except AssertionError:
            said = self.job.folder / f"slurm-{number}.out"
            raise AssertionError(said.read_text(encoding="utf-8") + self.job.story()) from None


@pytest.fixture
def old(job) -> OldScript:
    return OldScript(job)


def test_an_old_script_is_saved_each_minute_and_goes_on_from_its_second_checkpoint(old):
    """The interval is one minute: the shortest that there was."""
    line = old.program_line(1400)
    old.write(f"srun --checkpoint=1 --checkpoint-dir={old.images} {line}")
    number = old.submit()
    name = f"{number}.0.ckpt"
    wait_until("it has saved", lambda: old.image(name))
    first = old.image(name)
    wait_until("it has saved again", lambda: old.image(name) != first)
    second = old.image(name)
    assert second["sequence"] > first["sequence"]
    old.kill()
    old.wait_for_end(number)
    begun, again = (int(text) for text in old.job.lines("starts"))
    assert begun == 0
    assert again > 600
    assert old.job.lines("done") == ["1400"]
    assert old.job.lines("script") == ["behind:0"]


def test_another_job_of_slurm_goes_on_by_restart_dir(old):
    line = old.program_line(400, 20)
    old.write(f"srun --checkpoint=1 --checkpoint-dir={old.images} {line}")
    number = old.submit()
    wait_until("it has saved", lambda: old.image(f"{number}.0.ckpt").get("sequence", 0) > 2)
    old.write(f"srun --restart-dir={old.images} {line}")
    early = old.submit()
    old.wait_for_end(early)
    assert old.job.lines("script") == ["behind:1"]
    said = (old.job.folder / f"slurm-{early}.out").read_text(encoding="utf-8")
    assert "is of work that is being done now" in said
    (old.job.out / "script").unlink()
    old.run("scancel", number)
    wait_until("it is stopped", lambda: not old.cluster.asked("squeue", "-h", "-o", "%i"))
    assert not old.ended()
    old.write(f"srun --restart-dir={old.images} --checkpoint-dir={old.images} {line}")
    second = old.submit()
    old.wait_for_end(second)
    begun, again = (int(text) for text in old.job.lines("starts"))
    assert begun == 0
    assert again >= 40
    assert old.job.lines("done") == ["400"]
    assert old.job.lines("script") == ["behind:0"]
    assert old.image(f"{second}.0.ckpt")["job"] == old.image(f"{number}.0.ckpt")["job"]


def test_what_scontrol_is_asked_about_a_running_job(old):
    """The old texts and exit codes; the script had `#SBATCH --checkpoint`."""
    line = old.program_line(3000)
    old.write(f"#SBATCH --checkpoint=1 --checkpoint-dir={old.images}", f"srun {line}")
    number = old.submit("--no-requeue")
    wait_until("it runs", lambda: old.job.lines("pid"))
    wait_until("it is found", lambda: old.control("able", f"{number}.0") == (0, "Yes"))
    refused = "scontrol_checkpoint error: Requested operation is presently disabled"
    assert old.control("requeue", number) == (1, refused)
    assert old.control("cr", number, f"ImageDir={old.job.folder}/here") == (0, "")
    with tarfile.open(old.job.folder / "here" / f"{number}.0.ckpt") as image:
        assert "perdure-checkpoint/record" in image.getnames()
    assert old.control("error", number) == (0, "error(0): No error")
    assert old.control("disable", number) == (0, "")
    assert old.control("able", number) == (0, "No")
    assert old.control("create", number) == (1, refused)
    assert old.control("error", number) == (
        0,
        "error(2037): Requested operation is presently disabled",
    )
    assert old.control("en", number) == (0, "")
    assert old.control("a", number) == (0, "Yes")
    code, text = old.control("create", number, "MaxWait=0")
    assert (code, "did not save within MaxWait=0 s" in text) == (1, True)
    assert old.cluster.asked("squeue", "-h", "-j", number, "-o", "%T") == "RUNNING"
    assert old.control("vacate", f"{number}.0") == (0, "")
    wait_until("the script went on behind its step", old.ended)
    assert old.job.lines("script") == ["behind:75"]
    code, text = old.control("create", number)
    assert code == 1
    assert text.startswith("scontrol_checkpoint error: ")


def test_a_job_is_put_back_then_vacated_and_restarted(old):
    """Through all of it the script runs on behind its step once, at the real end."""
    line = old.program_line(150)
    old.write(f"srun {line}")
    number = old.submit("--checkpoint", "1", f"--checkpoint-dir={old.images}")
    wait_until("it runs", lambda: old.job.lines("pid"))
    assert old.control("req", number) == (0, "")

    def runs_again() -> bool:
        old.let_begin(number)
        return len(old.job.lines("starts")) == 2

    wait_until("it runs again", runs_again)
    folder = old.job.folder / "kept"
    wait_until("it is found", lambda: old.control("able", number) == (0, "Yes"))
    assert old.control("vacate", number, f"ImageDir={folder}", "MaxWait=60") == (0, "")
    wait_until("it has ended", lambda: not old.cluster.asked("squeue", "-h", "-o", "%i"))
    assert not old.ended()
    code, second = old.control("restart", number, f"ImageDir={folder}", "StickToNodes")
    assert code == 0, second
    second = second.rpartition(" ")[2]
    old.wait_for_end(second)
    starts = [int(text) for text in old.job.lines("starts")]
    assert starts == sorted(set(starts))
    assert len(starts) == 3
    assert old.job.lines("done") == ["150"]
    assert old.job.lines("script") == ["behind:0"]
    shown = old.cluster.asked("scontrol", "-o", "show", "job", second)
    assert f"ReqNodeList={json.loads((folder / f'{number}.ckpt').read_text())['nodes']}" in shown


def test_what_cannot_be_is_said(old):
    """Nothing runs without a checkpoint that was asked for, and every refusal has a code."""
    line = old.program_line(1)
    other = old.job.folder / "other"
    other.mkdir(mode=0o777)
    other.chmod(0o777)
    lines = [
        f"srun --checkpoint=5m {line}",
        f"srun --checkpoint=1 --restart-dir={other} {line}",
        "srun --checkpoint=1 sleep 1",
        f"srun --checkpoint=1 --pty {line}",
        "srun sh -c 'exit 7'",
        "echo given | srun sh -c 'read a; echo got:$a >>out/got'",
    ]
    old.write(*[part for one in lines for part in (one, "echo code:$? >>out/codes")])
    old.wait_for_end(number := old.submit())
    assert old.job.lines("codes") == ["code:1"] * 4 + ["code:7", "code:0"]
    assert old.job.lines("got") == ["got:given"]
    assert not old.job.lines("starts")
    said = (old.job.folder / f"slurm-{number}.out").read_text(encoding="utf-8")
    assert "srun: error: Invalid --checkpoint specification: '5m'" in said
    assert f"{other} has no checkpoint image of a step" in said
    assert "sleep offers no checkpoint that perdure can take" in said
    assert "--pty and --checkpoint exclude each other" in said


def test_what_has_nothing_of_the_old_options_is_slurms_own(old):
    refused = old.run("sbatch", "--no-such-option", check=False)
    assert (
        refused.returncode
        == old.cluster.run(["sbatch", "--no-such-option"], check=False).returncode
    )
    assert "unrecognized option" in refused.stderr
    assert old.run("scontrol", "--version").stdout.startswith("slurm")
    assert old.run("scontrol", "show", "job", "99999", check=False).returncode == 1
    script = old.job.folder / "plain.sh"
    script.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    assert old.run("sbatch", "--parsable", "--wait", str(script), check=False).returncode == 3
    done = old.run("sbatch", "--checkpoint=x", str(script), check=False)
    assert (done.returncode, "Invalid --checkpoint" in done.stderr) == (1, True)
    done = old.run("sbatch", "--checkpoint=1", str(script), check=False)
    assert (done.returncode, "offers no checkpoint" in done.stderr) == (1, True)
    assert old.control("create", "99999") == (
        1,
        "scontrol_checkpoint error: Invalid job id specified",
    )
    assert old.control("create", "x") == (1, "Invalid job step name")
    assert old.control("restart", "99999")[0] == 1


def test_an_image_of_another_program_is_refused(old):
    old.write(f"srun --checkpoint=1 --checkpoint-dir={old.images} {old.program_line(10, 5)}")
    old.wait_for_end(number := old.submit())
    assert old.image(f"{number}.0.ckpt")
    (old.job.out / "script").unlink()
    old.write(f"srun --checkpoint=1 --restart-dir={old.images} {old.program_line(11, 5)}")
    old.wait_for_end(second := old.submit())
    assert old.job.lines("script") == ["behind:1"]
    said = (old.job.folder / f"slurm-{second}.out").read_text(encoding="utf-8")
    assert "has no checkpoint image of this program" in said
    assert old.job.lines("starts") == ["0"]


def test_a_script_without_steps_is_one_and_its_file_is_enough_in_another_home(old):
    """The file that `vacate` writes holds everything: the first home might be lost."""
    old.path.write_text(WHOLE, encoding="utf-8")
    words = ("--checkpoint=5", f"--checkpoint-dir={old.images}")
    done = old.run("sbatch", "--parsable", *words, str(old.path), str(old.job.out))
    number = done.stdout.strip()
    wait_until("it runs", lambda: old.job.lines("pid"))
    wait_until("it is found", lambda: old.control("able", f"{number}.0") == (0, "Yes"))
    assert old.control("vacate", number, "MaxWait=60") == (0, "")
    wait_until("it has ended", lambda: not old.cluster.asked("squeue", "-h", "-o", "%i"))
    assert not old.job.lines("done")
    other = {"PERDURE_HOME": str(old.job.folder / "other")}
    old.run("scontrol", "checkpoint", "restart", number, f"ImageDir={old.images}", **other)
    wait_until("it is done", lambda: old.job.lines("done"))
    begun, again = (int(text) for text in old.job.lines("starts"))
    assert begun == 0
    assert again > 0
    assert old.job.lines("done") == ["150"]
