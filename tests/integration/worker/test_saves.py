"""What becomes of saves: on real tasks, resumed in other sessions."""

import os
import signal
from pathlib import Path

import pytest

from perdure.clock import from_text
from support.task_words import interrupted, job_of
from support.worker_runs import wait_until


def test_files_of_the_session_folder_move_to_the_new_one(ground):
    job = job_of(
        ground,
        """
    if not resumed:
        write("out/a.txt", "A"); write("out/deep/b.txt", "B"); write("model.bin", "M")
        os.chmod("out/a.txt", 0o640); os.symlink("a.txt", "out/link")
        files("out/a.txt", dirs=["out"])
        save("17", "model.bin")
        wait()
    print("state", sys.argv[1], "file", open(sys.argv[2]).read(), os.path.abspath(sys.argv[2]))
    print("tree", sorted((d, sorted(f)) for d, _, f in os.walk("out")), os.readlink("out/link"))
    print("mode", oct(os.stat("out/a.txt").st_mode & 0o777), os.getcwd())
    """,
    )
    interrupted(job).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    text = job.text(job.workers[-1])
    assert "state 17 file M" in text
    assert "tree [('out', ['a.txt', 'link']), ('out/deep', ['b.txt'])] a.txt" in text
    assert "mode 0o640" in text
    old = next(x for x in job.text(job.workers[0]).splitlines() if "Working Directory" in x)
    assert old.split(": ")[1] not in text


def test_nothing_that_the_session_made_is_part_of_a_dataset(ground):
    """Scripts, embedded files and perdure's own have other names or contents in each session."""
    job = job_of(
        ground,
        """
    write("mine.txt", "1")
    files("checkpoint_committed.json", __file__, dirs=["."])
    save("x"); committed(1); save("x"); committed(2)
    wait()
    """,
    )
    interrupted(job)
    interrupted(job)
    saves = job.lineage().saves
    for save in saves:
        paths = {entry.path for entry in job.manifest(save.number).entries}
        assert paths == {"mine.txt", "perdure_checkpoints"}
    assert len(saves) >= 3
    assert len({save.content for save in saves}) == 1  # the same content is no progress
    assert any("makes it anew" in note for note in job.notes())


def test_an_embedded_file_as_the_saves_file_is_refused(ground):
    job = job_of(ground, "\n    save('x', __file__)\n    save('y')\n    wait()\n    ")
    interrupted(job)
    assert job.manifest(job.lineage().point).state == "y"
    assert any("belongs to the session" in note for note in job.notes())
    assert all(from_text(note["at"]) for note in job.attempts()[-1].notes)


def test_after_the_acknowledgement_the_only_file_may_be_overwritten(ground):
    job = job_of(
        ground,
        """
    start = int(sys.argv[1]) if resumed else 0
    if resumed:
        assert open(sys.argv[2]).read() == f"content {start}" * 1000, "not what was saved"
    for n in range(1, 30):
        write("only.bin", f"content {start + n}" * 1000)
        save(str(start + n), "only.bin")
        committed(n)
    print("done", flush=True)
    wait()
    """,
    )
    interrupted(job)
    interrupted(job)
    saves = job.outcome(attempt=0)["saves"]
    assert saves == {"announced": 29, "committed": 29, "skipped": 0, "torn": 0}
    assert job.manifest(job.lineage().point).state == "58"


def test_a_file_that_is_always_being_written_is_saved_by_holding_the_task(ground):
    """Two torn saves, then it stands still from the line on until its bytes are taken."""
    job = job_of(
        ground,
        """
    size = 24 << 20
    if resumed:
        data = open("big.bin", "rb").read()
        assert len(data) == size and len(set(data)) == 1, "a mixture"
        print("whole"); sys.exit()
    fd = os.open("big.bin", os.O_RDWR | os.O_CREAT)
    files("big.bin")
    n = 0
    while True:
        n = (n + 1) % 251
        for start in range(0, size, 1 << 20):
            os.pwrite(fd, bytes([n]) * (1 << 20), start)
        save(str(n))
        for _ in range(200):
            os.pwrite(fd, bytes([n]), 0); time.sleep(0.001)
    """,
        notice_seconds=None,
    )
    worker = job.start()
    wait_until("a checkpoint", lambda: job.lineage().point)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    saves = job.outcome()["saves"]
    assert saves["committed"] >= 1
    assert saves["torn"] >= 2
    assert any("torn" in note for note in job.notes())
    job.run()
    assert "whole" in job.log_text()


def test_more_files_than_are_stamped_at_once(ground):
    job = job_of(
        ground,
        """
    if resumed:
        assert all(open(f"many/{n}").read() == str(n) for n in range(700)); print("all")
        sys.exit()
    for n in range(700):
        write(f"many/{n}", str(n))
    for n in range(0, 700, 100):  # a line has a limit
        files(*[f"many/{k}" for k in range(n, n + 100)])
    save("x"); wait()
    """,
    )
    interrupted(job).run()
    assert "all" in job.log_text()


def test_a_reset_empties_the_dataset_and_a_file_of_a_save_is_its_own(ground):
    job = job_of(
        ground,
        """
    write("one", "1"); write("two", "2"); write("f1", "f"); write("f2", "f")
    files("one"); save("a", "f1"); committed(1)
    files("two", mode="RESET"); save("b", "f2"); committed(2)
    save("c"); wait()
    """,
    )
    interrupted(job)
    names = [{e.path for e in job.manifest(save.number).entries} for save in job.lineage().saves]
    assert names == [{"one", "f1"}, {"two", "f2"}, {"two"}]


def test_a_newer_save_supersedes_one_that_waits(ground):
    job = job_of(
        ground,
        """
    for n in range(500):
        save(str(n))
    committed(500); wait()
    """,
    )
    interrupted(job)
    saves = job.outcome()["saves"]
    assert saves["announced"] == 500
    assert saves["committed"] + saves["skipped"] == 500
    assert job.manifest(job.lineage().point).state == "499"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("save('x' * 50_000)", "state"),
        ("save('nul' + chr(0))", "NUL"),
        ("save('half' + chr(0xd800))", "surrogate"),
        ("say('checkpoint_save', file='relative')", "absolute"),
        ("save('x', '/etc/passwd')", "outside of the job's folders"),
        ("save('x', 'not there')", "is not there"),
        ("os.mkfifo('pipe'); save('x', 'pipe')", "no regular file"),
        ("os.symlink('/etc/passwd', 'out'); save('x', 'out')", "leads out"),
    ],
)
def test_a_save_that_breaks_a_rule_is_refused_and_the_one_before_stays(ground, call, reason):
    job = job_of(
        ground,
        f"""
    save("good"); committed(1)
    {call}
    wait()
    """,
    )
    interrupted(job)
    assert [job.manifest(s.number).state for s in job.lineage().saves] == ["good"]
    assert any(reason in note for note in job.notes()), job.notes()


def test_what_a_task_said_last_is_recorded_unless_it_succeeded(ground):
    job = job_of(
        ground,
        """
    if not resumed:
        print("openjd_progress: 25.0"); print("openjd_status: a quarter")
        save("x"); wait()
    """,
    )
    interrupted(job)
    assert (job.outcome()["progress"], job.outcome()["status"]) == (25.0, "a quarter")
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert not {"progress", "status"} & set(job.outcome())


@pytest.mark.parametrize("status", ["DISCARDED", "RESUMED", None])
def test_the_resume_status_is_recorded(ground, status):
    job = job_of(
        ground,
        f"""
    if not resumed:
        save("x"); wait()
    if {status!r}:
        say("checkpoint_resume_status", status={status!r})
    """,
    )
    interrupted(job).run()
    assert job.outcome()["resume_status"] == (status or "unknown")


def test_messages_may_come_by_the_file_and_are_heard_at_once(ground):
    """A program whose output is not its own; it waits for each answer."""
    job = job_of(
        ground,
        """
    def tell(text):
        with open(os.environ["PERDURE_MESSAGES"], "a") as file:
            file.write(text)
    for n in range(1, 6):
        write("data", str(n))
        said = json.dumps({"state": str(n), "file": os.path.abspath("data")})
        tell(f"openjd_checkpoint_save: {said}\\n")
        committed(n)
    print('[rank0]: openjd_checkpoint_save: {"state": "prefixed"}')
    print('[rank0]: openjd_checkpoint_save: {"state": "again"}', flush=True)
    tell('openjd_checkpoint_save: {"state": "last, unended"}')
    wait()
    """,
    )
    interrupted(job)
    states = [job.manifest(s.number).state for s in job.lineage().saves if not s.is_pruned]
    assert states[-1] == "last, unended"
    assert job.outcome()["saves"]["announced"] == 6
    told = [note for note in job.notes() if "behind a prefix" in note]
    assert len(told) == 1
    assert "PERDURE_MESSAGES" in told[0]


def test_a_link_in_place_of_the_messages_file_is_not_followed(ground):
    secret = ground.root / "secret"
    secret.write_text('openjd_checkpoint_save: {"state": "stolen"}\n')
    job = job_of(
        ground,
        f"""
    os.unlink(os.environ["PERDURE_MESSAGES"])
    os.symlink("{secret}", os.environ["PERDURE_MESSAGES"])
    save("own"); committed(1); wait()
    """,
    )
    interrupted(job)
    assert [job.manifest(s.number).state for s in job.lineage().saves] == ["own"]


# --- files outside of the session folder ------------------------------------------------------


def test_outside_files_are_put_back_and_inputs_are_not_touched(ground):
    given = ground.work / "input.txt"
    given.write_text("given")
    os.utime(given, (1, 1))
    job = job_of(
        ground,
        f"""
    os.chdir("{ground.work}")
    if resumed:
        print("log", open("log.txt").read(), open("input.txt").read()); sys.exit()
    write("log.txt", "one\\n")
    files("log.txt", "input.txt"); save("1"); committed(1)
    with open("log.txt", "a") as file:
        file.write("after\\n")
    wait()
    """,
    )
    interrupted(job)
    given.write_text("corrected by a person")
    assert (ground.work / "log.txt").read_text() == "one\nafter\n"
    job.run()
    assert "log one\n corrected by a person" in job.log_text()
    assert given.read_text() == "corrected by a person"
    assert any("input.txt has" in note for note in job.notes()), job.notes()


@pytest.mark.parametrize("choice", ["stop", "overwrite", "keep"])
def test_a_file_that_somebody_else_wrote_is_a_conflict(ground, choice):
    job = job_of(
        ground,
        f"""
    os.chdir("{ground.work}")
    if not resumed:
        write("result.txt", "task's"); files("result.txt"); save("1"); committed(1); wait()
    print("has", open("result.txt").read())
    """,
        on_conflict=choice,
    )
    interrupted(job)
    (ground.work / "result.txt").write_text("a person's, written later")
    job.run()
    outcome = job.outcome()
    kept = [p.read_text() for p in ground.work.glob("result.txt.displaced-*")]
    match choice:
        case "stop":
            assert (outcome["state"], outcome["cause"]) == ("NOT_STARTED", "conflict")
            assert "resume_status" not in outcome
            assert "result.txt" in outcome["reason"]
            assert (ground.work / "result.txt").read_text() == "a person's, written later"
        case "overwrite":
            assert "has task's" in job.log_text()
            assert kept == ["a person's, written later"]
        case "keep":
            assert "has a person's" in job.log_text()
            assert kept == []


def test_a_folder_that_is_walked_holds_no_neighbours_files(ground):
    """Two workers write into one folder; each declares the folder, or names its file."""
    shared = ground.work / "shared"
    shared.mkdir()
    (shared / "old.txt").write_text("was there before")
    code = f"""
    os.chdir("{ground.work}")
    me = os.environ["PERDURE_TASK"]
    frame = sys.argv[1]
    def until(name):
        while not os.path.exists(name):
            time.sleep(0.01)
    if frame == "1":
        # What is written before the second began, it would leave out for being old.
        until("begun")
        write("shared/named.txt", "1"); files("shared/named.txt"); save("1"); committed(1)
        write("declared", ""); wait()
    write("begun", "")
    until("declared")
    write("shared/walked.txt", "2"); files(dirs=["shared"]); save("2"); committed(1)
    wait()
    """
    frames = {
        "parameterSpace": {
            "taskParameterDefinitions": [{"name": "F", "type": "INT", "range": "1-2"}]
        }
    }
    job = job_of(ground, code, more=frames, args=["{{Task.Param.F}}"])
    second = job.start(tasks=[1], shares=False)
    first = job.start(tasks=[0], shares=False)
    for worker in (first, second):
        wait_until("ready", lambda worker=worker: "ready" in job.text(worker))
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    names = {e.path for e in job.manifest(job.lineage(1).point, 1).entries if not e.target}
    assert {Path(name).name for name in names} & {"named.txt", "old.txt"} == set()
    assert "walked.txt" in {Path(name).name for name in names}
    assert any("task " in n and "declares it, too" in n for n in job.notes(1)), job.notes(1)


def test_tasks_one_after_the_other_may_declare_the_same_folder(ground):
    code = f"""
    os.chdir("{ground.work}")
    frame = sys.argv[1]
    write(f"shared/{{frame}}.txt", frame); files(dirs=["shared"]); save(frame); committed(1)
    """
    frames = {
        "parameterSpace": {
            "taskParameterDefinitions": [{"name": "F", "type": "INT", "range": "1-3"}]
        }
    }
    job = job_of(ground, code, more=frames, args=["{{Task.Param.F}}"])
    job.run()
    for frame in range(3):
        entries = job.manifest(job.lineage(frame).point, frame).entries
        assert f"{frame + 1}.txt" in {Path(e.path).name for e in entries}
