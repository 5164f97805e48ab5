"""The example programs themselves: stopped anywhere, they write the same bytes in the end.

A stand-in for perdure keeps what each save declares (the program is held while it does) and starts
the resume action in a new folder. The examples under perdure itself are tested end to end.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.template import TemplateKind, check_template, load_job, read_document

EXAMPLES = Path(__file__).parents[3] / "examples"
SAVE = "openjd_checkpoint_save: "


def load(name, **parameters):
    path = EXAMPLES / name
    document = read_document(path.read_bytes(), name=name)
    return load_job(document, parameters=parameters, template_dir=EXAMPLES, current_dir=EXAMPLES)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_valid_and_in_the_list(path):
    assert check_template(read_document(path.read_bytes(), name=path.name)) is TemplateKind.JOB
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text()


def program(step, folder, name):
    """The embedded file of a step, written out."""
    (file,) = (one for one in step.run_script.embeddedFiles if one.name == name)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / file.filename
    target.write_text(str(file.data))
    return target


PROCESSES: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    while PROCESSES:
        with PROCESSES.pop() as process:
            process.kill()


def started(script, *arguments):
    command = [sys.executable, script, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    PROCESSES.append(process)
    return process


class Simulation:
    """The simulation, run in a session folder of its own each time."""

    def __init__(self, root, output, *, steps=60):
        self.root, self.output, self.count = root, output, 0
        self.step = load("simulation.yaml", Output=str(output)).steps[0]
        self.arguments = ["--steps", steps, "--cells", 30, "--save-every", 7, "--step-seconds", 0]

    def start(self, saved=None):
        self.count += 1
        session = self.root / f"session-{self.count}"
        script = program(self.step, session, "Simulate")
        more = []
        if saved is not None:
            shutil.copytree(saved["folder"], session / "run")
            more = ["--resume", session / "run" / saved["file"].name]
        arguments = [*self.arguments, "--folder", session / "run", "--output", self.output, *more]
        return session, started(script, *arguments)


def run_until(process, session, stop_at):
    """Read lines; at line ``stop_at`` stop for good. Gives what the last save left behind."""
    saved = None
    for number, line in enumerate(process.stdout):
        if line.startswith(SAVE):
            process.send_signal(signal.SIGSTOP)
            file = Path(json.loads(line[len(SAVE) :])["file"])
            folder = session.parent / f"saved-{session.name}"
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "history").parent.mkdir()
            shutil.copytree(session / "run" / "history", folder / "history")
            shutil.copy(file, folder / file.name)
            saved = {"folder": folder, "file": file}
            process.send_signal(signal.SIGCONT)
        if number == stop_at:
            process.kill()
            break
    process.wait()
    return saved


def test_the_simulation_ends_with_the_same_bytes_wherever_it_is_killed(tmp_path):
    straight = Simulation(tmp_path / "straight", tmp_path / "straight.txt")
    _, process = straight.start()
    process.communicate()
    assert process.returncode == 0
    expected = straight.output.read_bytes()
    assert expected.startswith(b"10 ")
    numbers = random.Random(7)
    for attempt in range(8):
        killed = Simulation(tmp_path / f"killed-{attempt}", tmp_path / f"killed-{attempt}.txt")
        saved = None
        for _ in range(numbers.randint(1, 3)):
            session, process = killed.start(saved)
            saved = run_until(process, session, numbers.randint(0, 12)) or saved
        _, process = killed.start(saved)
        process.communicate()
        assert process.returncode == 0
        assert killed.output.read_bytes() == expected


def test_the_simulation_saves_when_it_is_asked_and_discards_what_it_cannot_read(tmp_path):
    one = Simulation(tmp_path / "one", tmp_path / "one.txt", steps=10**9)
    session, process = one.start()
    for line in process.stdout:
        if line.startswith(SAVE):
            process.send_signal(signal.SIGUSR1)
            break
    *_, last = process.stdout
    assert last.startswith(SAVE)
    assert process.wait() == 75
    file = Path(json.loads(last[len(SAVE) :])["file"])
    assert file.exists()
    file.write_text("broken")
    one.arguments[1] = 5
    saved = {"folder": session / "run", "file": file}
    _, process = one.start(saved)
    output, _ = process.communicate()
    assert '{"status": "DISCARDED"}' in output
    assert process.returncode == 0


def test_frames_are_whole_and_the_chunk_stops_between_two(tmp_path):
    job = load("render.yaml", Output=str(tmp_path / "out"), Frames="-2-9")
    render, join = job.steps
    assert render.space.task(0).texts() == {"Frame": "-2-1"}
    script = program(render, tmp_path, "Render")
    values = ["--width", 8, "--seconds", 0, "--output", tmp_path / "out"]
    process = started(script, "--frames=-2-100000", *values)
    complete = []
    for line in process.stdout:
        if line.startswith("openjd_task_complete: "):
            complete.append(json.loads(line.partition(": ")[2])["Frame"])
            if len(complete) == 3:
                process.send_signal(signal.SIGTERM)
    assert process.wait() == 75
    assert complete[:3] == [-2, -1, 0]
    frames = {path.name for path in (tmp_path / "out").iterdir()}
    assert frames == {f"frame_{frame:06d}.pgm" for frame in complete}
    assert started(program(join, tmp_path, "Join"), tmp_path / "out").wait() == 0
    movie = (tmp_path / "out" / "movie.pgm").read_bytes()
    assert movie.count(b"P5 8 8 255") == len(complete)


def test_the_fibonacci_template_is_the_source_text_s(tmp_path):
    text = (EXAMPLES / "fibonacci.yaml").read_text()
    assert "signal.signal(signal.SIGUSR1" in text
    step = load("fibonacci.yaml", N="3").steps[0]
    script = program(step, tmp_path, "Fibonacci")
    quick = script.read_text().replace("time.sleep(5)", "time.sleep(0)")
    script.write_text(quick)
    process = started(script, "--number", 7, "--resume", "3,2,3")
    output, _ = process.communicate()
    assert output.splitlines()[0] == 'openjd_checkpoint_resume_status: {"status": "RESUMED"}'
    assert output.splitlines()[-1] == "Final answer: Fibonacci number 7 is 13"
