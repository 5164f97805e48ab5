"""Bytes from anywhere as a document: plain values and the line of each.

A template may come from a stranger. Therefore, before anything is built or copied: at most 16 MiB;
at most `MAX_NODES` values **after** aliases are expanded (an alias bomb of a few lines would take
gigabytes in the validation that follows), counted while the text is parsed; at most `MAX_DEPTH`
levels, so that nothing that recurses over a document can run out of stack. Two equal keys in one
mapping are refused (a YAML loader would silently keep the last), and so is every value that JSON
has not. All of these are told at once; only a syntax error hides what comes behind it.

The name decides the language as in `openjd run`: ``.json`` is JSON, all else is YAML.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from msgspec import Struct

from perdure.errors import Problem, TemplateError
from perdure.template.document_events import (
    Alias,
    Closed,
    DocumentSyntaxError,
    Event,
    Opened,
    Refused,
    Scalar,
)
from perdure.template.json_reader import json_events
from perdure.template.locations import Location, path_text
from perdure.template.yaml_reader import yaml_events

#: A template is text that people or programs write; 16 MiB is far beyond any.
MAX_BYTES = 16 * 1024 * 1024
#: Enough for 200 parameters with 1,000 allowed values each; validated in about a second.
MAX_NODES = 250_000
#: The deepest place in the 2023-09 schema is about twelve levels down.
MAX_DEPTH = 100
#: Beyond these many the rest is noise.
MAX_PROBLEMS = 100


class LineNode:
    """The line on which a value begins, and the same for the values in it."""

    __slots__ = ("children", "line")

    def __init__(self, line: int) -> None:
        self.line = line
        self.children: dict[str | int, LineNode] = {}


class Document(Struct, frozen=True, kw_only=True):
    """A document that was read: ``content`` is plain JSON-like values, not to be changed.

    Equal parts of ``content`` may be one object (YAML aliases): copy before changing.
    """

    name: str
    text: str
    content: Mapping[str, Any]
    lines: LineNode

    def line(self, location: Location) -> int | None:
        """The line of ``location``, or of the innermost place on the way that exists."""
        if not location:
            return None
        node = self.lines
        line = node.line
        for item in location:
            child = node.children.get(item)
            if child is None:
                break
            node = child
            line = node.line or line
        return line

    def problem(self, location: Location, message: str, advice: str = "") -> Problem:
        """A problem at ``location`` of this document."""
        return _problem(path_text(location), message, self.line(location), advice)

    def refuse(self, problems: tuple[Problem, ...]) -> NoReturn:
        """Raise these problems, in the order of the document, each once."""
        ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0)
        _raise(self.name, tuple(ordered))


def read_document(data: bytes, *, name: str) -> Document:
    """The document in ``data``; ``name`` is the file's, for its ending and for messages.

    Raises:
        TemplateError: it is no template-like document; with all problems.
    """
    if len(data) > MAX_BYTES:
        _raise(name, (_whole(f"{len(data)} bytes, more than the {MAX_BYTES} a document may have"),))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        _raise(name, (_whole("not UTF-8 text", line, "Save the file as UTF-8."),))
    events = json_events(text) if name.lower().endswith(".json") else yaml_events(text)
    builder = _Builder()
    try:
        builder.take_all(events)
    except DocumentSyntaxError as exc:
        builder.problems.append(_whole(exc.message, exc.line))
    if not builder.problems and not isinstance(builder.result, dict):
        advice = "A template begins with specificationVersion: 'jobtemplate-2023-09'."
        builder.problems.append(_whole("not a mapping of keys to values", None, advice))
    if builder.problems:
        _raise(name, tuple(builder.problems))
    assert builder.root is not None
    return Document(name=name, text=text, content=builder.result, lines=builder.root)


def unshared(value: Any) -> Any:
    """A copy in which no two places are one object (`copy.deepcopy` would keep them shared)."""
    if isinstance(value, dict):
        return {key: unshared(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unshared(item) for item in value]
    return value


def _whole(message: str, line: int | None = None, advice: str = "") -> Problem:
    return _problem("", message, line, advice)


def _problem(path: str, message: str, line: int | None, advice: str) -> Problem:
    """The two sentences are shown one behind the other: so the first one ends."""
    if advice and message[-1:] not in ".!?)^~":
        message += "."
    return Problem(path=path, message=message, line=line, advice=advice)


def _raise(name: str, problems: tuple[Problem, ...]) -> NoReturn:
    shown, more = problems[:MAX_PROBLEMS], len(problems) - MAX_PROBLEMS
    if more > 0:
        shown += (_whole(f"and {more} more problems"),)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    listed = "\n".join(f"  {problem}" for problem in shown)
    raise TemplateError(
        f"{name}: {count}\n{listed}", shown, hint="Edit the template, then try again."
    )


class _Built(Struct, frozen=True, kw_only=True):
    """A finished value, its lines, and what it costs when it is used again by an alias."""

    value: Any
    lines: LineNode
    nodes: int
    height: int


class _Frame:
    """A mapping or list that is still being read."""

    __slots__ = ("anchor", "height", "is_mapping", "key", "lines", "merged", "nodes", "value")

    def __init__(self, opened: Opened) -> None:
        self.is_mapping = opened.is_mapping
        self.anchor = opened.anchor
        self.value: Any = {} if opened.is_mapping else []
        self.lines = LineNode(opened.line)
        self.key: str | None = None
        self.merged: list[_Built] | None = None
        self.nodes = 1
        self.height = 1


class _Builder:
    """Builds values from events; counts, checks, and remembers every problem."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.result: Any = None
        self.root: LineNode | None = None
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Built] = {}
        self._open_anchors: set[str] = set()
        self._nodes = 0
        self._unnamed_keys = itertools.count()

    def take_all(self, events: Iterator[Event]) -> None:
        for event in events:
            self._take(event)
            if len(self.problems) > MAX_PROBLEMS:
                return

    def _take(self, event: Event) -> None:
        match event:
            case Opened():
                self._open(event)
            case Closed():
                self._close()
            case Scalar():
                self._scalar(event)
            case Refused():
                self._problem(event.message, event.line, event.advice)
                if event.is_value:
                    self._finish(_leaf(None, event.line), event.anchor)
            case Alias():
                self._alias(event)

    def _open(self, event: Opened) -> None:
        self._count(1, event.line)
        if len(self._frames) >= MAX_DEPTH:
            raise DocumentSyntaxError(f"more than {MAX_DEPTH} levels deep", event.line)
        if event.anchor is not None:
            self._open_anchors.add(event.anchor)
        self._frames.append(_Frame(event))

    def _close(self) -> None:
        frame = self._frames.pop()
        if frame.anchor is not None:
            self._open_anchors.discard(frame.anchor)
        built = _Built(value=frame.value, lines=frame.lines, nodes=frame.nodes, height=frame.height)
        self._finish(built, frame.anchor)

    def _scalar(self, event: Scalar) -> None:
        self._count(1, event.line)
        if isinstance(event.value, str) and not _is_encodable(event.value):
            self._problem(
                "half of a surrogate pair, which is no character",
                event.line,
                "Write the character itself.",
            )
        if event.is_merge and not self._is_key_next():
            self._problem("'<<' is YAML's merge sign, which is a key only", event.line, "Quote it.")
        self._finish(_leaf(event.value, event.line), event.anchor, is_merge=event.is_merge)

    def _alias(self, event: Alias) -> None:
        if event.anchor in self._open_anchors:
            raise DocumentSyntaxError(f"*{event.anchor} stands inside of itself", event.line)
        built = self._anchors.get(event.anchor)
        if built is None:
            raise DocumentSyntaxError(f"*{event.anchor} has no anchor before it", event.line)
        self._count(built.nodes, event.line)
        if len(self._frames) + built.height > MAX_DEPTH:
            raise DocumentSyntaxError(f"more than {MAX_DEPTH} levels deep", event.line)
        self._finish(built, None)

    def _is_key_next(self) -> bool:
        if not self._frames:
            return False
        frame = self._frames[-1]
        return frame.is_mapping and frame.key is None and frame.merged is None

    def _finish(self, built: _Built, anchor: str | None, *, is_merge: bool = False) -> None:
        """A value is complete: it becomes a key, a value in its parent, or the result."""
        if anchor is not None:
            self._anchors[anchor] = built
        if not self._frames:
            self.result, self.root = built.value, built.lines
            return
        frame = self._frames[-1]
        frame.nodes += built.nodes
        frame.height = max(frame.height, built.height + 1)
        if not frame.is_mapping:
            frame.lines.children[len(frame.value)] = built.lines
            frame.value.append(built.value)
        elif frame.merged is not None:
            self._merge(frame, built)
        elif frame.key is not None:
            frame.value[frame.key] = built.value
            frame.lines.children[frame.key].children = built.lines.children
            frame.key = None
        elif is_merge:
            frame.merged = []
        else:
            self._take_key(frame, built)

    def _take_key(self, frame: _Frame, built: _Built) -> None:
        key, line = built.value, built.lines.line
        if not isinstance(key, str):
            shown = "a mapping or list" if isinstance(key, dict | list) else repr(key)
            self._problem(
                f"{shown} is a key, and keys are text",
                line,
                "Put the key in quotes: YAML reads yes, no, on, off and numbers as values.",
            )
            key = f"<unnamed {next(self._unnamed_keys)}>"
        earlier = frame.lines.children.get(key)
        if earlier is not None and earlier.line > 0:
            self._problem(
                f"the key {key!r} stands here a second time (first on line {earlier.line})",
                line,
                "Remove one of the two.",
                key=key,
            )
        frame.key = key
        # A key's line is where people look for it; its value may begin on a later one.
        frame.lines.children[key] = LineNode(line)

    def _merge(self, frame: _Frame, built: _Built) -> None:
        """``<<: *a`` or ``<<: [*a, *b]``: keys that the mapping itself has not; the first wins."""
        frame.merged = None
        sources = [built]
        if isinstance(built.value, list):
            sources = [
                _Built(value=item, lines=built.lines.children[index], nodes=0, height=0)
                for index, item in enumerate(built.value)
            ]
        for source in sources:
            if not isinstance(source.value, dict):
                self._problem("'<<' merges mappings only", built.lines.line, "Use an alias.")
                continue
            for key, item in source.value.items():
                if key in frame.value:
                    continue
                frame.value[key] = item
                node = LineNode(0)  # 0: came by a merge, so the mapping may still set it itself
                node.children = source.lines.children[key].children
                frame.lines.children[key] = node

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise DocumentSyntaxError(
                f"more than {MAX_NODES} values, aliases expanded, up to here", line
            )

    def _problem(self, message: str, line: int, advice: str, *, key: str | None = None) -> None:
        location: list[str | int] = []
        for frame in self._frames:
            if frame.is_mapping and frame.key is not None:
                location.append(frame.key)
            elif not frame.is_mapping:
                location.append(len(frame.value))
        if key is not None:
            location.append(key)
        path = path_text(tuple(location))
        self.problems.append(_problem(path, message, line, advice))


def _leaf(value: Any, line: int) -> _Built:
    return _Built(value=value, lines=LineNode(line), nodes=1, height=1)


def _is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
