"""How people call tasks and checkpoints: ``Step[Frame=12]``, ``JOB/Step[Frame=12]@7``. Pure.

Source: docs/terms.md; design 2.
"""

from collections.abc import Iterable, Mapping


def task_label(step: str, texts: Mapping[str, str]) -> str:
    """The task's name: its step's, and the values of its parameters in the step's order."""
    if not texts:
        return step
    values = ",".join(f"{name}={text}" for name, text in texts.items())
    return f"{step}[{values}]"


def checkpoint_label(job: str, task: str, sequence: int) -> str:
    """The checkpoint's name."""
    return f"{job}/{task}@{sequence}"


def split_task(text: str, steps: Iterable[str]) -> tuple[str, str] | None:
    """The step's name and the text between its brackets ("" without any); None: no such step.

    Step names may themselves have brackets: the longest name that fits is meant.
    """
    for name in sorted(steps, key=len, reverse=True):
        if text == name:
            return name, ""
        if text.startswith(f"{name}[") and text.endswith("]"):
            return name, text[len(name) + 1 : -1]
    return None


def split_values(text: str, names: Iterable[str]) -> dict[str, str] | None:
    """``A=1,B=x,y`` as values by name; None where it is none.

    A value may have commas and equal signs: a comma ends it only before another parameter's name.
    """
    known = sorted(names, key=len, reverse=True)
    found: dict[str, str] = {}
    last = ""
    for part in text.split(","):
        name = next((one for one in known if part.strip().startswith(f"{one}=")), None)
        if name is not None and name not in found:
            found[name] = part.strip()[len(name) + 1 :]
            last = name
        elif last:
            found[last] += f",{part}"
        else:
            return None
    return found


def split_checkpoint(text: str) -> tuple[str, int | None]:
    """``TASK@7`` as the task and the sequence; without ``@7`` there is none."""
    task, at, number = text.rpartition("@")
    if at and number.isascii() and number.isdigit():
        return task, int(number)
    return text, None
