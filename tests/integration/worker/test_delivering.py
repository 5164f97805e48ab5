"""``--deliver``: a finished task's declared files are there, verified, before it SUCCEEDED."""

import contextlib
import ctypes
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from blake3 import blake3

from perdure.store import layout
from perdure.store.layout import StepKey
from perdure.store.records.log import Entry
from perdure.worker.job_records import LineageId
from support.task_words import interrupted, job_of
from support.worker_runs import wait_until


@pytest.fixture
def target(ground):
    return ground.root / "delivered"


def delivering(ground, code, target, **how):
    return job_of(ground, code, deliver=str(target), **how)


def there(target):
    """What lies in the target but for records, by path."""
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in sorted(target.rglob("*"))
        if path.is_file() and path.relative_to(target).parts[0] != "perdure"
    }


def records(job, target):
    return sorted(path.name for path in (target / "perdure" / job.id).iterdir())


def record(job, target, task=0):
    return json.loads((target / "perdure" / job.id / f"1-{job.key(task)}.json").read_text())


def own(job, name, task=0):
    """Where a file of the session folder is delivered."""
    return f"1-{job.key(task)}/{name}"


def test_files_folders_and_outside_files_are_delivered_with_a_record(ground, target):
    code = """
    write("out/a.txt", "a"); write("out/deep/b.txt", "b"); write("single", "c" * 5_000_000)
    write(os.environ["WORK"] + "/sub/outside.txt", "o"); write("not-declared", "n")
    files("single", os.environ["WORK"] + "/sub/outside.txt", dirs=["out"])
    """
    job = delivering(ground, code, target, variables={"WORK": str(ground.work)})
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    expected = {
        own(job, "out/a.txt"): b"a",
        own(job, "out/deep/b.txt"): b"b",
        own(job, "single"): b"c" * 5_000_000,
        "sub/outside.txt": b"o",
    }
    assert there(target) == expected
    assert records(job, target) == [f"1-{job.key()}.json"]
    found = record(job, target)
    assert (found["job"], found["step"], found["task"], found["attempt"]) == (
        *(job.id, 1, job.key()),
        1,
    )
    assert {one["path"]: one["blake3"] for one in found["files"]} == {
        path: blake3(data).hexdigest() for path, data in expected.items()
    }
    assert any("4 files are delivered" in note for note in job.notes())


def test_a_task_that_declared_nothing_delivers_nothing(ground, target):
    job = delivering(ground, "print('done')", target).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert not target.exists()


def test_inputs_are_not_delivered(ground, target):
    (ground.work / "scene").write_text("input")
    code = """
    write("mine", "m"); files("mine", os.environ["WORK"] + "/scene")
    """
    job = delivering(ground, code, target, variables={"WORK": str(ground.work)}).run()
    assert there(target) == {own(job, "mine"): b"m"}


def test_a_failed_task_delivers_nothing(ground, target):
    job = delivering(ground, 'write("x", "x"); files("x"); sys.exit(3)', target).run()
    assert job.outcome()["cause"] == "exit"
    assert not target.exists()


OUTSIDE = """
    path = os.environ["WORK"] + "/result"
    write(path, os.environ["TEXT"]); files(path)
"""


def outside_job(ground, target, text="mine", code=OUTSIDE, **how):
    variables = {"WORK": str(ground.work), "TEXT": text}
    return delivering(ground, code, target, variables=variables, **how)


def test_what_is_somebody_elses_is_left_and_named(ground, target):
    target.mkdir()
    (target / "result").write_text("a person's")
    job = outside_job(ground, target).run()
    outcome = job.outcome()
    assert (outcome["state"], outcome["cause"]) == ("FAILED", "delivery")
    assert f"could not be delivered to {target}: " in outcome["reason"]
    assert "another content already for result" in outcome["reason"]
    assert "Move what is there away" in outcome["reason"]
    assert (target / "result").read_text() == "a person's"
    assert [path.name for path in target.iterdir()] == ["result"]


def test_an_equal_file_is_left_as_it_is(ground, target):
    target.mkdir()
    (target / "result").write_text("mine")
    before = (target / "result").stat()
    job = outside_job(ground, target).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    after = (target / "result").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [one["path"] for one in record(job, target)["files"]] == ["result"]


def test_one_conflict_keeps_every_other_file_from_being_delivered(ground, target):
    target.mkdir()
    (target / "result").write_text("a person's")
    code = OUTSIDE + '    write("more", "m"); files("more")'
    outside_job(ground, target, code=code).run()
    assert there(target) == {"result": b"a person's"}


def test_two_files_that_would_take_one_place_are_named(ground, target):
    code = """
    for folder in ("one", "two"):
        path = os.environ["WORK"] + f"/{folder}/same"
        write(path, folder); files(path)
    """
    roots = tuple(str(ground.work / name) for name in ("one", "two"))
    job = outside_job(ground, target, code=code, allow_roots=roots).run()
    assert "would both be delivered to same" in job.outcome()["reason"]


def test_links_in_the_target_are_not_followed(ground, target):
    elsewhere = ground.root / "elsewhere"
    elsewhere.mkdir()
    target.mkdir()
    (target / "sub").symlink_to(elsewhere)
    code = """
    path = os.environ["WORK"] + "/sub/result"
    write(path, "x"); files(path)
    """
    job = outside_job(ground, target, code=code).run()
    assert job.outcome()["cause"] == "delivery"
    assert "is a link or of another kind" in job.outcome()["reason"]
    assert list(elsewhere.iterdir()) == []


def test_a_link_at_a_files_own_name_is_not_written_through(ground, target):
    victim = ground.root / "victim"
    victim.write_text("precious")
    target.mkdir()
    (target / "result").symlink_to(victim)
    job = outside_job(ground, target).run()
    assert job.outcome()["cause"] == "delivery"
    assert victim.read_text() == "precious"


def test_a_link_of_the_task_is_delivered_as_its_file(ground, target):
    code = """
    write("frames/1.txt", "one"); os.symlink("1.txt", "frames/latest")
    os.symlink("nowhere", "frames/broken"); files(dirs=["frames"])
    """
    job = delivering(ground, code, target).run()
    assert there(target) == {own(job, "frames/1.txt"): b"one", own(job, "frames/latest"): b"one"}
    assert not (target / own(job, "frames/latest")).is_symlink()
    assert any("broken leads to no file" in note for note in job.notes())


def test_odd_names_are_kept(ground, target):
    code = r"""
    os.makedirs("odd")
    for name in (b"\xff\xfe", "ü ß".encode(), b"new\nline", b"%41", b"-rf", b" "):
        open(b"odd/" + name, "wb").write(name)
    files(dirs=["odd"])
    """
    job = delivering(ground, code, target).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    folder = os.fsencode(target / own(job, "odd"))
    assert {entry.name for entry in os.scandir(folder)} == {
        *(b"\xff\xfe", "ü ß".encode(), b"new\nline", b"%41", b"-rf", b" ")
    }
    assert (Path(os.fsdecode(folder)) / os.fsdecode(b"\xff\xfe")).read_bytes() == b"\xff\xfe"


def test_a_declaration_that_was_refused_is_no_success(ground, target):
    code = 'say("checkpoint_files", files=["relative"]); write("x", "x"); files("x")'
    job = delivering(ground, code, target).run()
    assert job.outcome()["cause"] == "delivery"
    assert "a declaration of files was refused" in job.outcome()["reason"]


def test_a_declared_file_that_is_not_there_is_told(ground, target):
    job = delivering(ground, 'write("x", "x"); files("x", "missing")', target).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert any("missing was declared and is not there" in note for note in job.notes())


SAVING = """
    at = int(sys.argv[1]) if resumed else 0
    write(f"part-{at}", f"part {at} of {os.getpid()}"); files(f"part-{at}")
    if at < 1:
        write("state.bin", "s"); save("1", "state.bin"); committed(1); wait()
"""


def test_files_of_attempts_before_are_delivered_by_the_one_that_succeeds(ground, target):
    job = delivering(ground, SAVING, target)
    interrupted(job)
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert set(there(target)) == {own(job, "part-0"), own(job, "part-1")}  # not the save's file


FRAMES = """
    for n in range(200):
        path = os.environ["WORK"] + f"/frames/{n:03}"
        write(path, f"{n} by {os.getpid()}"); files(path)
"""
#: What is waited for before the worker is killed.
MOMENTS = {
    "a file is staged": lambda at: any((at / "frames").glob(".perdure-*")),
    "the plan is put": lambda at: any(at.glob("perdure/*/*.plan.json")),
    "there is a name": lambda at: (at / "frames" / "000").exists(),
    "half of the names are there": lambda at: (at / "frames" / "100").exists(),
    "all names are there": lambda at: (at / "frames" / "199").exists(),
    "the record is there": lambda at: any(
        set(at.glob("perdure/*/*")) - set(at.glob("*/*/*.plan*"))
    ),
}


def killed_when(worker, check):
    """Kill the worker when something is seen; it may have ended by then (moments may be short).

    `tests/crash/store/test_killed_deliveries.py` meets each moment for certain.
    """
    pid = worker.worker_pid
    wait_until("the moment", lambda: check() or worker.poll() is not None)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    worker.wait()


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_a_delivery_the_next_attempt_ends_it_with_its_own_bytes(ground, target, moment):
    """Each attempt writes other bytes: what the dead one delivered is known to be the task's."""
    job = outside_job(ground, target, code=FRAMES)
    worker = job.start()
    killed_when(worker, lambda: MOMENTS[moment](target))
    if job.open():  # else its outcome was recorded just before
        job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    by = {data.split()[-1] for data in there(target).values()}
    assert (len(by), len(there(target))) == (1, 200)
    assert records(job, target) == [f"1-{job.key()}.json"]
    assert not list(target.rglob(".perdure-*"))


def test_what_a_person_changed_since_is_not_replaced(ground, target):
    job = outside_job(ground, target, code=FRAMES)
    worker = job.start()
    killed_when(worker, (target / "frames" / "000").exists)
    (target / "frames" / "000").write_text("a person's")
    if job.open():
        job.run()
        assert job.outcome()["cause"] == "delivery"
        assert "frames/000" in job.outcome()["reason"]
    assert (target / "frames" / "000").read_text() == "a person's"


@pytest.fixture
def small_disk(ground):
    """A file system of 2 MiB."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = ground.root / "small"
    folder.mkdir()
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=2m,mode=700") != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), 2)


def test_a_disk_without_space_is_told_and_left_without_rests(ground, small_disk):
    code = """
    write("small", "s"); write("large", "l" * 5_000_000); files("large", "small")
    """
    target = small_disk / "there"
    job = delivering(ground, code, target).run()
    outcome = job.outcome()
    assert (outcome["state"], outcome["cause"]) == ("FAILED", "delivery")
    assert "No space left" in outcome["reason"]
    assert there(target) == {}
    assert not list(target.rglob(".perdure-*"))


def test_a_source_that_changes_all_the_time_is_told(ground, target):
    """Somebody else writes to what the task declared, all the time."""
    path = ground.work / "result"
    code = """
    path = os.environ["WORK"] + "/result"
    os.truncate(path, 400_000_000); files(path)
    """
    path.touch()
    job = outside_job(ground, target, code=code)
    stop = threading.Event()

    def write():
        while not stop.wait(0.001):
            with path.open("r+b") as file:
                file.write(os.urandom(8))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        job.run()
    finally:
        stop.set()
        writer.join()
    assert job.outcome()["cause"] == "delivery"
    assert f"{path} changes while it is being delivered" in job.outcome()["reason"]
    assert there(target) == {}


def test_a_folder_that_may_not_be_written_is_told(ground):
    target = ground.work / "file"
    target.write_text("no folder")
    job = delivering(ground, 'write("x", "x"); files("x")', target).run()
    assert job.outcome()["cause"] == "delivery"
    assert target.read_text() == "no folder"


def test_a_target_inside_a_declared_folder_is_not_delivered_into_itself(ground):
    target = ground.work / "out" / "delivered"
    code = """
    path = os.environ["WORK"] + "/out/result"
    write(path, "x"); files(dirs=[os.environ["WORK"] + "/out"])
    """
    job = outside_job(ground, target, code=code).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert there(target) == {"out/result": b"x"}


def test_a_target_where_the_files_are_already_is_a_delivery(ground):
    job = outside_job(ground, ground.work).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert [one["path"] for one in record(job, ground.work)["files"]] == ["result"]


CHUNK = """
    first, _, last = sys.argv[1].partition("-")
    for frame in range(int(first), int(last or first) + 1):
        with open(os.environ["WORK"] + "/rendered", "a") as file:
            file.write(f"{frame}\\n")
        write(f"frames/{frame}", f"frame {frame} {os.urandom(4).hex()}" * 1000)
        files(f"frames/{frame}"); complete(frame)
        if frame == 3 and first == "1":
            wait()
"""
SPACE = {
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


def chunk_job(ground, target, **how):
    return outside_job(
        ground,
        target,
        code=CHUNK,
        more=SPACE,
        args=["{{Task.Param.F}}"],
        extensions=["TASK_CHUNKING"],
        notice_seconds=1,
        **how,
    )


def stopped_when_kept(job, values):
    worker = job.start()
    wait_until(f"{values} kept", lambda: set(job.kept()) >= values)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.said()


def test_files_of_kept_values_are_delivered_whichever_attempt_made_them(ground, target):
    job = chunk_job(ground, target)
    stopped_when_kept(job, {1, 2, 3})
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert set(there(target)) == {own(job, f"frames/{n}") for n in range(1, 7)}
    assert (ground.work / "rendered").read_text().split() == ["1", "2", "3", "4", "5", "6"]


def test_a_chunk_whose_values_are_all_kept_only_delivers_when_it_is_tried_again(ground, target):
    target.mkdir()
    job = chunk_job(ground, target)
    stopped_when_kept(job, {1, 2, 3})
    (target / own(job, "frames")).mkdir(parents=True)
    blocking = target / own(job, "frames/5")
    blocking.write_text("a person's")
    job.run()
    outcome = job.outcome()
    assert (outcome["state"], outcome["cause"]) == ("FAILED", "delivery")
    assert set(job.kept()) == {1, 2, 3, 4, 5, 6}
    assert set(there(target)) == {own(job, "frames/5")}
    blocking.unlink()
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert set(there(target)) == {own(job, f"frames/{n}") for n in range(1, 7)}
    assert (ground.work / "rendered").read_text().split() == ["1", "2", "3", "4", "5", "6"]
    assert len(job.attempts()) == 3


ONCE = """
    with open(os.environ["WORK"] + "/runs", "a") as file:
        file.write("x")
    write("inside", "i" * 100_000); write(os.environ["WORK"] + "/result", "mine")
    files("inside", os.environ["WORK"] + "/result")
"""


def mended(job):
    """A person resumes the task, as `perdure resume` does."""
    log = job.records().lineage_log(LineageId(step=StepKey(1), task=job.key()))
    log.read()
    point = job.lineage().point
    assert isinstance(log.append({"kind": "branch", "base": point, "by": "user"}), Entry)


def in_the_way(target, name="result"):
    target.mkdir(exist_ok=True)
    (target / name).write_text("a person's")
    return target / name


@pytest.mark.parametrize("how", [{}, {"files": "shared"}, {"files": "adopt"}, {"resume": True}])
def test_a_finished_task_whose_delivery_failed_does_not_do_its_work_again(ground, target, how):
    obstacle = in_the_way(target)
    job = outside_job(ground, target, code=ONCE, **how).run()
    outcome = job.outcome()
    assert (outcome["state"], outcome["cause"]) == ("FAILED", "delivery")
    assert "its work is done, and its files are kept in checkpoint 1" in outcome["reason"]
    obstacle.unlink()
    job.run()  # nobody mended it yet, as far as the job knows
    assert len(job.attempts()) == 1
    mended(job)
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert there(target) == {own(job, "inside"): b"i" * 100_000, "result": b"mine"}
    assert (ground.work / "runs").read_text() == "x"


def test_what_fails_to_be_delivered_again_stays_kept(ground, target):
    obstacle = in_the_way(target)
    job = outside_job(ground, target, code=ONCE).run()
    for attempt in (2, 3):
        mended(job)
        job.run()
        assert len(job.attempts()) == attempt
        assert "its files are kept in checkpoint 1" in job.outcome()["reason"]
    obstacle.unlink()
    mended(job)
    job.run()
    assert there(target)["result"] == b"mine"
    assert (ground.work / "runs").read_text() == "x"


def test_a_task_that_had_saved_goes_on_from_its_end_and_not_from_its_save(ground, target):
    code = (
        """
    write("inside", "1"); files("inside"); save("1"); committed(1)
    write("inside", "2")
    """
        + ONCE
    )
    obstacle = in_the_way(target)
    job = outside_job(ground, target, code=code).run()
    obstacle.unlink()
    mended(job)
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert there(target)[own(job, "inside")] == b"i" * 100_000
    assert (ground.work / "runs").read_text() == "x"


def test_a_task_with_a_local_tier_keeps_its_end_in_the_store(ground, target):
    code = (
        """
    write("inside", "1"); files("inside"); save("1"); committed(1)
    """
        + ONCE
    )
    obstacle = in_the_way(target)
    job = outside_job(ground, target, code=code, local_store=str(ground.root / "local")).run()
    assert "its files are kept in checkpoint 2" in job.outcome()["reason"]
    obstacle.unlink()
    mended(job)
    job.run()
    assert there(target)[own(job, "inside")] == b"i" * 100_000
    assert (ground.work / "runs").read_text() == "x"


def test_an_end_that_is_damaged_is_not_delivered_and_a_person_decides(ground, target):
    obstacle = in_the_way(target)
    job = outside_job(ground, target, code=ONCE).run()
    for key in list(job.driver.list(layout.packs(job.id, StepKey(1), job.key()))):
        job.driver.delete(key)
    obstacle.unlink()
    mended(job)
    job.run()
    assert (job.outcome()["state"], job.outcome()["cause"]) == ("NOT_STARTED", "not verified")
    job.run()
    assert len(job.attempts()) == 2
    assert (ground.work / "runs").read_text() == "x"
