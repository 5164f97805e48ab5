"""Parameter values as people give them on a command line, as texts by name.

``-p`` takes ``NAME=VALUE``, ``file://PATH`` (YAML or JSON) or ``'{"NAME": "VALUE"}'``; several are
combined in their order. Task parameters have the same forms in ``--task-param`` and ``--tasks``.
A job keeps texts only: numbers and lists in a file become the text that stands for them.

Source: openjd-cli 0.8 ``openjd run``, whose meaning is kept.
"""

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from perdure.errors import TemplateError, UsageError
from perdure.template.document import read_document

_FORMS = 'Write NAME=VALUE, file://PATH (a YAML or JSON file), or \'{"NAME": "VALUE"}\'.'


def parse_parameters(arguments: Iterable[str]) -> dict[str, str]:
    """The values that ``-p`` arguments give, the later ones winning.

    Raises:
        UsageError: an argument is in none of the forms, or its file cannot be read.
    """
    values: dict[str, str] = {}
    for argument in arguments:
        values.update(_one_argument(argument.strip()))
    return values


def parse_task_parameters(arguments: Iterable[str]) -> dict[str, str]:
    """The values of one task, from ``NAME=VALUE`` arguments.

    Raises:
        UsageError: an argument is something else, or a name is given twice.
    """
    values: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.lstrip().partition("=")
        if not name or not equals or not value:
            raise UsageError(f"{argument!r} is no task parameter", hint="Write NAME=VALUE.")
        if name in values:
            raise UsageError(
                f"the task parameter {name} is given more than once", hint="Give each once."
            )
        values[name] = value
    return values


def parse_tasks(argument: str) -> tuple[dict[str, str], ...]:
    """The tasks in ``file://PATH`` or ``'[{"NAME": "VALUE"}, …]'``.

    Raises:
        UsageError: it is something else.
    """
    form = "Write a list of objects, NAME to VALUE, inline or in a file given as file://PATH."
    text = argument.strip()
    if text.startswith("file://"):
        path = _path(text)
        rows = _wrapped_list(path)
    else:
        try:
            rows = json.loads(text)
        except ValueError as exc:
            raise UsageError(f"{argument[:80]!r} is no JSON: {exc}", hint=form) from exc
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError("the tasks are no list of objects", hint=form)
    return tuple({str(name): value_text(value) for name, value in row.items()} for row in rows)


def value_text(value: Any) -> str:
    """The text that stands for a value of a YAML or JSON file.

    Raises:
        UsageError: there is none: null, or an object.
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return str(value)
        case list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            shown = json.dumps(value, ensure_ascii=False)[:60]
            raise UsageError(
                f"{shown} is no parameter value", hint="Write a text, a number or a list."
            )


def _one_argument(argument: str) -> Mapping[str, str]:
    if argument.startswith("file://"):
        return _texts(_read_mapping(_path(argument)))
    if argument.startswith("{") and argument.endswith("}"):
        try:
            document = read_document(argument.encode("utf-8", "surrogatepass"), name="-p.json")
        except TemplateError as exc:
            raise UsageError(f"-p {argument[:60]!r}: {exc.message}", hint=_FORMS) from exc
        return _texts(document.content)
    match = re.fullmatch(r"([^=]+)=(.*)", argument, re.DOTALL)
    if match is None:
        raise UsageError(f"-p {argument[:60]!r} is no job parameter", hint=_FORMS)
    return {match[1]: match[2]}


def _texts(content: Mapping[str, Any]) -> dict[str, str]:
    return {name: value_text(value) for name, value in content.items()}


def _path(argument: str) -> Path:
    return Path(argument.removeprefix("file://")).expanduser()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise UsageError(
            f"the file {path} cannot be read: {exc.strerror}", hint="Give the path of a file."
        ) from exc


def _read_mapping(path: Path) -> Mapping[str, Any]:
    try:
        return read_document(_read(path), name=str(path)).content
    except TemplateError as exc:
        raise UsageError(exc.message, hint="A parameter file maps names to values.") from exc


def _wrapped_list(path: Path) -> Any:
    """The list in a file: read as the one value of a document, so that the same limits hold."""
    data = _read(path)
    if path.suffix.lower() == ".json":
        wrapped = b'{"tasks": ' + data + b"}"
    else:
        wrapped = b"tasks:\n" + b"".join(b"  " + line for line in data.splitlines(keepends=True))
    try:
        return read_document(wrapped, name=str(path)).content["tasks"]
    except (TemplateError, KeyError) as exc:
        raise UsageError(
            f"{path} is no list of tasks: {exc}", hint="Write a list of objects, NAME to VALUE."
        ) from exc
