"""The split: a template with CHECKPOINT's keys becomes a stock template and what was taken out.

The Open Job Description library refuses keys and extension names that it does not know, and has no
door for others to add some. So the keys of the extension are taken out here, with the places where
they stood; the library validates the rest, and `derived` shows it what was taken out in places
where it knows how to check it. This module checks only what the library cannot: where the keys may
stand, and what ``signalToNotify`` may name.

Source: docs/checkpoint-extension.md, "Schema".
"""

import difflib
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from perdure.errors import Problem
from perdure.template.document import Document, unshared
from perdure.template.extensions import (
    CHECKPOINT,
    ENVIRONMENT_ACTIONS,
    EXTENSION_KEYS,
    RESUME_ACTION,
    SIGNAL,
    SIGNAL_NAMES,
    SUGAR_KEYS,
    SUSPENSION,
)
from perdure.template.locations import Location

_PLACES = {
    RESUME_ACTION: "It belongs beside onRun, in a step's script -> actions.",
    SUSPENSION: "It belongs beside cancelation, in a step's onRun or onCheckpointResume.",
    SIGNAL: "It belongs beside notifyPeriodInSeconds, in cancelation or checkpointCancelation.",
}


class Split(Struct, frozen=True, kw_only=True):
    """A template in two parts.

    Attributes:
        stock: what the library knows; a copy of our own.
        is_declared: the template declares CHECKPOINT and it is allowed.
        signals: ``signalToNotify`` by the location of its cancelation object.
        suspensions: ``checkpointCancelation``, without its signal, by the location of its action.
        resumes: ``onCheckpointResume``, without the extension's keys, by the location of the
            ``actions`` that it stood in.
        removed_names: the indexes in ``extensions`` that were taken out.
        problems: what only we can see.
    """

    stock: dict[str, Any]
    is_declared: bool
    signals: dict[Location, str]
    suspensions: dict[Location, Any]
    resumes: dict[Location, Any]
    removed_names: tuple[int, ...]
    problems: tuple[Problem, ...]


def split_template(document: Document, *, extensions: Collection[str]) -> Split:
    """Take the CHECKPOINT extension out of a template (job or environment)."""
    return _Splitter(document, extensions).split()


class _Splitter:
    def __init__(self, document: Document, extensions: Collection[str]) -> None:
        self._document = document
        self._is_allowed = CHECKPOINT in extensions
        self._stock: dict[str, Any] = unshared(dict(document.content))
        self._signals: dict[Location, str] = {}
        self._suspensions: dict[Location, Any] = {}
        self._resumes: dict[Location, Any] = {}
        self._problems: list[Problem] = []

    def split(self) -> Split:
        names = self._stock.get("extensions")
        names = names if isinstance(names, list) else []
        is_named = CHECKPOINT in names
        removed: tuple[int, ...] = ()
        if is_named and self._is_allowed:
            removed = self._take_name(names)
            self._take_keys()
            self._refuse_rest("is not allowed here")
        elif is_named:
            # The library says that the extension is not supported; once is enough.
            self._drop_all(self._stock, ())
        else:
            self._refuse_rest(
                "needs the CHECKPOINT extension, which this template does not declare",
                f"Add CHECKPOINT to the template's extensions: extensions: [{CHECKPOINT}]",
            )
        return Split(
            stock=self._stock,
            is_declared=is_named and self._is_allowed,
            signals=self._signals,
            suspensions=self._suspensions,
            resumes=self._resumes,
            removed_names=removed,
            problems=tuple(self._problems),
        )

    def _take_name(self, names: list[Any]) -> tuple[int, ...]:
        removed = tuple(index for index, name in enumerate(names) if name == CHECKPOINT)
        if len(removed) > 1:
            self._problem(
                ("extensions", removed[1]),
                "CHECKPOINT is named more than once",
                "Name it once.",
            )
        rest = [name for name in names if name != CHECKPOINT]
        if rest:
            self._stock["extensions"] = rest
        else:
            del self._stock["extensions"]
        return removed

    def _take_keys(self) -> None:
        for index, step in _items(self._stock.get("steps")):
            self._step(step, ("steps", index))
        for index, environment in _items(self._stock.get("jobEnvironments")):
            self._environment(environment, ("jobEnvironments", index))
        self._environment(self._stock.get("environment"), ("environment",))

    def _step(self, step: Any, location: Location) -> None:
        if not isinstance(step, dict):
            return
        script = step.get("script")
        actions = script.get("actions") if isinstance(script, dict) else None
        if isinstance(actions, dict):
            place = (*location, "script", "actions")
            self._action(actions.get("onRun"), (*place, "onRun"))
            resume = actions.pop(RESUME_ACTION, None)
            if resume is not None:
                self._action(resume, (*place, RESUME_ACTION))
                self._resumes[place] = resume
        for key in SUGAR_KEYS:
            self._action(step.get(key), (*location, key))
        for index, environment in _items(step.get("stepEnvironments")):
            self._environment(environment, (*location, "stepEnvironments", index))
        if RESUME_ACTION in step and any(key in step for key in SUGAR_KEYS):
            del step[RESUME_ACTION]
            self._problem(
                (*location, RESUME_ACTION),
                "a step in the short form has no place for onCheckpointResume",
                "Write the step's script in full: script -> actions -> onRun, onCheckpointResume.",
            )

    def _environment(self, environment: Any, location: Location) -> None:
        script = environment.get("script") if isinstance(environment, dict) else None
        actions = script.get("actions") if isinstance(script, dict) else None
        if not isinstance(actions, dict):
            return
        for name in ENVIRONMENT_ACTIONS:
            action = actions.get(name)
            place = (*location, "script", "actions", name)
            if not isinstance(action, dict):
                continue
            self._cancelation(action.get("cancelation"), (*place, "cancelation"))
            if action.pop(SUSPENSION, None) is not None:
                self._problem(
                    (*place, SUSPENSION),
                    "environments are left, not suspended, so it is not allowed here",
                    _PLACES[SUSPENSION],
                )

    def _action(self, action: Any, location: Location) -> None:
        if not isinstance(action, dict):
            return
        self._cancelation(action.get("cancelation"), (*location, "cancelation"))
        suspension = action.pop(SUSPENSION, None)
        if suspension is not None:
            self._cancelation(suspension, (*location, SUSPENSION))
            self._suspensions[location] = suspension

    def _cancelation(self, cancelation: Any, location: Location) -> None:
        if not isinstance(cancelation, dict):
            return
        name = cancelation.pop(SIGNAL, None)
        if name is None:
            return
        place = (*location, SIGNAL)
        if name not in SIGNAL_NAMES:
            self._unknown_signal(name, place)
        elif cancelation.get("mode") == "TERMINATE":
            self._problem(
                place,
                "only mode NOTIFY_THEN_TERMINATE sends a signal first, and the mode is TERMINATE",
                "Write mode: NOTIFY_THEN_TERMINATE, or remove signalToNotify.",
            )
        else:
            # A wrong mode is the library's to report; a deferred one is checked at run time.
            self._signals[location] = name

    def _unknown_signal(self, name: Any, place: Location) -> None:
        known = ", ".join(SIGNAL_NAMES)
        if not isinstance(name, str):
            self._problem(place, f"{name!r} is not the name of a signal", f"Write one of {known}.")
            return
        if "{{" in name:
            self._problem(
                place,
                f"{name!r} is a format string, and the signal must be known when the job is made",
                f"Write one of {known}.",
            )
            return
        spelled = name.strip().upper().removeprefix("SIG")
        near = difflib.get_close_matches(f"SIG{spelled}", SIGNAL_NAMES, n=1, cutoff=0.8)
        advice = f"Did you mean {near[0]}? " if near else ""
        self._problem(
            place,
            f"{name!r} is not a signal that a program can wait for",
            f"{advice}Known: {known}.",
        )

    def _refuse_rest(self, message: str, advice: str = "") -> None:
        for key, location in self._drop_all(self._stock, ()):
            self._problem(location, f"{key} {message}", advice or _PLACES[key])

    def _drop_all(self, value: Any, location: Location) -> list[tuple[str, Location]]:
        """Remove the extension's keys below ``value``; the outermost of each row of them."""
        dropped: list[tuple[str, Location]] = []
        if isinstance(value, dict):
            # The names of variables are the author's own.
            if location[-1:] == ("variables",):
                return dropped
            for key, item in list(value.items()):
                if key in EXTENSION_KEYS:
                    del value[key]
                    dropped.append((key, (*location, key)))
                else:
                    dropped += self._drop_all(item, (*location, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                dropped += self._drop_all(item, (*location, index))
        return dropped

    def _problem(self, location: Location, message: str, advice: str = "") -> None:
        self._problems.append(self._document.problem(location, message, advice))


def _items(value: Any) -> list[tuple[int, Any]]:
    return list(enumerate(value)) if isinstance(value, list) else []
