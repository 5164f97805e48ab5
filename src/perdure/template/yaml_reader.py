"""YAML text as document events.

The same YAML as `openjd run` reads (PyYAML's safe loader, YAML 1.1), but streamed: libyaml parses,
values are resolved one at a time, and nothing is expanded or built here. What the safe loader would
turn into a date, a set, bytes or a number that JSON has not is refused with its line.

Source: YAML 1.1 types (https://yaml.org/type/); PyYAML's Resolver and SafeConstructor.
"""

import math
from collections.abc import Iterator
from typing import Any

import yaml

from perdure.template.document_events import (
    Alias,
    Closed,
    DocumentSyntaxError,
    Event,
    Opened,
    Refused,
    Scalar,
)

_TAG = "tag:yaml.org,2002:"
_NO_VALUES: dict[str, tuple[str, str]] = {
    "timestamp": ("is a date or time, which a template cannot hold", "Put it in quotes."),
    "value": ("is YAML's default-value sign, which a template cannot hold", "Put it in quotes."),
    "merge": ("is YAML's merge sign, which is a key only", "Put it in quotes."),
    "binary": ("is binary data, which a template cannot hold", "Write it as text."),
}


def yaml_events(text: str) -> Iterator[Event]:
    """The events of the one document in ``text``; nothing for an empty one.

    Raises:
        DocumentSyntaxError: from the place on where the text is not YAML.
    """
    loader = _loader(text)
    values = _Values()
    documents = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise DocumentSyntaxError(
                        "a second document begins here, and a template is one document",
                        _line(event),
                    )
            else:
                yield from _translate(event, values)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise DocumentSyntaxError(
            f"not valid YAML: {exc.problem or exc.context}", mark.line + 1 if mark else None
        ) from exc
    except (yaml.YAMLError, ValueError) as exc:
        if isinstance(exc, DocumentSyntaxError):
            raise
        raise DocumentSyntaxError(f"not valid YAML: {_first_line(exc)}", None) from exc


def _loader(text: str) -> Any:
    # libyaml where PyYAML was built with it: ten times faster, the same events.
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)


def _translate(event: yaml.Event, values: "_Values") -> Iterator[Event]:
    match event:
        case yaml.ScalarEvent():
            yield values.scalar(event)
        case yaml.AliasEvent():
            yield Alias(anchor=str(event.anchor), line=_line(event))
        case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            plain = _TAG + ("map" if is_mapping else "seq")
            if event.tag not in (None, "!", plain):
                yield Refused(
                    line=_line(event),
                    message=f"the YAML tag {event.tag} is not for templates",
                    advice="Remove the tag.",
                    is_value=False,
                )
            yield Opened(is_mapping=is_mapping, line=_line(event), anchor=event.anchor)
        case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
            yield Closed()
        case _:
            return


class _Values:
    """Turns scalar events into values as PyYAML's safe loader does."""

    def __init__(self) -> None:
        self._resolver = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()

    def scalar(self, event: yaml.ScalarEvent) -> Event:
        """The event's value, or why a template cannot hold it."""
        line, text = _line(event), str(event.value)
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(  # type: ignore[no-untyped-call]
                yaml.ScalarNode, event.value, event.implicit
            )
        kind = tag.removeprefix(_TAG)
        if kind == "merge":
            return Scalar(value="<<", line=line, anchor=event.anchor, is_merge=True)
        if kind == "str":
            return Scalar(value=text, line=line, anchor=event.anchor)
        if kind in _NO_VALUES:
            reason, advice = _NO_VALUES[kind]
            return _refused(event, f"{_shown(text)} {reason}", advice)
        construct = {
            "null": self._constructor.construct_yaml_null,
            "bool": self._constructor.construct_yaml_bool,
            "int": self._constructor.construct_yaml_int,
            "float": self._constructor.construct_yaml_float,
        }.get(kind)
        if construct is None:
            return _refused(event, f"the YAML tag {tag} is not for templates", "Remove the tag.")
        try:
            value = construct(yaml.ScalarNode(tag, event.value))
        except (ValueError, LookupError, OverflowError, yaml.YAMLError):
            return _refused(event, f"{_shown(text)} is no {kind}", "Put it in quotes.")
        if isinstance(value, float) and not math.isfinite(value):
            return _refused(
                event, f"{_shown(text)} is not a finite number", "Write a finite number."
            )
        return Scalar(value=value, line=line, anchor=event.anchor)


def _refused(event: yaml.ScalarEvent, message: str, advice: str) -> Refused:
    return Refused(line=_line(event), message=message, advice=advice, anchor=event.anchor)


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return int(mark.line) + 1 if mark is not None else 1


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _first_line(exc: Exception) -> str:
    return str(exc).split("\n", 1)[0]
