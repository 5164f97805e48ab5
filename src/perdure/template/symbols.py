"""The values that a step's format strings see, and the two that a resumed task sees besides.

The table is the library's own serialized form. A session takes it as ``resolved_symtab`` and lays
its own values (task parameters, the working folder) over it; whatever names it does not know stay.
That is how ``Task.Checkpoint.State`` and ``Task.Checkpoint.File`` reach the action without any
text being replaced in it: they are values, never expanded again.

Source: openjd-model ``create_job_with_symbol_tables``; openjd-sessions ``Session.run_task``.
"""

import json
from collections.abc import Mapping
from pathlib import PurePath, PureWindowsPath
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace
from openjd.expr import ExprValue, PathFormat, SerializedSymbolTable
from openjd.model import SymbolTable

from perdure.template.extensions import FILE_REFERENCE, STATE_REFERENCE


class FormatText(Protocol):
    """The library's format string, as far as it is used here."""

    def resolve_value(self, *, symtab: SymbolTable) -> Any:
        """The typed value of the whole string."""
        ...


class Symbols(Struct, frozen=True, kw_only=True):
    """Values by their dotted names.

    Attributes:
        table: for ``Session.run_task(resolved_symtab=…)`` and its like.
        extra: values that exist here only: what a wrap action sees of the action that it wraps.
        state, file: of the checkpoint that a resumed task goes on from; "" for what it has not.
    """

    table: SerializedSymbolTable
    extra: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""
    file: str = ""

    def with_checkpoint(self, *, state: str | None, file: str | None) -> "Symbols":
        """The same with the two references of onCheckpointResume; "" for what the save had not."""
        rows = [
            row
            for row in json.loads(self.table.to_json_str())
            if row["name"] not in (STATE_REFERENCE, FILE_REFERENCE)
        ]
        rows.append({"name": STATE_REFERENCE, "type": "string", "value": state or ""})
        rows.append({"name": FILE_REFERENCE, "type": "path", "value": file or ""})
        rows.sort(key=lambda row: str(row["name"]))
        return Symbols(
            table=SerializedSymbolTable.from_json_str(json.dumps(rows)),
            extra=self.extra,
            state=state or "",
            file=file or "",
        )

    def with_extra(self, values: Mapping[str, Any]) -> "Symbols":
        """The same with more values for `resolve`."""
        return replace(self, extra={**self.extra, **values})

    def resolve(self, text: FormatText) -> str | None:
        """What ``text`` says with these values; None: it is an expression whose value is null.

        Raises:
            ValueError: it cannot be resolved.
        """
        host = PathFormat.WINDOWS if isinstance(PurePath(), PureWindowsPath) else PathFormat.POSIX
        engine = self.table.to_symtab(path_format=host)
        table = SymbolTable(source={name: engine[name] for name in engine.symbols})
        for name, value in self.extra.items():
            table[name] = value
        value = text.resolve_value(symtab=table)
        return None if _is_null(value) else str(value)


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, ExprValue) and value.is_null)
