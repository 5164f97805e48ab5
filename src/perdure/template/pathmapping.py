"""Path mapping rules: where a path of the submitting machine lies on this one.

Source: the ``pathmapping-1.0`` document of `openjd run --path-mapping-rules`;
`openjd.sessions.PathMappingRule`, whose `from_dict` takes what `PathMappingRule.to_json` gives.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from perdure.errors import TemplateError, UsageError
from perdure.template.document import read_document

VERSION = "pathmapping-1.0"
_FORMATS = ("POSIX", "WINDOWS", "URI")
_KEYS = ("source_path_format", "source_path", "destination_path")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")


class PathMappingRule(Struct, frozen=True, kw_only=True):
    """Paths below ``source_path`` are found below ``destination_path``."""

    source_path_format: str
    source_path: str
    destination_path: str

    def to_json(self) -> dict[str, str]:
        """A JSON-able value in the document's own form."""
        return {name: getattr(self, name) for name in _KEYS}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The rule that ``data`` describes.

        Raises:
            ValueError: it describes none.
        """
        if not isinstance(data, Mapping) or set(data) != set(_KEYS):
            raise ValueError(f"a rule has just the keys {', '.join(_KEYS)}")
        if not all(isinstance(value, str) and value for value in data.values()):
            raise ValueError("the values of a rule are texts, and not empty")
        form = data["source_path_format"].upper()
        if form not in _FORMATS:
            raise ValueError(f"source_path_format is one of {', '.join(_FORMATS)}")
        if form == "URI" and _URI.match(data["source_path"]) is None:
            raise ValueError("the source_path of a URI rule begins with scheme://")
        return cls(
            source_path_format=form,
            source_path=data["source_path"],
            destination_path=data["destination_path"],
        )


def read_path_mapping(argument: str) -> tuple[PathMappingRule, ...]:
    """The rules in ``file://PATH`` or in the JSON text itself.

    Raises:
        UsageError: it is no such document.
    """
    name, data = "--path-mapping-rules.json", argument.encode("utf-8", "surrogatepass")
    if argument.startswith("file://"):
        path = Path(argument.removeprefix("file://")).expanduser()
        # The format is JSON whatever the file is called; YAML is accepted where it says so.
        name = str(path) if path.suffix.lower() in (".yaml", ".yml") else f"{path}.json"
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise _wrong(f"the file {path} cannot be read: {exc.strerror}") from exc
    try:
        return rules_of(read_document(data, name=name).content)
    except TemplateError as exc:
        raise _wrong(exc.message) from exc


def rules_of(content: Mapping[str, Any]) -> tuple[PathMappingRule, ...]:
    """The rules of a ``pathmapping-1.0`` document that was read already.

    Raises:
        UsageError: it is no such document.
    """
    if content.get("version") != VERSION:
        raise _wrong(f"the version is {content.get('version')!r} and not {VERSION!r}")
    rules = content.get("path_mapping_rules")
    if not isinstance(rules, list):
        raise _wrong("there is no list path_mapping_rules")
    made: list[PathMappingRule] = []
    for number, rule in enumerate(rules, start=1):
        try:
            made.append(PathMappingRule.from_json(rule))
        except ValueError as exc:
            raise _wrong(f"rule {number}: {exc}") from exc
    return tuple(made)


def _wrong(message: str) -> UsageError:
    return UsageError(
        f"path mapping rules: {message}",
        hint=f'Write {{"version": "{VERSION}", "path_mapping_rules": [...]}} or file://PATH.',
    )
