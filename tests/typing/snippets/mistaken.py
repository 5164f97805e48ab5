"""Mistakes that mypy tells before a program runs: each line needs its `ignore`."""

from perdure import task

task.save(state=5)  # type: ignore[arg-type]
task.save("1", b"file")  # type: ignore[arg-type]
task.files(["one", "two"])  # type: ignore[arg-type]
task.files(dirs=5)  # type: ignore[arg-type]
task.complete("Frame", "3")  # type: ignore[arg-type]
task.resume_status(True)  # type: ignore[call-arg]
number = task.wait_committed(1).save  # type: ignore[union-attr]
task.Checkpointer("save")  # type: ignore[arg-type]
