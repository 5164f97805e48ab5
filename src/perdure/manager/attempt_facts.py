"""One attempt and its checkpoints, from its claim, its journal and the lineage's log. Pure.

Source: docs/cli.md (the fields), docs/journal-format.md.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from perdure.journal.account import AttemptAccount
from perdure.manager.facts import AttemptFacts, CheckpointFacts
from perdure.policy.outcome import AttemptState
from perdure.policy.resuming import Action
from perdure.store.records.lineage import SHARE, Claim, Lineage, Save

_LOST = "nobody saw it end: its worker or its host was lost"
_NEVER_BEGUN = "its worker left before it began"


class Named(Struct, frozen=True, kw_only=True):
    """How a lineage is called."""

    step: str
    task: str
    key: str


def attempt_facts(
    named: Named,
    claim: Claim,
    account: AttemptAccount,
    lineage: Lineage | None,
    *,
    is_ended: bool,
) -> AttemptFacts | None:
    """The attempt; None for a task of a share that was never begun.

    Args:
        named: its lineage's names.
        claim: by which it was taken.
        account: what counts of its journal about it.
        lineage: None where it has no records.
        is_ended: whether its launch adds nothing more to it.
    """
    begun = account.begun
    if begun is None and claim.number == SHARE:
        return None
    fields = begun or {}
    saves = _saves_of(lineage, claim)
    is_resume = fields.get("action") == Action.RESUME.value
    return AttemptFacts(
        step=named.step,
        task=named.task,
        key=named.key,
        number=claim.attempt,
        action=fields.get("action"),
        host=fields.get("host"),
        started_at=fields.get("at"),
        launch=claim.launch,
        parameters=dict(fields.get("values") or {}),
        resumed_from=claim.base if is_resume else None,
        kept=tuple(sorted(account.kept)),
        notes=tuple(
            {name: str(n.get(name, "")) for name in ("what", "text", "at")} for n in account.notes
        ),
        last_checkpoint_at=_last_checkpoint_at(lineage, claim, saves),
        checkpoints=tuple(checkpoint_facts(save) for save in saves),
        **_end(account, is_ended=is_ended),
    )


def _end(account: AttemptAccount, *, is_ended: bool) -> dict[str, Any]:
    """How it ended, as it was recorded or as its launch's end says."""
    found = account.outcome or {}
    state, reason = found.get("state"), str(found.get("reason", ""))
    if account.outcome is None and is_ended:
        has_begun = account.begun is not None
        state = (AttemptState.LOST if has_begun else AttemptState.NOT_STARTED).value
        reason = _LOST if has_begun else _NEVER_BEGUN
        if account.trouble:
            reason = f"its worker ended of an error: {account.trouble}"
    # Journals of before said `unknown` also of attempts whose program never ran.
    has_run = state != AttemptState.NOT_STARTED.value
    return {
        "ended_at": found.get("at"),
        "outcome": state,
        "by": found.get("by"),
        "cause": found.get("cause"),
        "reason": reason,
        "exit_code": found.get("exit_code"),
        "resume_status": found.get("resume_status") if has_run else None,
        "saves": dict(found.get("saves") or {}),
        "save_seconds": found.get("save_seconds"),
        "progress": found.get("progress"),
        "status": found.get("status"),
    }


def _saves_of(lineage: Lineage | None, claim: Claim) -> tuple[Save, ...]:
    if lineage is None:
        return ()
    return tuple(save for save in lineage.saves if save.claim == claim.number)


def _last_checkpoint_at(
    lineage: Lineage | None, claim: Claim, saves: tuple[Save, ...]
) -> str | None:
    """When the newest checkpoint that holds its work was committed."""
    newest = saves[-1] if saves else None
    if newest is None and lineage is not None and claim.base is not None:
        newest = lineage.save(claim.base)
    return str(newest.header.get("at", "")) if newest is not None else None


def checkpoint_facts(save: Save) -> CheckpointFacts:
    """A checkpoint, from its record's header alone."""
    header = save.header
    return CheckpointFacts(
        sequence=save.number,
        committed_at=str(header.get("at", "")),
        tier="durable",
        size_bytes=int(header.get("size", 0)),
        new_bytes=int(header.get("new", 0)),
        state=header.get("state"),
        file=_shown_file(header),
        files=int(header.get("files", 0)),
        content=save.content,
        attempt=int(header.get("attempt", 0)),
        save=int(header.get("save", 0)),
        parent=save.parent,
        void=save.is_void,
        pruned=save.is_pruned,
        pinned=save.is_pinned,
        support=bool(header.get("support") or header.get("end")),
        imported=bool(header.get("imported", False)),
    )


def _shown_file(header: Mapping[str, Any]) -> str | None:
    """The save's file as people see it: absolute, or relative to the session folder."""
    file = header.get("file")
    if not isinstance(file, dict):
        return None
    roots = header.get("roots", ())
    root = roots[file["root"]] if 0 <= int(file["root"]) < len(roots) else {}
    path = str(file["path"])
    return (
        path if root.get("kind") == "session" else f"{str(root.get('path', '')).rstrip('/')}/{path}"
    )
