"""Chunks on real tasks: values kept with their files, and what remains of an interrupted chunk."""

import signal
from pathlib import Path

import pytest

from support.task_words import interrupted, job_of
from support.worker_runs import Ground, JobRun, wait_until

#: Renders frames; each is written down outside, so that it shows how often it was rendered.
RENDER = """
    frames = []
    for part in sys.argv[1].split(","):
        first, _, last = part.partition("-")
        frames += range(int(first), int(last or first) + 1)
    def render(frame):
        with open(os.environ["RENDERED"], "a") as file:
            file.write(f"{frame}\\n")
        write(f"frames/{frame}.png", f"frame {frame}")
        files(f"frames/{frame}.png")
    def kept(frame):
        # the journal is not for tasks; a test says when it has seen it
        while not os.path.exists(os.environ["RENDERED"] + f".kept{frame}"):
            time.sleep(0.005)
"""


def chunk_job(
    ground: Ground, code: str, values: str = "1-10", constraint: str = "CONTIGUOUS", **how
) -> JobRun:
    space = {
        "parameterSpace": {
            "taskParameterDefinitions": [
                {
                    "name": "F",
                    "type": "CHUNK[INT]",
                    "range": values,
                    "chunks": {"defaultTaskCount": 100, "rangeConstraint": constraint},
                }
            ]
        }
    }
    variables = {"RENDERED": str(ground.work / "rendered")}
    body = RENDER + code
    return job_of(
        ground,
        body,
        more=space,
        args=["{{Task.Param.F}}"],
        extensions=["TASK_CHUNKING"],
        variables=variables,
        **how,
    )


def rendered(ground: Ground) -> list[int]:
    return [int(line) for line in (ground.work / "rendered").read_text().split()]


def stopped_when_kept(job: JobRun, values: set[int]) -> JobRun:
    """Run until these values are kept, then as if the host were to go."""
    worker = job.start()
    wait_until(f"{values} kept", lambda: set(job.kept()) >= values)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.said()
    return job


WAITING_AT_FIVE = """
    for frame in frames:
        if frame == 5 and frames[0] == 1:
            wait()
        render(frame); complete(frame)
    print("frames", sorted(os.listdir("frames"), key=lambda n: int(n[:-4])), flush=True)
"""


@pytest.mark.parametrize("resume", [True, False])
def test_kept_values_are_not_run_again_and_their_files_are_there(ground, resume):
    job = chunk_job(ground, WAITING_AT_FIVE, notice_seconds=1, resume=resume)
    stopped_when_kept(job, {1, 2, 3, 4}).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert rendered(ground) == list(range(1, 11))
    everything = [f"{n}.png" for n in range(1, 11)]
    assert f"frames {everything}" in job.text(job.workers[-1])
    assert dict(job.attempts()[1].begun["values"]) == {"F": "5-10"}
    assert set(job.attempts()[0].kept) == {1, 2, 3, 4}


def test_a_value_without_files_is_kept_at_once(ground):
    code = """
    for frame in frames:
        complete(frame)
        if frame == 3:
            wait()
    """
    job = chunk_job(ground, code, notice_seconds=1)
    stopped_when_kept(job, {1, 2, 3})
    assert job.kept() == {1: None, 2: None, 3: None}
    assert job.lineage().saves == ()


def test_a_save_keeps_all_values_before_it_and_is_resumed_with_the_remainder(ground):
    code = """
    if resumed:
        print("goes on", sys.argv[2], frames, sorted(os.listdir("frames")), flush=True)
        say("checkpoint_resume_status", status="RESUMED")
        sys.exit()
    for frame in frames[:4]:
        render(frame); complete(frame)
    save("half of 5"); committed(1); wait()
    """
    job = chunk_job(ground, code, notice_seconds=1)
    interrupted(job)
    assert set(job.kept()) == {1, 2, 3, 4}
    job.run()
    there = ["1.png", "2.png", "3.png", "4.png"]
    assert f"goes on half of 5 [5, 6, 7, 8, 9, 10] {there}" in job.log_text()


def test_a_reset_loses_no_file_of_a_kept_value(ground):
    """Each frame begins its dataset anew, and saves follow."""
    code = """
    if resumed:
        print("there", sorted(os.listdir("frames")), flush=True); sys.exit()
    for frame in frames[:5]:
        render(frame)
        files(f"frames/{frame}.png", mode="RESET")
        complete(frame); save(str(frame))
    committed(5); files(mode="RESET"); save("6"); committed(6); wait()
    """
    job = chunk_job(ground, code, notice_seconds=1)
    stopped_when_kept(job, {1, 2, 3, 4, 5}).run()
    assert f"there {[f'{n}.png' for n in range(1, 6)]}" in job.log_text()


def test_one_result_file_that_grows_with_every_value(ground):
    """Declared once, never saved: each value is kept with the file as it was then or later."""
    code = """
    if frames[0] > 1:
        print("had", open("results.csv").read().split(), flush=True)
        sys.exit()
    files("results.csv")
    for frame in frames[:6]:
        with open("results.csv", "a") as file:
            file.write(f"{frame}\\n")
        complete(frame)
    wait()
    """
    job = chunk_job(ground, code, notice_seconds=1)
    stopped_when_kept(job, {1, 2, 3, 4, 5, 6}).run()
    assert "had ['1', '2', '3', '4', '5', '6']" in job.log_text()


def test_a_value_whose_file_the_save_has_older_waits_for_the_next_save(ground):
    code = """
    write("log", "1"); files("log"); save("one"); committed(1)
    write("log", "12"); complete(1); print("reported", flush=True)
    kept("not")
    save("two"); committed(2); wait()
    """
    job = chunk_job(ground, code, notice_seconds=1)
    worker = job.start()
    job.wait_for("reported")
    wait_until("the note", lambda: any("before the next save" in n for n in job.notes()))
    assert job.kept() == {}
    (ground.work / "rendered.keptnot").touch()
    wait_until("kept", lambda: 1 in job.kept())
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    support = job.kept()[1]
    assert job.lineage().save(support).header["save"] == 2


def test_the_remainder_is_split_and_the_checkpoint_goes_to_one_piece(ground):
    code = """
    if len(frames) == 10:
        save("in 3"); committed(1)
        for frame in (1, 2, 5, 8):
            render(frame); complete(frame)
        wait()
    for frame in frames:
        render(frame); complete(frame)
    print("piece", frames, "resumed", resumed, flush=True)
    """
    job = chunk_job(ground, code, notice_seconds=1)
    stopped_when_kept(job, {1, 2, 5, 8})
    job.run()
    claim = job.lineage().claims[-1]
    assert dict(claim.values) == {"F": "3-4"}
    assert [dict(piece)["F"] for piece in claim.split] == ["6-7", "9-10"]
    job.run(tasks=[dict(piece) for piece in claim.split], shares=False)
    pieces = [line for line in job.log_text().splitlines() if line.startswith("piece")]
    assert pieces == [
        "piece [3, 4] resumed True",
        "piece [6, 7] resumed False",
        "piece [9, 10] resumed False",
    ]
    assert sorted(rendered(ground)) == list(range(1, 11))


def test_a_chunk_that_need_not_be_contiguous_is_not_split(ground):
    code = """
    if len(frames) == 10:
        for frame in (2, 5):
            render(frame); complete(frame)
        wait()
    print("rest", frames, flush=True)
    """
    job = chunk_job(ground, code, notice_seconds=1, constraint="NONCONTIGUOUS")
    stopped_when_kept(job, {2, 5}).run()
    assert "rest [1, 3, 4, 6, 7, 8, 9, 10]" in job.log_text()
    assert job.lineage().claims[-1].split == ()


def test_when_all_values_are_kept_the_exit_does_not_matter(ground):
    code = """
    for frame in frames:
        complete(frame)
    sys.exit(9)
    """
    job = chunk_job(ground, code, values="1-3")
    job.run()
    outcome = job.outcome()
    assert (outcome["state"], outcome["exit_code"]) == ("SUCCEEDED", 9)
    assert "all values" in outcome["reason"]


def test_values_that_are_not_this_attempts_are_refused(ground):
    code = """
    complete(1); complete(1); complete(77); say("task_complete", G=2)
    wait()
    """
    job = chunk_job(ground, code, notice_seconds=1)
    stopped_when_kept(job, {1})
    assert set(job.kept()) == {1}
    assert len([note for note in job.notes() if "refused" in note]) == 3, job.notes()


def test_frames_end_up_whole_however_often_it_is_interrupted(ground):
    """Killed without notice again and again; nothing kept is rendered twice."""
    code = """
    for frame in frames:
        render(frame); complete(frame)
        time.sleep(0.05)
    """
    job = chunk_job(ground, code, values="1-40", notice_seconds=None)
    kept: list[set[int]] = []
    for more in (2, 5, 9):
        worker = job.start()
        least = max(more, len(job.kept()) + 1)  # it has begun, and hears signals
        wait_until("progress", lambda least=least: len(job.kept()) >= least)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        kept.append(set(job.kept()))
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    runs = rendered(ground)
    for number, before in enumerate(kept, start=1):
        values = dict(job.attempts()[number].begun["values"])["F"]
        first, _, last = values.partition("-")
        assert before.isdisjoint(range(int(first), int(last or first) + 1))
    assert set(runs) == set(range(1, 41))
    assert Path(ground.work / "rendered").exists()


def test_values_whose_files_cannot_be_saved_are_not_kept_and_hold_nothing_up(ground):
    """They run again; the task ends as it would."""
    code = """
    render(frames[0]); complete(frames[0]); kept(1)
    files("/etc/passwd"); complete(frames[1])
    sys.exit(3)
    """
    job = chunk_job(ground, code, values="1-3")
    worker = job.start()
    wait_until("kept", lambda: 1 in job.kept())
    (ground.work / "rendered.kept1").touch()
    assert worker.wait() == 0
    assert job.outcome()["state"] == "FAILED"
    assert set(job.kept()) == {1}
    assert any("not kept yet" in note and "/etc/passwd" in note for note in job.notes())
