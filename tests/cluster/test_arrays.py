"""How workers become arrays, and what becomes of arrays whose elements do not come to begin."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MANY = Path(__file__).parent / "many.yaml"


def arrays_of(job):
    """The arrays that were submitted, by the elements files beside the logs."""
    return list((job.folder / "home" / "logs").glob("*/*.elements"))


def elements_of(job):
    """The state of each element that Slurm knows of this user's, without the settle jobs."""
    queued = job.cluster.asked("squeue", "-h", "-r", "-t", "all", "-o", "%T|%j").splitlines()
    names = {path.name.partition("-")[0] for path in arrays_of(job)}
    pairs = [line.partition("|") for line in queued]
    return [state for state, _bar, name in pairs if name.removeprefix("perdure-") in names]


def test_more_workers_than_an_array_has_room_for(strict_job):
    strict_job.submit(MANY, "--workers", "25", "--slurm", "--begin=now+3")
    sizes = sorted(
        len(path.read_text(encoding="utf-8").splitlines()) for path in arrays_of(strict_job)
    )
    queued = strict_job.cluster.asked("squeue", "-h", "-o", "%j|%E").splitlines()
    (settle,) = [line for line in queued if line.startswith("perdure-settle")]
    assert sizes == [3, 11, 11]
    assert settle.count("afterany:") == 3
    strict_job.wait_for("SUCCEEDED")
    assert sorted(map(int, strict_job.lines("done"))) == list(range(1, 61))
    assert strict_job.lines("count") == ["60"]


@pytest.mark.parametrize("option", ["-a 0-3", "--array=0-99%4", "-J mine", "--wrap true"])
def test_options_that_are_perdures_own_are_refused_at_submit(job, option):
    words = ["submit", str(MANY), "-p", f"Out={job.out}", "--engine", "slurm", "--slurm", option]
    done = job.perdure(*words, check=False)
    assert done.returncode == 2
    assert f"{option.split()[0].partition(' ')[0]!r} is perdure's own" in done.stderr
    assert "--workers N" in done.stderr
    assert arrays_of(job) == []


def test_workers_that_never_begin_are_tried_three_times_ever_later(job):
    """Session folders that cannot be made: the workers end before they take a task."""
    job.submit(MANY, "--workers", "2", "--sessions-dir", "/proc/nowhere")
    job.wait_for("SUSPENDED")
    assert len(arrays_of(job)) == 3
    assert job.lines("done") == []
    assert set(elements_of(job)) == {"COMPLETED"}
    why = job.perdure("why", "last").stdout
    assert "workers ended before they began, 3 times in a row" in why
    assert str(job.folder / "home" / "logs") in why
    assert job.cluster.asked("squeue", "-h", "-o", "%i") == ""
