"""``perdure doctor``: whether jobs can run from here, and on a cluster; one line a check."""

import json
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.places import json_option, places, where_options

if TYPE_CHECKING:
    from perdure.cli.findings import Finding

#: So long a probe is waited for by default.
_TIMEOUT_SECONDS = 300.0


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["local", "slurm"]),
    default="local",
    show_default=True,
    help="With slurm: also a probe job of a minute on a node.",
)
@click.option(
    "--slurm",
    multiple=True,
    metavar='"OPTIONS"',
    help='sbatch\'s own options for the probe, such as "-p long".',
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=_TIMEOUT_SECONDS,
    show_default=True,
    metavar="S",
    help="Wait at most so many seconds for the probe.",
)
@json_option
@where_options
def doctor(**given: Any) -> int:
    """Say whether jobs can run here: ok, warning or failed, and what to do; 1 if anything failed.

    A home and a store are made where none are, as the first job would do.
    """
    from perdure.cli.findings import have_failed

    signal.signal(signal.SIGTERM, _leave)
    found: list[Finding] = []
    for finding in _checks(given):
        found.append(finding)
        if not given["as_json"]:
            _show(finding)
    if given["as_json"]:
        print(json.dumps({"engine": given["engine"], "checks": [_json(one) for one in found]}))
    return 1 if have_failed(found) else 0


def _leave(_number: int, _frame: FrameType | None) -> None:
    """As an exception, so that the probe is taken away."""
    sys.exit(128 + signal.SIGTERM)


def _checks(given: dict[str, Any]) -> "Iterator[Finding]":
    from perdure.cli.doctor_here import check_here
    from perdure.cli.job_options import engine_options

    where = places(given["home"], given["store"])
    options = engine_options("slurm", given["slurm"], given["engine"])
    yield from check_here(where)
    if given["engine"] == "slurm":
        from perdure.cli.doctor_slurm import check_slurm

        yield from check_slurm(where, options, given["timeout"])


def _json(finding: "Finding") -> dict[str, str]:
    return {
        "check": finding.check,
        "health": finding.health.value,
        "text": finding.text,
        "advice": finding.advice,
    }


def _show(finding: "Finding") -> None:
    from perdure.cli.tables import plain

    print(f"{finding.health.value:<8} {finding.check}: {plain(finding.text)}", flush=True)
    if finding.advice:
        print(f"{'':<8} {plain(finding.advice)}", flush=True)
