"""Actions: how long one may run and how it is stopped, as written and as carried out.

As written, a timeout or a notice period may be a format string (FEATURE_BUNDLE_1) and a mode may
be decided at run time; that is `Action`. `resolve_action` turns it into `ResolvedAction`, in which
nothing is left open: every default is applied there, once, with its source.

Two intents: *cancel* (stop, abandoning) follows ``cancelation``, *suspend* (stop, keeping progress)
follows ``checkpointCancelation``; an action without it is suspended by its ``cancelation``.

Source: Open Job Description 2023-09 §5 ``<Action>``, §5.3 ``<CancelationMethod>``;
docs/checkpoint-extension.md.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from signal import Signals
from typing import Any, Final, final

from msgspec import Struct

from perdure.errors import Problem, TemplateError
from perdure.template.extensions import DEFAULT_SIGNAL_NAME
from perdure.template.symbols import FormatText, Symbols


class ActionName(Enum):
    """The commands that the specification names."""

    #: a task from its beginning
    ON_RUN = "onRun"
    #: a task from a checkpoint
    ON_CHECKPOINT_RESUME = "onCheckpointResume"
    #: entering an environment
    ON_ENTER = "onEnter"
    #: leaving an environment
    ON_EXIT = "onExit"
    #: instead of an inner environment's onEnter
    ON_WRAP_ENV_ENTER = "onWrapEnvEnter"
    #: instead of a task's onRun or onCheckpointResume
    ON_WRAP_TASK_RUN = "onWrapTaskRun"
    #: instead of an inner environment's onExit
    ON_WRAP_ENV_EXIT = "onWrapEnvExit"

    @property
    def is_task(self) -> bool:
        """Whether this runs a task (and not an environment)."""
        return self in (ActionName.ON_RUN, ActionName.ON_CHECKPOINT_RESUME)


#: ``notifyPeriodInSeconds`` where it is not written: 120 for a task's onRun, 30 for all others
#: (§5.3.2); onCheckpointResume runs a task too.
TASK_NOTIFY_SECONDS: Final = 120
ENVIRONMENT_NOTIFY_SECONDS: Final = 30
#: The same in ``checkpointCancelation``: our decision, docs/checkpoint-extension.md.
SUSPEND_NOTIFY_SECONDS: Final = 120
MAX_NOTIFY_SECONDS: Final = 600
#: A longer timeout (146 years) is none: no clock could be set to it. The library's limit, too.
MAX_TIMEOUT_SECONDS: Final = 2**62 // 10**9


class WrittenCancelation(Struct, frozen=True, kw_only=True):
    """A cancelation as the template has it; ``mode`` may be decided at run time."""

    mode: str | FormatText
    notify_period_seconds: int | FormatText | None = None
    signal_name: str | None = None


class Action(Struct, frozen=True, kw_only=True):
    """An action as the template has it, without its command."""

    name: ActionName
    path: str
    timeout: int | FormatText | None = None
    cancelation: WrittenCancelation | None = None
    checkpoint_cancelation: WrittenCancelation | None = None


@final
class Terminate(Struct, frozen=True, kw_only=True):
    """SIGKILL at once to everything that the action started."""


@final
class NotifyThenTerminate(Struct, frozen=True, kw_only=True):
    """A signal, then at most ``notify_period`` of waiting, then `Terminate`."""

    signal: Signals
    notify_period: timedelta


Cancelation = Terminate | NotifyThenTerminate


class ResolvedAction(Struct, frozen=True, kw_only=True):
    """What is carried out: ``timeout`` (None: as long as it takes), how to cancel and suspend."""

    timeout: timedelta | None
    cancel: Cancelation
    suspend: Cancelation


def resolve_action(action: Action, symbols: Symbols) -> ResolvedAction:
    """Apply defaults and resolve format strings.

    Raises:
        TemplateError: a format string says something that is not allowed there.
    """
    cancel = _cancelation(action, "cancelation", action.cancelation, symbols) or Terminate()
    suspension = action.checkpoint_cancelation
    suspend = _cancelation(action, "checkpointCancelation", suspension, symbols)
    return ResolvedAction(
        timeout=_timeout(action, symbols),
        cancel=cancel,
        suspend=cancel if suspend is None else suspend,
    )


def resolve_wrapped(
    hook: Action, hook_symbols: Symbols, wrapped: Action, symbols: Symbols
) -> ResolvedAction:
    """The same for an action that a wrap environment runs in its own (RFC 0008).

    The hook is what runs: its timeout and cancelation hold, and may forward those of the action
    that it wraps. How to suspend is the wrapped task's to say; where it says nothing, the hook's
    cancelation is followed.
    """
    own = resolve_action(hook, hook_symbols.with_extra(wrapped_values(wrapped, symbols)))
    suspend = _cancelation(
        wrapped, "checkpointCancelation", wrapped.checkpoint_cancelation, symbols
    )
    return ResolvedAction(
        timeout=own.timeout, cancel=own.cancel, suspend=own.cancel if suspend is None else suspend
    )


def wrapped_values(wrapped: Action, symbols: Symbols) -> Mapping[str, Any]:
    """What a hook's timeout and cancelation may say about the action that it wraps."""
    timeout = _whole_seconds(wrapped, "timeout", wrapped.timeout, symbols, most=None)
    method = _cancelation(wrapped, "cancelation", wrapped.cancelation, symbols)
    match method:
        case None:
            mode, period = None, None
        case Terminate():
            mode, period = "TERMINATE", None
        case NotifyThenTerminate(notify_period=length):
            mode, period = "NOTIFY_THEN_TERMINATE", int(length.total_seconds())
    return {
        "WrappedAction.Timeout": timeout,
        "WrappedAction.Cancelation.Mode": mode,
        "WrappedAction.Cancelation.NotifyPeriodInSeconds": period,
    }


def _timeout(action: Action, symbols: Symbols) -> timedelta | None:
    seconds = _whole_seconds(action, "timeout", action.timeout, symbols, most=None)
    if seconds is None or seconds > MAX_TIMEOUT_SECONDS:
        return None
    return timedelta(seconds=seconds)


def _cancelation(
    action: Action, key: str, written: WrittenCancelation | None, symbols: Symbols
) -> Cancelation | None:
    """``written`` as carried out; None: nothing is written, or its mode says null at run time."""
    if written is None:
        return None
    mode = written.mode
    resolved = mode if isinstance(mode, str) else None
    if not _is_plain(mode):
        resolved = _resolved(action, f"{key} -> mode", mode, symbols)
        if resolved is None:
            return None
    period = _whole_seconds(
        action,
        f"{key} -> notifyPeriodInSeconds",
        written.notify_period_seconds,
        symbols,
        most=MAX_NOTIFY_SECONDS,
    )
    match resolved:
        case "NOTIFY_THEN_TERMINATE":
            seconds = _default_period(action, key) if period is None else period
            name = written.signal_name or DEFAULT_SIGNAL_NAME
            return NotifyThenTerminate(
                signal=_signal(name), notify_period=timedelta(seconds=seconds)
            )
        case "TERMINATE" if period is None and written.signal_name is None:
            return Terminate()
        case "TERMINATE":
            extra = "signalToNotify" if period is None else "notifyPeriodInSeconds"
            message = f"the mode is TERMINATE at run time, which has no {extra}"
            raise _wrong(action, f"{key} -> mode", message)
        case _:
            message = f"{resolved!r} is not TERMINATE, NOTIFY_THEN_TERMINATE or null"
            raise _wrong(action, f"{key} -> mode", message)


def _default_period(action: Action, key: str) -> int:
    if key == "checkpointCancelation":
        return SUSPEND_NOTIFY_SECONDS
    return TASK_NOTIFY_SECONDS if action.name.is_task else ENVIRONMENT_NOTIFY_SECONDS


def _signal(name: str) -> Signals:
    """``name`` on this system; Windows knows few, and is always notified by CTRL_BREAK_EVENT."""
    return Signals.__members__.get(name, Signals.SIGTERM)


def _is_plain(text: object) -> bool:
    # The library's format strings are strings, too: with a method that plain ones have not.
    return not hasattr(text, "resolve_value")


def _whole_seconds(
    action: Action,
    place: str,
    written: int | FormatText | None,
    symbols: Symbols,
    *,
    most: int | None,
) -> int | None:
    if written is None or isinstance(written, int):
        return written
    text = _resolved(action, place, written, symbols)
    if text is None:
        return None
    if re.fullmatch(r"\+?[0-9]{1,19}", text) and 1 <= int(text) <= (most or 2**63 - 1):
        return int(text)
    wanted = f"a whole number from 1 to {most}" if most else "a whole number of seconds from 1 up"
    raise _wrong(action, place, f"{text!r} is not {wanted}")


def _resolved(action: Action, place: str, text: Any, symbols: Symbols) -> str | None:
    try:
        return symbols.resolve(text)
    except (ValueError, KeyError) as exc:
        raise _wrong(action, place, f"{str(text)!r} cannot be resolved: {exc}") from exc


def _wrong(action: Action, place: str, message: str) -> TemplateError:
    problem = Problem(path=f"{action.path} -> {place}", message=message)
    return TemplateError(
        str(problem), (problem,), hint="Correct the format string, or the parameter in it."
    )
