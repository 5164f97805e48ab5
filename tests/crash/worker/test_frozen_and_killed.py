"""Real workers, frozen past their successor's first commit, and killed in every combination.

Design 3: one owner; nothing committed lost; nothing kept run twice; no process left.
"""

import os
import signal
from pathlib import Path

import pytest

from perdure.worker.processes import carrying, descendants, send
from support import other_host
from support.task_words import job_of
from support.worker_runs import Ground, JobRun, WorkerRun, wait_until

CHUNK = {
    "parameterSpace": {
        "taskParameterDefinitions": [
            {
                "name": "F",
                "type": "CHUNK[INT]",
                "range": "1-6",
                "chunks": {"defaultTaskCount": 100, "rangeConstraint": "CONTIGUOUS"},
            }
        ]
    }
}

#: Renders values, each written down outside; the first attempt saves without end at 3, the second
#: waits at 5 to be let go. It ends with its last save committed: what is still queued at an exit
#: with 0 is dropped.
RENDER = """
    first, _, last = sys.argv[1].partition("-")
    def wait_for(name):
        while not os.path.exists(os.path.join(os.environ["OUTSIDE"], name)):
            time.sleep(0.005)
    for value in range(int(first), int(last or first) + 1):
        if value == 3 and int(first) == 1:
            print("ready", flush=True)
            n = 0
            while True:
                n += 1
                write("state", str(n)); files("state"); save(f"{value} {n}", "state")
                time.sleep(0.01)
        if value == 5:
            print("waiting at 5", flush=True)
            wait_for("go")
        with open(os.path.join(os.environ["OUTSIDE"], "rendered"), "a") as file:
            file.write(f"{value}\\n")
        write(f"frames/{value}", f"frame {value}"); files(f"frames/{value}"); complete(value)
        save(f"{value + 1} 0")
    committed(int(last or first) - int(first) + 1)
"""


def everything_of(worker: WorkerRun):
    return [
        info
        for info in carrying(lambda token: token.startswith(worker.token))
        if info.pid != os.getpid()
    ]


def freeze(worker: WorkerRun):
    """Stop keeper, worker and task, nearest to the task last, as a frozen host does."""
    frozen = everything_of(worker)
    assert len(frozen) >= 3, "keeper, worker and task"
    for info in frozen:
        assert send(info, signal.SIGSTOP)
    return frozen


def thaw(frozen) -> None:
    for info in frozen:
        send(info, signal.SIGCONT)


@pytest.mark.root
@pytest.mark.skipif(not other_host.is_possible(), reason="needs root and unshare")
def test_a_worker_frozen_past_its_successors_first_commit_adds_nothing(ground: Ground):
    job = job_of(
        ground,
        RENDER,
        more=CHUNK,
        args=["{{Task.Param.F}}"],
        extensions=["TASK_CHUNKING"],
        variables={"OUTSIDE": str(ground.work)},
        notice_seconds=1,
    )
    former = job.start(is_real=True)
    job.wait_for("ready")
    wait_until("1 and 2 kept, and a save", lambda: set(job.kept()) >= {1, 2} and saves(job, 0))
    frozen = freeze(former)

    successor = other_host.start_elsewhere(job, [job._ref(1, 0)])
    job.wait_for("waiting at 5")
    claim = wait_until("the claim", lambda: job.lineage().claims[1:])[0]
    assert claim.launch == successor.launch
    wait_until("the successor's first commit", lambda: saves(job, claim.number))
    assert all(info in everything_of(former) for info in frozen), "it is still there, frozen"

    thaw(frozen)
    assert former.wait() == 0, former.said()
    wait_until("nothing of the former one is left", lambda: not everything_of(former))
    assert successor.poll() is None
    (ground.work / "go").touch()
    assert successor.wait() == 0, successor.said()

    assert job.outcome()["state"] == "SUCCEEDED", other_host.state_of(job)
    lineage = job.lineage()
    assert all(s.claim == claim.number for s in lineage.saves if s.number > claim.number)
    before, after = job.attempts()
    assert not set(before.kept) & set(after.kept)
    assert set(before.kept) | set(after.kept) == {1, 2, 3, 4, 5, 6}
    rendered = [int(line) for line in (ground.work / "rendered").read_text().split()]
    assert sorted(rendered) == [1, 2, 3, 4, 5, 6]
    assert former.launch in job.records().state.fences


def saves(job: JobRun, claim: int):
    return [save for save in job.lineage().saves if save.claim == claim]


#: Counts to 12, each number saved and acknowledged; the first attempt waits at 5.
COUNT = """
    outside = os.environ["OUTSIDE"]
    start = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 0
    for n in range(start + 1, 13):
        write("number", str(n)); files("number"); save(str(n), "number")
        committed(n - start)
        with open(os.path.join(outside, "acknowledged"), "a") as file:
            file.write(f"{n}\\n")
        if n == 5 and not resumed:
            if os.environ.get("ESCAPES"):
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        os.execvpe("sleep", ["sleep", "600"], os.environ)
                    os._exit(0)
            print("ready", flush=True)
            while not os.path.exists(os.path.join(outside, "go")):
                time.sleep(0.005)
    print("counted to", n, flush=True)
"""


def counting(ground: Ground, **variables: str) -> JobRun:
    job = job_of(ground, COUNT, variables={"OUTSIDE": str(ground.work), **variables})
    job.start(is_real=True)
    job.wait_for("ready")
    return job


def pids(worker: WorkerRun) -> dict[str, list[int]]:
    inner = worker.worker_pid
    tasks = [info.pid for info in descendants(inner)]
    assert tasks
    return {"keeper": [worker.pid], "worker": [inner], "task": tasks}


def kill(worker: WorkerRun, *who: str) -> None:
    found = pids(worker)
    for name in who:
        for pid in found[name]:
            os.kill(pid, signal.SIGKILL)


def goes_on(job: JobRun, ground: Ground, former: WorkerRun) -> None:
    """The next launch goes on from the last acknowledged save; nothing of the former is left.

    It may be one that the former made itself, as a worker does that finds no manager.
    """
    job.run(tasks=[0], is_real=True)
    assert job.outcome()["state"] == "SUCCEEDED"
    claim = job.lineage().claims[-1]
    base = job.lineage().save(claim.base)
    assert int(job.manifest(base.number).state) == 5
    assert base.number in job.lineage().ancestry(job.lineage().point)
    assert everything_of(former) == []
    numbers = [int(line) for line in (ground.work / "acknowledged").read_text().split()]
    assert numbers == list(range(1, 13))


@pytest.mark.parametrize(
    ("who", "escapes"),
    [
        ("worker", "1"),
        ("keeper worker", "1"),
        ("worker keeper", ""),
        ("worker task", ""),
        ("keeper worker task", ""),
        ("task worker keeper", "1"),
    ],
)
def test_killed(ground: Ground, who: str, escapes: str):
    job = counting(ground, ESCAPES=escapes)
    former = job.workers[0]
    kill(former, *who.split())
    former.wait()
    goes_on(job, ground, former)
    assert former.launch in job.records().state.seals


def test_a_task_that_is_killed_alone_has_failed_and_is_resumed(ground: Ground):
    job = counting(ground)
    former = job.workers[0]
    kill(former, "task")
    assert former.wait() == 0, former.said()
    outcome = job.outcome(attempt=0)
    assert outcome["state"] == "FAILED"
    assert "killed from outside" in outcome["reason"]
    goes_on(job, ground, former)
    assert former.launch not in job.records().state.seals


def test_a_worker_whose_keeper_is_killed_goes_on_to_the_end(ground: Ground):
    job = counting(ground)
    former = job.workers[0]
    inner = former.worker_pid
    kill(former, "keeper")
    former.wait()
    assert Path(f"/proc/{inner}").exists()
    (ground.work / "go").touch()
    wait_until("its end", lambda: not everything_of(former))
    assert job.outcome()["state"] == "SUCCEEDED"
    assert len(job.attempts()) == 1
    assert job.records().account(former.launch).is_closed
