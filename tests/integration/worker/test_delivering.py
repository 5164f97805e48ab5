"""``--deliver``: a finished task's declared files are there, verified, before it SUCCEEDED."""

import json
import os
import signal
from pathlib import Path

import pytest
from blake3 import blake3

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
    assert sorted(os.listdir(folder)) == sorted(
        [b"\xff\xfe", "ü ß".encode(), b"new\nline", b"%41", b"-rf", b" "]
    )
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


def test_what_an_earlier_delivery_of_the_task_put_there_is_replaced(ground, target):
    """The first attempt dies behind its plan; the second makes other bytes."""
    code = """
    for n in range(300):
        path = os.environ["WORK"] + f"/frames/{n:03}"
        write(path, f"{n} by {os.getpid()}"); files(path)
    """
    job = outside_job(ground, target, code=code)
    worker = job.start()
    wait_until("a name", lambda: (target / "frames" / "000").exists())
    os.kill(worker.worker_pid, signal.SIGKILL)
    worker.wait()
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    by = {data.split()[-1] for data in there(target).values()}
    assert len(by) == 1
    assert len(there(target)) == 300
    assert records(job, target) == [f"1-{job.key()}.json"]
    assert not [path for path in target.rglob(".perdure-*")]
