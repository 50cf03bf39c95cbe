"""Messages of PostgreSQL's plug-in `pgoutput`, protocol version 1: which keys changed. Pure.

Only the key columns of a row are read, as text. The row itself is read from the table, so that
large values, which the WAL leaves out, are not a special case. Contract: the chapter "Logical
Replication Message Formats" of PostgreSQL's documentation.
"""

from collections.abc import Sequence
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.errors import PipelineError

_NULL: Final = ord("n")
_UNCHANGED: Final = ord("u")
_TEXT: Final = ord("t")

TextKey = tuple[str, ...]


class _Reader:
    """Every length is checked against the bytes left before it is used."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            left = len(self._data) - self._position
            raise PipelineError(f"pgoutput: {size} bytes are announced and {left} are left")
        piece = self._data[self._position : end]
        self._position = end
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        end = self._data.find(b"\x00", self._position)
        if end < 0:
            raise PipelineError("pgoutput: a name does not end")
        found = self.take(end - self._position).decode()
        self.take(1)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relation:
    name: str
    columns: tuple[str, ...]


@dataclass(slots=True)
class ChangedKeys:
    """Reads message after message; `keys` are the changed keys of `table`, in order."""

    table: str  # with or without its schema
    key_columns: Sequence[str]
    keys: dict[TextKey, None] = field(default_factory=dict)
    is_truncated: bool = False
    _relations: dict[int, _Relation] = field(default_factory=dict)

    def read(self, message: bytes) -> None:
        reader = _Reader(message)
        match chr(reader.number(1)):
            case "R":
                self._relation(reader)
            case "I" | "U" | "D":
                self._row(reader)
            case "T":
                self._truncate(reader)
            case _:
                pass  # transactions, types, origins: nothing about a row of ours

    def _relation(self, reader: _Reader) -> None:
        relation_id = reader.number(4)
        namespace, name = reader.text(), reader.text()
        reader.take(1)
        columns = []
        for _ in range(reader.number(2)):
            reader.take(1)
            columns.append(reader.text())
            reader.take(8)
        full_name = f"{namespace}.{name}" if "." in self.table else name
        self._relations[relation_id] = _Relation(name=full_name, columns=tuple(columns))

    def _row(self, reader: _Reader) -> None:
        relation = self._relations.get(reader.number(4))
        if relation is None or relation.name != self.table:
            return
        # An update may come with the row as it was, of which the key may have been another.
        while True:
            kind = chr(reader.number(1))
            self._tuple(reader, relation)
            if kind == "N" or reader.is_at_end:
                return

    def _tuple(self, reader: _Reader, relation: _Relation) -> None:
        values: dict[str, str | None] = {}
        for column in relation.columns[: reader.number(2)]:
            kind = reader.number(1)
            if kind in (_NULL, _UNCHANGED):
                values[column] = None
            elif kind == _TEXT:
                values[column] = reader.take(reader.number(4)).decode()
            else:
                raise PipelineError(f"pgoutput: a column of kind {kind:#x}")
        key = tuple(values.get(name) for name in self.key_columns)
        if any(each is None for each in key):
            raise PipelineError(
                f"table {self.table}: a change does not tell {', '.join(self.key_columns)}; the "
                "key has to be the table's replica identity"
            )
        self.keys[tuple(each for each in key if each is not None)] = None

    def _truncate(self, reader: _Reader) -> None:
        count = reader.number(4)
        reader.take(1)
        for _ in range(min(count, len(self._relations) + 1)):
            relation = self._relations.get(reader.number(4))
            if relation is not None and relation.name == self.table:
                self.is_truncated = True
