"""``perdure check``, ``summary`` and ``schema``: templates, without running them."""

import json
from pathlib import Path
from typing import Any

import click

from perdure.cli.job_options import PARAMETERS, read_text
from perdure.cli.tables import print_structured
from perdure.errors import UsageError

_OUTPUT = click.option(
    "--output",
    type=click.Choice(["human-readable", "json", "yaml"]),
    default="human-readable",
    help="How the answer is printed.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
_EXTENSIONS = click.option(
    "--extensions", metavar="A,B", help="Extensions that the template may declare."
)


@click.command()
@click.argument("template", type=click.Path(path_type=Path))
@_EXTENSIONS
@_OUTPUT
@_JSON
def check(template: Path, extensions: str | None, output: str, *, as_json: bool) -> int:
    """Say whether TEMPLATE (a job's or an environment's, YAML or JSON) is valid.

    Exits with 0 if it is, with 2 if not: all that is wrong is told at once.
    """
    from perdure.template import check_template, read_document

    document = read_document(read_text(template), name=str(template))
    kind = check_template(document, extensions=_known(extensions))
    said = {"status": "success", "template": str(template), "kind": kind.value}
    _print(said, f"Template at '{template}' passes validation checks.", _form(output, as_json))
    return 0


@click.command()
@click.argument("template", type=click.Path(path_type=Path))
@PARAMETERS
@click.option("--step", metavar="NAME", help="Only this step.")
@_EXTENSIONS
@_OUTPUT
@_JSON
def summary(
    template: Path,
    parameters: tuple[str, ...],
    step: str | None,
    extensions: str | None,
    output: str,
    *,
    as_json: bool,
) -> int:
    """Show TEMPLATE's parameters, steps, tasks and environments."""
    from perdure.template import load_job, parse_parameters, read_document
    from perdure.template.summary import summarize, summarize_step, to_json

    document = read_document(read_text(template), name=str(template))
    job = load_job(
        document,
        parameters=parse_parameters(parameters),
        template_dir=template.absolute().parent,
        current_dir=Path.cwd(),
        extensions=_known(extensions),
    )
    if step is not None and job.step_named(step) is None:
        names = ", ".join(repr(one.name) for one in job.steps)
        raise UsageError(f"the template has no step {step!r}", hint=f"Its steps are {names}.")
    found = summarize(job) if step is None else summarize_step(job, step)
    described = to_json(found)
    _print(described, _readable(described), _form(output, as_json))
    return 0


@click.command()
@click.option(
    "--version",
    "version",
    type=click.Choice(["jobtemplate-2023-09", "environment-2023-09"]),
    default="jobtemplate-2023-09",
    show_default=True,
    help="Of which kind of template.",
)
def schema(version: str) -> int:
    """Print the JSON schema of templates, the CHECKPOINT extension's keys included."""
    from perdure.template import TemplateKind
    from perdure.template import schema as schema_of

    kind = TemplateKind.JOB if version.startswith("job") else TemplateKind.ENVIRONMENT
    click.echo(json.dumps(schema_of(kind), indent=2))
    return 0


def _readable(described: dict[str, Any]) -> str:
    """A summary for people: as YAML, without what is empty."""
    import yaml

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {n: filled(v) for n, v in value.items() if v not in (None, "", [], {})}
        return [filled(one) for one in value] if isinstance(value, list) else value

    return str(yaml.safe_dump(filled(described), sort_keys=False)).rstrip()


def _known(extensions: str | None) -> tuple[str, ...]:
    """The extensions that are allowed: all, or those named.

    Raises:
        UsageError: one is not known.
    """
    from perdure.template import ALL_EXTENSIONS

    if extensions is None:
        return tuple(ALL_EXTENSIONS)
    named = tuple(part.strip() for part in extensions.split(",") if part.strip())
    unknown = [name for name in named if name not in ALL_EXTENSIONS]
    if unknown:
        raise UsageError(
            f"unknown extensions: {', '.join(unknown)}",
            hint=f"Known are {', '.join(ALL_EXTENSIONS)}.",
        )
    return named


def _form(output: str, as_json: bool) -> str:  # noqa: FBT001 - as click gives it
    return "json" if as_json else output


def _print(said: dict[str, Any], text: str, output: str) -> None:
    if output == "human-readable":
        click.echo(text)
    else:
        print_structured(said, output)
