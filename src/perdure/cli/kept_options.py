"""A job keeps the options that it was submitted with: what a later line asks otherwise is said.

Source: docs/cli.md, `perdure run`.
"""

import shlex
from collections.abc import Iterator, Mapping

from perdure.cli.pointing import pointed
from perdure.policy.memory_growth import MemoryGrowth
from perdure.sizes import size_text
from perdure.store.records.job_document import JobDocument, Options

#: How options are written whose fields have another name.
_WRITTEN = {
    "allow_roots": "--allow-root",
    "hooks": "--on",
    "image_dir": "--checkpoint-dir",
    "key_file": "--encrypt",
    "keep_age_seconds": "--keep-age",
    "keep_size_bytes": "--keep-size",
    "limits": "--limit",
    "log_limit_bytes": "--log-limit",
    "max_pack_age_seconds": "--max-pack-age",
    "save_every_seconds": "--save-every",
    "step_limits": "--limit",
    "temporary_dir": "--sessions-dir",
}
#: Options whose values are words of a line.
_LINES = frozenset({"slurm", "lsf", "restart_args", "restart_cmd"})
#: What a resume may say anew, and what follows from another option.
_NOT_KEPT = frozenset({"on_conflict", "key_id"})


def kept_options(given: JobDocument, kept: JobDocument) -> Iterator[str]:
    """What people should know of options that have no effect; nothing where there are none."""
    differing = list(_differing(given, kept))
    if not differing:
        return
    yield f"job {kept.job} keeps the options that it was submitted with: {'; '.join(differing)}"
    cancel = pointed(f"perdure cancel {kept.job}")
    other = "with another --key" if kept.key is not None else "with a --key of its own"
    again = "the same line with --again" if kept.key is not None else "the same line"
    yield (
        f"for a job with the new ones: {cancel} (which abandons its progress), then {again};"
        f" or leave it and give the line {other}"
    )


def _differing(given: JobDocument, kept: JobDocument) -> Iterator[str]:
    if given.name != kept.name:
        yield _sentence("--name", given.name, kept.name)
    if given.path_mapping != kept.path_mapping:
        yield "--path-mapping-rules has other rules now"
    for name in Options.__struct_fields__:
        one, other = getattr(given.options, name), getattr(kept.options, name)
        if name not in _NOT_KEPT and one != other:
            option = _WRITTEN.get(name, f"--{name.replace('_', '-')}")
            yield _sentence(option, _text(name, one), _text(name, other))


def _sentence(option: str, given: str, kept: str) -> str:
    return f"{option} stays {kept} (given now: {given})"


def _text(field: str, value: object) -> str:
    """A value as people write it."""
    match value:
        case None | () | "":
            return "nothing"
        case bool():
            return "on" if value else "off"
        case int() if field.endswith("_bytes"):
            return size_text(value)
        case int() | float() if field.endswith("_seconds"):
            return f"{value:g} s"
        case tuple() if field in _LINES:
            return shlex.join(value)
        case tuple():
            return ", ".join(str(one) for one in value)
        case MemoryGrowth():
            return f"{value.factor:g}:{value.most_mib}M"
        case Mapping():
            return _pairs(value) or "nothing"
        case _:
            return str(value)


def _pairs(value: Mapping[str, object]) -> str:
    """As ``--limit`` writes them: ``NAME=NUMBER``, ``STEP:NAME=NUMBER``."""
    return ", ".join(
        f"{name}{':' if isinstance(one, Mapping) else '='}{_text(name, one)}"
        for name, one in value.items()
    )
