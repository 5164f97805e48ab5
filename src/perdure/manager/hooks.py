"""``--on MOMENT CMD``: commands that a user wants to be run when something happens to the job.

Run by whoever manages the job, one at a time, in a shell, with what happened in its environment. A
hook that fails or hangs harms nothing: it is given a minute. What happened before this manager came
is not told again.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress

from perdure.manager.job_view import JobView
from perdure.policy.outcome import AttemptState
from perdure.policy.states import State
from perdure.store.records.job_document import JobDocument

_TIMEOUT_SECONDS = 60.0


class Hooks:
    """Runs a job's hooks as its view changes."""

    def __init__(
        self, document: JobDocument, view: JobView, environment: Mapping[str, str]
    ) -> None:
        self._commands = document.options.hooks
        self._document = document
        self._view = view
        self._environment = dict(environment)
        self._seen = set(self._events()) if self._commands else set()

    def run(self) -> None:
        """Run the hooks of everything that is new."""
        if not self._commands:
            return
        for event in list(self._events()):
            if event not in self._seen:
                self._seen.add(event)
                for command in self._commands.get(event[0], ()):
                    self._run(command, event)

    def _events(self) -> Iterator[tuple[str, int | None, str, str]]:
        """What has happened so far: (moment, step, task, what)."""
        stops = self._view.stops
        for view in self._view.steps.values():
            for task, watched in view.watched.items():
                if watched.view is None:
                    continue
                for save in watched.view.lineage.saves:
                    yield "save", view.key, task, str(save.number)
                for past in watched.view.past:
                    begun, outcome = past.account.begun, past.account.outcome
                    number = str(past.claim.attempt)
                    if begun is not None and begun.get("action") == "onCheckpointResume":
                        yield "resume", view.key, task, number
                    if outcome and outcome["state"] == AttemptState.SUSPENDED.value:
                        yield "suspended", view.key, task, number
                if view.status(watched, stops).is_held:
                    yield "held", view.key, task, str(len(watched.view.past))
        settled = self._view.settled(None)
        if settled in (State.SUCCEEDED, State.FAILED):
            number = str(self._view.records.state.settled[None].number)
            yield settled.value.lower(), None, "", number

    def _run(self, command: str, event: tuple[str, int | None, str, str]) -> None:
        moment, step, task, what = event
        environment = {
            **self._environment,
            "PERDURE_JOB": self._document.job,
            "PERDURE_MOMENT": moment,
            "PERDURE_STEP": self._view.job.step(step).name if step is not None else "",
            "PERDURE_TASK": task,
            "PERDURE_WHAT": what,
        }
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                timeout=_TIMEOUT_SECONDS,
                check=False,
                cwd=self._document.current_dir,
                env=environment,
            )
