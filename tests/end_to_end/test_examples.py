"""The example jobs, interrupted at random points: what they write is the same, byte for byte.

An input, a neighbour's file and a corrected file outside survive each resume untouched.
"""

import random
import re
import signal
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
#: Parameters that make the examples short.
JOBS = {
    "render": ["-p", "Frames=1-8", "-p", "FrameSeconds=0.1", "-p", "Width=16"],
    "simulation": ["-p", "Steps=60", "-p", "SaveEvery=10", "-p", "StepSeconds=0.02"],
    "environments": ["-p", "Seconds=0.1"],
}


def line(name, output, *more):
    return ["run", EXAMPLES / f"{name}.yaml", *JOBS[name], "-p", f"Output={output}", *more]


def contents(output):
    """Every file of a job's output, by its path."""
    if output.is_file():
        return {"": output.read_bytes()}
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file()
    }


def straight(perdure, name):
    output = perdure.folder / f"straight-{name}"
    perdure(*line(name, output))
    return contents(output)


def interrupt(perdure, chance, command):
    """Run the line and interrupt it somewhere; whether it ended by itself first."""
    how = chance.choice([signal.SIGINT, signal.SIGTERM, "kill all"])
    with perdure.running(*command) as run:
        for _ in range(chance.randrange(1, 60)):
            text = run.process.stdout.readline()
            if not text:
                return run.process.wait() == 0
            run.lines.append(text)
        if how == "kill all":
            perdure.kill_all()
        else:
            run.signal(how)
        run.lines.extend(run.process.stdout)
        code = run.process.wait()
    # -2, -15, 130: the signal came before there was a handler, and nothing had begun.
    assert code in (0, 75, 143, -9, 137, -2, -15, 130), (code, "".join(run.lines))
    return code == 0


def interrupted(perdure, name, seed, times):
    """The output after so many interruptions at random points, and how many there were."""
    chance = random.Random(seed)
    output = perdure.folder / f"interrupted-{name}-{seed}"
    command = line(name, output, "--limit", "back_off_seconds=0.05", "--limit", "quick_seconds=0")
    for number in range(times):
        if interrupt(perdure, chance, command):
            return contents(output), number
    perdure(*command)
    return contents(output), times


@pytest.mark.parametrize("name", sorted(JOBS))
def test_an_example_interrupted_at_random_points_writes_the_same(perdure, name):
    expected = straight(perdure, name)
    found, _ = interrupted(perdure, name, seed=7, times=4)
    assert found == expected
    perdure.wait_until_no_process()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(JOBS))
def test_an_example_interrupted_at_twenty_random_points_writes_the_same(perdure, name):
    expected = straight(perdure, name)
    interruptions, seed = 0, 100
    while interruptions < 20:
        found, number = interrupted(perdure, name, seed=seed, times=20)
        assert found == expected, f"seed {seed}"
        interruptions += max(1, number)
        seed += 1
    print(f"{name}: {interruptions} interruptions, {seed - 100} runs")
    perdure.wait_until_no_process()


def test_frames_that_are_done_are_never_rendered_again(perdure):
    output = perdure.folder / "frames"
    command = line("render", output)
    said = perdure.suspended_at(r'openjd_task_complete: {"Frame": 6}', *command)
    said += perdure(*command).stdout
    rendered = [int(found) for found in re.findall(r"Rendering frame (\d+)", said)]
    assert sorted(rendered) == list(range(1, 9))


OUTSIDE = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Outside
parameterDefinitions:
- {name: Folder, type: PATH, objectType: DIRECTORY, dataFlow: INOUT}
steps:
- name: Work
  script:
    actions:
      onRun: {command: python3, args: ["{{Task.File.Work}}", "{{Param.Folder}}"]}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Work}}", "{{Param.Folder}}", "{{Task.Checkpoint.State}}"]
    embeddedFiles:
    - name: Work
      type: TEXT
      data: |
        import json, os, sys, time
        folder = sys.argv[1]
        own = os.path.join(folder, "own.txt")
        if len(sys.argv) < 3:
            with open(own, "w") as file:
                file.write("saved")
            paths = [own, os.path.join(folder, "input.txt")]
            print("openjd_checkpoint_files: " + json.dumps({"files": paths, "dirs": [folder]}))
            print('openjd_checkpoint_save: {"state": "1"}')
            sys.stdout.flush()
            while not os.path.exists(os.environ["PERDURE_COMMIT_FILE"]):
                time.sleep(0.01)
            with open(own, "w") as file:
                file.write("later, not saved")
            print("ready", flush=True)
            time.sleep(60)
        print("own is", open(own).read(), flush=True)
"""


def test_an_input_a_neighbours_file_and_a_corrected_file_survive_a_resume(perdure):
    folder = perdure.folder / "data"
    folder.mkdir()
    (folder / "input.txt").write_text("input")
    (folder / "neighbour.txt").write_text("neighbour")
    command = ["run", perdure.template(OUTSIDE), "-p", f"Folder={folder}"]
    perdure.suspended_at("ready", *command)
    (folder / "input.txt").write_text("input, corrected")
    (folder / "neighbour.txt").write_text("neighbour, corrected")
    said = perdure(*command).stdout
    assert "own is saved" in said
    assert (folder / "input.txt").read_text() == "input, corrected"
    assert (folder / "neighbour.txt").read_text() == "neighbour, corrected"
    displaced = list(folder.glob("own.txt.displaced-*"))
    assert [path.read_text() for path in displaced] == ["later, not saved"]
    assert "input.txt" in perdure("why", "last", "Work").stdout


def conflicting(perdure):
    """A job whose own file somebody corrected while it was suspended; its line."""
    folder = perdure.folder / "data"
    folder.mkdir()
    (folder / "input.txt").write_text("input")
    command = ["run", perdure.template(OUTSIDE), "-p", f"Folder={folder}"]
    perdure.suspended_at("ready", *command)
    (folder / "own.txt").write_text("corrected by a person")
    return folder, command


@pytest.mark.parametrize(
    ("choice", "own"), [("--overwrite", "saved"), ("--keep", "corrected by a person")]
)
@pytest.mark.parametrize("how", ["resume", "the same line"])
def test_a_conflict_is_held_at_once_until_a_person_chooses(perdure, choice, own, how):
    folder, command = conflicting(perdure)
    held = perdure(*command, expect=3)
    why = perdure("why", "last", "Work").stdout
    assert re.search(rf"perdure resume \S+ {choice}  #", why)
    assert "the same again" not in why  # that would help nothing
    assert (folder / "own.txt").read_text() == "corrected by a person"
    attempts = perdure.json("status", "last")["attempts"]
    assert [a["outcome"] for a in attempts] == ["SUSPENDED", "NOT_STARTED"], held.stdout
    again = ["resume", "last", choice] if how == "resume" else [*command, choice]
    assert f"own is {own}" in perdure(*again).stdout


def test_a_crash_cuts_nothing_off_that_a_person_wrote_meanwhile(perdure):
    folder = perdure.folder / "data"
    folder.mkdir()
    (folder / "input.txt").write_text("input")
    command = ["run", perdure.template(OUTSIDE), "-p", f"Folder={folder}"]
    with perdure.running(*command) as run:
        run.until("ready")
        perdure.kill_all()
    (folder / "own.txt").write_text("saved, and what a person wrote behind it")
    perdure(*command)
    found = [path.read_text() for path in folder.glob("own.txt*")]
    assert "saved, and what a person wrote behind it" in found


def test_a_key_is_of_one_template_and_its_parameters(perdure):
    line = ["run", EXAMPLES / "fibonacci.yaml", "--key", "mine"]
    perdure(*line, "-p", "N=0")
    refused = perdure(*line, "-p", "N=1", expect=2)
    assert "which differs in its parameters" in refused.stderr
    assert perdure(*line, "-p", "N=0").returncode == 0
