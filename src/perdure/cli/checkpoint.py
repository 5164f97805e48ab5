"""``perdure checkpoint``: look into one checkpoint, take its files out, keep it, move it.

A checkpoint is called ``JOB/TASK@N``, like ``last/Render[Frame=12]@7``; without ``@N`` it is the
one that the task's next attempt starts from.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import json_option, places, where_options
from perdure.cli.pointing import pointed
from perdure.cli.tables import console, moment, plain, show_table
from perdure.sizes import size_text as size

if TYPE_CHECKING:
    from perdure.cli.checkpoint_naming import NamedCheckpoint
    from perdure.store.manifests.manifest import Entry, Manifest

_TYPES = {"f": "file", "d": "folder", "l": "link", "a": "absent"}
_KEPT = {"": "bytes", "i": "input", "r": "record", "a": "adopted"}
#: A damaged checkpoint cannot be used: the exit code of `CheckpointError`.
_DAMAGED_EXIT = 3


@click.group()
def checkpoint() -> None:
    """Look into one checkpoint, take its files out, pin it, export it.

    A checkpoint is called JOB/TASK@N: last/Render[Frame=12]@7.
    """


def _command(
    *options: Callable[[Any], Any],
) -> Callable[[Callable[..., int]], click.Command]:
    """A command about one checkpoint."""

    def decorate(function: Callable[..., int]) -> click.Command:
        decorated: Any = where_options(function)
        for option in reversed((click.argument("name", metavar="JOB/TASK@N"), *options)):
            decorated = option(decorated)
        command: click.Command = checkpoint.command()(decorated)
        return command

    return decorate


def _named(given: dict[str, Any], *, write: bool = False) -> "NamedCheckpoint":
    from perdure.cli.checkpoint_naming import named_checkpoint

    return named_checkpoint(places(given["home"], given["store"]), given["name"], write=write)


@contextmanager
def _being_read(found: "NamedCheckpoint") -> Iterator[None]:
    """Inside, the checkpoint's bytes are read: what a prune took away meanwhile is no damage.

    Raises:
        CheckpointMissing: it was pruned.
    """
    from perdure.errors import CheckpointCorrupt

    try:
        yield
    except CheckpointCorrupt:
        _look_again(found)
        raise


def _look_again(found: "NamedCheckpoint") -> None:
    """Refuse a checkpoint that was pruned since it was found."""
    from perdure.errors import CheckpointMissing

    number, log = found.save.number, found.at.stored.log
    if any(e.kind == "prune" and number in e.header.get("saves", ()) for e in log.read()):
        raise CheckpointMissing(
            f"{found.label} was pruned while it was being read",
            hint="Pin it before: perdure checkpoint pin JOB/TASK@N",
        )


def _described(found: "NamedCheckpoint") -> dict[str, Any]:
    from perdure.manager.attempt_facts import checkpoint_facts
    from perdure.manager.lineages import next_base

    return {
        "name": found.label,
        "job": found.at.document.job,
        "step": found.at.task.step.step.name,
        "task": found.at.stored.label,
        "key": found.at.stored.task,
        "point": found.save.number == next_base(found.at.view, found.at.stored),
        **to_builtins(checkpoint_facts(found.save)),
    }


@_command(json_option)
def show(**given: Any) -> int:
    """Show what is known about a checkpoint, its state whole."""
    found = _named(given)
    described = _described(found)
    if given["as_json"]:
        print(json.dumps(described))
        return 0
    lines = {
        "Checkpoint": found.label,
        "Committed": moment(described["committed_at"]),
        "By": "import" if described["imported"] else f"attempt {described['attempt']}",
        "Size": f"{size(described['size_bytes'])} in {described['files']} entries,"
        f" {size(described['new_bytes'])} of them stored for it",
        "File": described["file"] or "none",
        "Content": described["content"],
        "Is": ", ".join(_is(described)),
    }
    for head, text in lines.items():
        print(f"{head + ':':12}{plain(text)}")
    state = described["state"]
    print("State:      none" if state is None else f"State:\n{_shown_state(state)}")
    return 0


def _is(described: dict[str, Any]) -> list[str]:
    marks = {
        "what the next attempt starts from": described["point"],
        "pinned": described["pinned"],
        "of a side branch": described["void"],
        "perdure's own, with the files of finished work": described["support"],
    }
    return [name for name, holds in marks.items() if holds] or ["kept by the retention rules"]


def _shown_state(state: str) -> str:
    return "\n".join(plain(line) for line in state.split("\n"))


@_command(json_option)
def files(**given: Any) -> int:
    """List the files of a checkpoint."""
    found = _named(given)
    rows = [_entry_json(found.manifest, entry) for entry in found.manifest.entries]
    if given["as_json"]:
        print(json.dumps({"name": found.label, "files": rows}))
        return 0
    show_table(
        console(),
        ("TYPE", "KEPT", "MODE", "SIZE", "PATH"),
        [
            (
                row["type"],
                row["kept"],
                f"{row['mode']:04o}",
                size(row["size_bytes"]),
                plain(row["path"] + (f" -> {row['target']}" if row["target"] else "")),
            )
            for row in rows
        ],
        right=("SIZE",),
    )
    return 0


def _entry_json(manifest: "Manifest", entry: "Entry") -> dict[str, Any]:
    from perdure.store.manifests.manifest import RootKind

    is_outside = manifest.roots[entry.root].kind is RootKind.OUTSIDE
    return {
        "path": _text(manifest.shown_path(entry)),
        "where": "outside" if is_outside else "session",
        "type": _TYPES[entry.type.value],
        "kept": _KEPT[entry.kept.value],
        "mode": entry.mode,
        "size_bytes": entry.size,
        "digest": entry.digest.hex() or None,
        "target": _text(entry.target) or None,
    }


def _text(name: str) -> str:
    """A file's name as text that can be printed, whatever its bytes are."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


@_command(click.argument("other", required=False, metavar="[@M|JOB/TASK@M]"), json_option)
def diff(**given: Any) -> int:
    """Say what changed from an older checkpoint: another one named, or the one before."""
    from perdure.cli.checkpoint_naming import NamedCheckpoint, named_checkpoint
    from perdure.errors import CheckpointMissing

    found = _named(given)
    other = given["other"]
    if other is None or other.startswith("@"):
        number = found.save.parent if other is None else _number(other)
        if number is None:
            raise CheckpointMissing(
                f"{found.label} was saved on top of no other checkpoint",
                hint="Name the one to compare with.",
            )
        save = found.at.stored.save(number)
        before = NamedCheckpoint(at=found.at, save=save, manifest=found.at.stored.manifest(save))
    else:
        before = named_checkpoint(places(given["home"], given["store"]), other)
    changes = _changes(before.manifest, found.manifest)
    is_state_equal = before.manifest.state == found.manifest.state
    if given["as_json"]:
        described = {"before": before.label, "after": found.label, "state_changed": False}
        described |= {"state_changed": not is_state_equal, "files": changes}
        print(json.dumps(described))
        return 0
    for change in changes:
        print(f"{change['change']:8} {plain(change['path'])}")
    if not is_state_equal:
        print("changed  the state")
    if is_state_equal and not changes:
        print("Nothing changed.")
    return 0


def _number(text: str) -> int | None:
    from perdure.errors import UsageError

    if not text[1:].isdigit():
        raise UsageError(f"{text!r} is no checkpoint's number", hint="Write it like @7.")
    return int(text[1:])


def _changes(before: "Manifest", after: "Manifest") -> list[dict[str, Any]]:
    """What is new, gone, or another."""
    old = {before.shown_path(entry): _content(entry) for entry in before.entries}
    new = {after.shown_path(entry): _content(entry) for entry in after.entries}
    found: list[dict[str, Any]] = []
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) == new.get(path):
            continue
        change = "added" if path not in old else "removed" if path not in new else "changed"
        found.append({"change": change, "path": _text(path)})
    return found


def _content(entry: "Entry") -> tuple[Any, ...]:
    return (entry.type, entry.size, entry.digest, entry.target, entry.mode)


@_command(
    click.option("--to", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR"),
    json_option,
)
def restore(**given: Any) -> int:
    """Write the files of a checkpoint into a new or empty folder, verified; print its state.

    What the task had in its session folder lies at the top, what it had elsewhere below outside/.
    """
    from perdure.cli.keys import sealing_of
    from perdure.manager.native_files import native_files
    from perdure.store.files.roots import Roots
    from perdure.store.restore.left_files import copy_adopted
    from perdure.store.restore.planning import RestoreRequest
    from perdure.store.restore.restore import restore as put_back

    found = _named(given)
    folder: Path = given["folder"].absolute()
    found.at.looked.places.check_outside_store(folder, called="--to")
    _make_empty(folder)
    native = native_files(found.manifest)
    sealing = sealing_of(found.at.document)
    with _being_read(found):
        restored = put_back(
            RestoreRequest(
                driver=found.at.looked.store.driver,
                packs=found.at.stored.packs,
                manifest=native.manifest,
                name=found.label,
                roots=Roots(folder),
                sealing=sealing,
            )
        )
        for entry, path in native.adopted:
            copy_adopted(found.manifest, entry, folder / path, sealing)
    file = str(folder / native.file) if native.file is not None else None
    notes = [*native.left_out, *restored.notes]
    if given["as_json"]:
        described = {"name": found.label, "folder": str(folder), "file": file}
        print(json.dumps({**described, "state": restored.state, "notes": notes}))
        return 0
    click.echo(f"{found.label} is in {folder}", err=True)
    for note in notes:
        click.echo(f"  {plain(note)}", err=True)
    if file is not None:
        click.echo(f"Its file: {file}", err=True)
    if restored.state is not None:
        click.echo("Its state:", err=True)
        print(restored.state)
    return 0


def _make_empty(folder: Path) -> None:
    """Make the folder, or refuse one in which something lies but what a killed restore left."""
    from perdure.errors import HomeError, UsageError
    from perdure.store.files.gathering import is_staged_name

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = all(is_staged_name(path.name) for path in folder.iterdir())
    except OSError as error:
        raise HomeError(f"cannot write to {folder}: {error.strerror}") from error
    if not is_empty:
        raise UsageError(
            f"{folder} is not empty: nothing of yours is to be overwritten",
            hint="Name a new or empty folder.",
        )


@_command(json_option)
def verify(**given: Any) -> int:
    """Read all of a checkpoint back and check it; exit with 3 if it is damaged."""
    from perdure.cli.keys import sealing_of
    from perdure.store.packs.sealing import check_key
    from perdure.store.restore.verify import verify_checkpoint

    found = _named(given)
    driver = found.at.looked.store.driver
    sealing = sealing_of(found.at.document)
    check_key(sealing, found.manifest, found.label)
    damages = verify_checkpoint(driver, found.at.stored.packs, found.manifest, sealing)
    if damages:
        _look_again(found)
    if given["as_json"]:
        print(json.dumps({"name": found.label, "damaged": to_builtins(damages)}))
    elif not damages:
        print(f"{found.label}: all {size(found.manifest.size_bytes)} are what was saved")
    else:
        are = "file is" if len(damages) == 1 else "files are"
        print(f"{found.label}: {len(damages)} {are} damaged")
        for damage in damages:
            print(f"  {plain(damage.path)}: {plain(damage.reason)}")
    return _DAMAGED_EXIT if damages else 0


@_command(json_option)
def pin(**given: Any) -> int:
    """Keep a checkpoint for ever: it is never pruned."""
    return _pin("pin", given)


@_command(json_option)
def unpin(**given: Any) -> int:
    """Let a checkpoint be pruned again."""
    return _pin("unpin", given)


def _pin(kind: str, given: dict[str, Any]) -> int:
    from perdure.cli.checkpoint_naming import named_checkpoint
    from perdure.store.records.log import Entry as LogEntry

    where = places(given["home"], given["store"])
    while True:
        # Refused: somebody added a record; it may be the prune of this very checkpoint.
        found = named_checkpoint(where, given["name"], write=True)
        is_new = found.save.is_pinned != (kind == "pin")
        record = {"kind": kind, "save": found.save.number, "by": "user"}
        if not is_new or isinstance(found.at.stored.log.append(record), LogEntry):
            break
    if given["as_json"]:
        print(json.dumps({"name": found.label, "pinned": kind == "pin", "changed": is_new}))
    else:
        print(f"{found.label} is {'pinned' if kind == 'pin' else 'not pinned'}")
    return 0


@_command(click.argument("file", type=click.Path(path_type=Path)), json_option)
def export(**given: Any) -> int:
    """Write a checkpoint as one portable FILE: a plain tar, readable without perdure."""
    from perdure.cli.keys import sealing_of
    from perdure.manager.exporting import Export
    from perdure.manager.exporting import export as write
    from perdure.manager.native_files import not_importable

    found = _named(given)
    found.at.looked.places.check_outside_store(given["file"].absolute(), called="the file")
    key = found.at.stored.log.key(found.save.number)
    described = _described(found)
    about = {name: described[name] for name in _ABOUT}
    about["parameters"] = dict(found.at.task.step.texts(found.at.task.ref))
    sealing = sealing_of(found.at.document)
    with _being_read(found):
        written = write(
            Export(
                driver=found.at.looked.store.driver,
                packs=found.at.stored.packs,
                manifest=found.manifest,
                record=found.at.looked.store.driver.get(key),
                about={**about, "job_name": found.at.document.name},
                sealing=sealing,
                name=found.label,
            ),
            given["file"],
        )
    notes = [*_PLAIN_NOTE] if sealing.key_id else []
    notes += not_importable(found.manifest)
    if given["as_json"]:
        described = {"name": found.label, "file": str(given["file"]), "size_bytes": written}
        print(json.dumps({**described, "notes": notes}))
    else:
        print(f"{found.label} is in {given['file']} ({size(written)})")
        for note in notes:
            click.echo(f"  {plain(note)}", err=True)
    return 0


_PLAIN_NOTE = ("it is not encrypted there: whoever can read the file can read the checkpoint",)
_ABOUT = ("job", "step", "task", "key", "sequence", "committed_at", "content", "state", "file")


@checkpoint.command("import")
@click.argument("name", metavar="JOB/TASK")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@where_options
def import_(**given: Any) -> int:
    """Let a task go on from the checkpoint in FILE; only files of its session folder are taken."""
    from perdure.cli.checkpoint_naming import named_task
    from perdure.cli.keys import given_key, sealing_of
    from perdure.manager.importing import import_checkpoint

    at = named_task(places(given["home"], given["store"]), given["name"], write=True)
    sealing = sealing_of(at.document)
    done = import_checkpoint(
        at.view, at.task.step, at.task.ref, given["file"], sealing, given_key()
    )
    label = f"{at.document.job}/{at.stored.label}@{done.sequence}"
    if given["as_json"]:
        described = {"name": label, "sequence": done.sequence, "left_out": list(done.left_out)}
        print(json.dumps({**described, "given_back": list(done.given_back)}))
        return 0
    print(
        pointed(f"{label} is what the next attempt starts from: perdure resume {at.document.job}")
    )
    for line in done.left_out:
        click.echo(f"  not taken: {plain(line)}", err=True)
    if done.given_back:
        values = ", ".join(str(value) for value in done.given_back)
        click.echo(f"  these values were complete and run again: {values}", err=True)
    return 0


@checkpoint.command()
@click.argument("job")
@click.option("--step", metavar="S", help="Only this step.")
@click.option("--task", metavar="T", help="Only this task: Step[Frame=12], or its key.")
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Wait so many seconds for the saves.",
)
@json_option
@where_options
def save(**given: Any) -> int:
    """Ask what runs of JOB to save now and go on; wait until it has.

    A program is asked by the job's --save-signal if it catches it; else its next own save counts.
    """
    from perdure.cli.jobs import open_job
    from perdure.cli.naming import scope_of
    from perdure.errors import CheckpointMissing, UsageError
    from perdure.manager.asking import ask, at_work, wait_for_saves
    from perdure.policy.stops import Scope

    opened = open_job(places(given["home"], given["store"]), given["job"], write=True)
    view = opened.view
    scope = Scope.of(scope_of(view, given["step"], given["task"]))
    before = at_work(view, scope)
    if not before:
        raise UsageError(
            f"nothing of job {view.document.job} is at work", hint="There is nothing to save."
        )
    if view.records.state.is_asking_disabled:
        raise UsageError(
            f"checkpoints of job {view.document.job} are disabled",
            hint="perdure scontrol checkpoint enable ID allows them again.",
        )
    ask(view, "save", scope)
    left = wait_for_saves(view, before, given["seconds"])
    saved = len(before) - len(left)
    if given["as_json"]:
        print(json.dumps({"job": view.document.job, "saved": saved, "asked": len(before)}))
    if left:
        raise CheckpointMissing(
            f"{len(left)} of {len(before)} tasks did not save within {given['seconds']:g} s",
            hint=f"They may yet. See: perdure checkpoints {view.document.job}",
        )
    if not given["as_json"]:
        print(pointed(f"saved; see: perdure checkpoints {view.document.job}"))
    return 0
