"""Templates made up for checking: what the split took out, in places that the library knows.

A ``checkpointCancelation`` has the shape and scope of a ``cancelation``; an ``onCheckpointResume``
those of an ``onRun`` with two more references. So one stock template is made with a step for each
of them: the suspension stands at ``onRun -> cancelation``, the resume action at ``onRun``, its two
references respelled as two hidden task parameters. A task parameter has just the scope that the
references have (seen in command and args, not in timeout and cancelation) and a type for EXPR.
The library checks this template; only what it says about those places is used, so that its limits
on the number of parameters and its rules for ``combination`` do not matter here.

The hidden names have the lengths of the references, so columns in messages stay right, and are
chosen so that nothing in the template has them.
"""

import itertools
import re
import string
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from perdure.template.extensions import FILE_REFERENCE, STATE_REFERENCE
from perdure.template.locations import Location, starts_with
from perdure.template.split import Split

_SEGMENT = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_REFERENCE = re.compile(r"(?<![\w.])Task(\s*\.\s*)Checkpoint(\s*\.\s*)(State|File)(?!\w)")


class Probe(Struct, frozen=True, kw_only=True):
    """A place in the derived template (``there``) that stands for one in the document."""

    there: Location
    here: Location


class Derived(Struct, frozen=True, kw_only=True):
    """The derived template, and how to read what the library says about it."""

    content: dict[str, Any]
    probes: tuple[Probe, ...]
    state_name: str
    file_name: str

    def original(self, location: Location) -> Location | None:
        """Where in the document ``location`` of the derived template is; None: nowhere."""
        for probe in self.probes:
            if starts_with(location, probe.there):
                return probe.here + location[len(probe.there) :]
        return None

    def original_text(self, message: str) -> str:
        """``message`` with the hidden names spelled as the author spells them."""
        for prefix in ("Task.Param.", "Task.RawParam."):
            message = message.replace(prefix + self.state_name, STATE_REFERENCE)
            message = message.replace(prefix + self.file_name, FILE_REFERENCE)
        return message


def derive(split: Split) -> Derived | None:
    """The template that shows the library what the split took out; None: nothing was."""
    if not split.suspensions and not split.resumes:
        return None
    state_name, file_name = _hidden_names(split)
    steps: list[dict[str, Any]] = []
    probes: list[Probe] = []
    there: Location
    for place, resume in split.resumes.items():
        there = ("steps", len(steps), "script", "actions", "onRun")
        probes.append(Probe(there=there, here=(*place, "onCheckpointResume")))
        action = respelled(resume, state_name=state_name, file_name=file_name)
        step = _derived_step(split, place, action, name=f"s{len(steps)}")
        step["parameterSpace"] = _space(split, place, state_name, file_name)
        steps.append(step)
    for place, suspension in split.suspensions.items():
        there = ("steps", len(steps), "script", "actions", "onRun", "cancelation")
        probes.append(Probe(there=there, here=(*place, "checkpointCancelation")))
        action = {"command": "true", "cancelation": suspension}
        steps.append(_derived_step(split, place, action, name=f"s{len(steps)}"))
    kept = ("extensions", "parameterDefinitions")
    content = {key: split.stock[key] for key in kept if key in split.stock}
    content |= {"specificationVersion": "jobtemplate-2023-09", "name": "derived", "steps": steps}
    return Derived(
        content=content, probes=tuple(probes), state_name=state_name, file_name=file_name
    )


def respelled(value: Any, *, state_name: str, file_name: str) -> Any:
    """A copy of ``value`` with the two references inside of ``{{ }}`` respelled."""
    names = {"State": state_name, "File": file_name}

    def reference(match: re.Match[str]) -> str:
        return f"Task{match[1]}Param{match[2]}{names[match[3]]}"

    def segment(match: re.Match[str]) -> str:
        return _REFERENCE.sub(reference, match[0])

    if isinstance(value, str):
        return _SEGMENT.sub(segment, value)
    if isinstance(value, dict):
        return {
            key: respelled(item, state_name=state_name, file_name=file_name)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [respelled(item, state_name=state_name, file_name=file_name) for item in value]
    return value


def _derived_step(split: Split, place: Location, action: Any, *, name: str) -> dict[str, Any]:
    """A step with the scope of the one at ``place``: its let bindings and embedded files."""
    original = split.stock["steps"][place[1]]
    holder = original.get("script", original.get(place[2]))
    script: dict[str, Any] = {"actions": {"onRun": action}}
    if isinstance(holder, dict):
        script |= {key: holder[key] for key in ("let", "embeddedFiles") if key in holder}
    step: dict[str, Any] = {"name": name, "script": script}
    if "let" in original:
        step["let"] = original["let"]
    return step


def _space(split: Split, place: Location, state_name: str, file_name: str) -> dict[str, Any]:
    space = split.stock["steps"][place[1]].get("parameterSpace")
    own = space.get("taskParameterDefinitions") if isinstance(space, dict) else None
    hidden = [
        {"name": state_name, "type": "STRING", "range": ["state"]},
        {"name": file_name, "type": "PATH", "range": ["file"]},
    ]
    return {"taskParameterDefinitions": (own if isinstance(own, list) else []) + hidden}


def _hidden_names(split: Split) -> tuple[str, str]:
    """Two names, as long as what they stand for, that occur nowhere in the template."""
    texts = [split.stock, *split.resumes.values(), *split.suspensions.values()]
    words = set[str]()
    for text in _strings(texts):
        words.update(re.findall(r"\w+", text))
    for letters in itertools.product(string.ascii_letters, repeat=3):
        tag = "".join(letters)
        state_name, file_name = f"H{tag}_State", f"H{tag}_File"
        if state_name not in words and file_name not in words:
            return state_name, file_name
    raise AssertionError("140,608 names cannot all be taken in 250,000 values")  # pragma: no cover


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
