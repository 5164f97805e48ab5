"""A user's program: mypy --strict accepts it as it stands, and infers what is written here."""

import json
from pathlib import Path
from typing import assert_type

from perdure import task

values = {"n": 0}


def save() -> None:
    path = Path("state.json")
    path.write_text(json.dumps(values))
    task.files(path, "frames.txt", dirs=[Path("out"), "more"], reset=True)
    assert_type(task.save(state="1", file=path), int)


with task.Checkpointer(save) as checkpointer:
    assert_type(checkpointer, task.Checkpointer)
    assert_type(checkpointer.is_asked, bool)
    checkpointer.safe_point()

task.complete("Frame", 3)
task.resume_status(resumed=True)
assert_type(task.use_messages_file(), bool)
commit = task.wait_committed(save=2, timeout=1.5)
assert_type(commit, task.Commit | None)
if commit is not None:
    assert_type(commit.save, int)
