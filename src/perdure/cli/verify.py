"""``perdure verify``: everything of a store, or a part of it, is read back and checked."""

import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import json_option, places, where_options
from perdure.cli.pointing import pointed
from perdure.cli.tables import plain
from perdure.sizes import size_text as size

if TYPE_CHECKING:
    from perdure.cli.looking import Looked
    from perdure.manager.checking import Checked, Finding
    from perdure.policy.sampling import Subset
    from perdure.store.layout import JobId

_DAMAGED_EXIT = 8


@click.command()
@click.argument("job", required=False)
@click.option(
    "--read-data-subset",
    "subset",
    metavar="N%|SIZE",
    help="All records, and of the checkpoints' blocks a random part: 10%, 5G.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the random part: reads it once more.")
@json_option
@where_options
def verify(**given: Any) -> int:
    """Read everything of all jobs, or of JOB, back and check it; exit with 8 if it is damaged."""
    from perdure.cli.keys import sealing_of_job
    from perdure.cli.looking import look_into
    from perdure.manager.checking import Checked, Depth, check_job

    subset = _subset(given["subset"], given["seed"])
    looked = look_into(places(given["home"], given["store"]))
    driver, checked = looked.store.driver, Checked()
    jobs = _jobs_meant(looked, given["job"])
    part = None if subset is None else _part(looked, jobs, subset)
    findings = [
        finding
        for job in jobs
        for finding in check_job(
            driver,
            job,
            checked,
            Depth(subset=part, sealing=sealing_of_job(driver, job)),
        )
    ]
    if given["as_json"]:
        seed = subset.seed if subset is not None else None
        described = {**to_builtins(checked), "subset": given["subset"], "seed": seed}
        print(json.dumps({**described, "damaged": to_builtins(findings)}))
    else:
        _show_checked(checked, subset, findings)
    return _DAMAGED_EXIT if findings else 0


def _show_checked(
    checked: "Checked", subset: "Subset | None", findings: "Sequence[Finding]"
) -> None:
    read = "" if subset is None else f"{size(checked.read_bytes)} of the blocks of "
    print(
        f"Read {checked.records} records, {checked.journals} journals and"
        f" {read}{checked.checkpoints} checkpoints of {size(checked.size_bytes)}."
    )
    if checked.recorded_bytes:
        print(
            f"{size(checked.recorded_bytes)} of them are not in the store and were not read: they"
            " are only recorded (--files shared)."
        )
    if subset is not None:
        print(f"The same part is read again with --seed {subset.seed}.")
    if checked.locked:
        print(
            f"The bytes of {checked.locked} checkpoints were not read: they are encrypted with a"
            " key that is not here (PERDURE_KEY_FILE)."
        )
    for finding in findings:
        print(f"  {finding.key}: {plain(finding.reason)}")
    if findings:
        print(pointed(_advice(findings)))
    elif checked.locked:
        print("All that was read is what was written.")
    else:
        print(f"All of {'it' if subset is None else 'that part'} is what was written.")


def _advice(findings: "Sequence[Finding]") -> str:
    """What to do next: not what cannot help."""
    if any(finding.kind in ("record", "missing") for finding in findings):
        return "Run: perdure repair"
    return (
        "perdure repair cannot mend that: a task goes on from its newest whole checkpoint, and does"
        " again what lies behind it"
    )


def _subset(text: str | None, seed: int | None) -> "Subset | None":
    """``10%`` or ``5G``, with a seed that is drawn where none was given."""
    from perdure.cli.job_options import size_bytes
    from perdure.errors import UsageError
    from perdure.policy.sampling import Subset

    if text is None:
        if seed is not None:
            raise UsageError("--seed needs --read-data-subset")
        return None
    chosen = secrets.randbits(32) if seed is None else seed
    if text.strip().isdecimal():
        raise UsageError(
            f"--read-data-subset {text}: of the whole, or bytes?",
            hint="Write {0}% for a part, or {0}M or {0}G for a size.".format(text.strip()),
        )
    if not text.endswith("%"):
        return Subset(size_bytes=size_bytes(text, of="--read-data-subset"), seed=chosen)
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(
            f"--read-data-subset {text} is no part of a whole",
            hint="Write it like 10%, or like 5G.",
        )
    return Subset(part=part, seed=chosen)


def _part(looked: "Looked", jobs: "Sequence[JobId]", subset: "Subset") -> "Subset":
    """The subset as a part of what is stored."""
    from perdure.manager.checking import stored_bytes

    if subset.part is not None:
        return subset
    return subset.of(sum(stored_bytes(looked.store.driver, job) for job in jobs))


def _jobs_meant(looked: "Looked", name: str | None) -> "tuple[JobId, ...]":
    """The job that is named; without a name all, also those whose record cannot be read."""
    from perdure.manager.stored_jobs import all_job_ids
    from perdure.store.layout import JobId, is_ulid

    if name is None:
        return all_job_ids(looked.store.driver)
    if is_ulid(name) and JobId(name) in all_job_ids(looked.store.driver):
        return (JobId(name),)
    return (looked.job(name).job,)
