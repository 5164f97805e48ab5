"""The library that a user's program imports to save and to be resumed. Standard library only.

    from perdure import task

    def save():
        task.save(state=f"{n},{a},{b}")

    with task.Checkpointer(save) as checkpointer:
        while n < last:
            checkpointer.safe_point()  # saves when it is time or when asked; then leaves if asked
            n, a, b = n + 1, b, a + b

It writes the messages of the Open Job Description CHECKPOINT extension, so the same program runs
under any scheduler that reads them, and under none. It carries its own small encoder, tested
against perdure's decoder, imports nothing else of perdure, and its syntax is that of Python 3.9.
"""

from perdure.task.checkpointer import Checkpointer
from perdure.task.commits import Commit, wait_committed
from perdure.task.messages import complete, files, resume_status, save, use_messages_file

__all__ = [
    "Checkpointer",
    "Commit",
    "complete",
    "files",
    "resume_status",
    "save",
    "use_messages_file",
    "wait_committed",
]
