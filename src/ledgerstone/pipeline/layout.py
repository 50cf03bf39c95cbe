"""The columns of a table, and of the changes that go into it. Pure.

Ours begin with an underscore and follow those of the definition, except for `_topic`, which is the
first column of the key where a pipeline reads a list of topics: where a row comes from
(`_partition`, `_offset`, `_timestamp`), when it was deleted (`_deleted_at`, soft deletes) or
replaced (`_valid_to`, history), and the record's own bytes (`_key`, `_value`) if they are kept.
"""

from typing import Final

import pyarrow as pa

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.column_types import AnyType, ColumnType, arrow_type
from ledgerstone.pipeline.definition import TOPIC_COLUMN, Column, Deletes, Pipeline

TOPIC: Final = TOPIC_COLUMN.name
KEY: Final = "_key"
VALUE: Final = "_value"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
DELETED_AT: Final = "_deleted_at"
VALID_TO: Final = "_valid_to"
# Of changes alone.
DELETED: Final = "_deleted"
BAD: Final = "_bad"

_BYTES: Final = ((KEY, ColumnType.BINARY), (VALUE, ColumnType.BINARY))
ORIGIN: Final = (
    (PARTITION, ColumnType.INT32),
    (OFFSET, ColumnType.INT64),
    (TIMESTAMP, ColumnType.TIMESTAMP),
)
ORIGIN_NAMES: Final = tuple(name for name, _ in ORIGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    deletes: Deletes
    keep_bytes: bool

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.keys)

    @property
    def has_topic(self) -> bool:
        return TOPIC in self.key_names

    @property
    def content_names(self) -> tuple[str, ...]:
        """The columns that a change sets besides the key."""
        kept = tuple(name for name, _ in _BYTES) if self.keep_bytes else ()
        return tuple(each.name for each in self.values) + kept + ORIGIN_NAMES

    @property
    def row_identity(self) -> tuple[str, ...]:
        """The columns that identify a row of the table."""
        if self.deletes is Deletes.HISTORY:
            return (*self.key_names, PARTITION, OFFSET)
        return self.key_names

    @property
    def types(self) -> dict[str, AnyType]:
        """Every column of the table, in order."""
        types: dict[str, AnyType] = {each.name: each.type for each in self.keys + self.values}
        if self.keep_bytes:
            types |= _BYTES
        types |= ORIGIN
        if self.deletes is Deletes.SOFT:
            types[DELETED_AT] = ColumnType.TIMESTAMP
        elif self.deletes is Deletes.HISTORY:
            types[VALID_TO] = ColumnType.TIMESTAMP
        return types

    @property
    def table_schema(self) -> pa.Schema:
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.types.items()])

    @property
    def change_schema(self) -> pa.Schema:
        """Rows in transit, with key and value bytes if the table keeps them or the row is bad."""
        types: dict[str, AnyType] = {each.name: each.type for each in self.keys + self.values}
        types |= dict(_BYTES) | dict(ORIGIN)
        fields = [(name, arrow_type(kind)) for name, kind in types.items()]
        return pa.schema([*fields, (DELETED, pa.bool_()), (BAD, pa.string())])


def layout_of(pipeline: Pipeline) -> Layout:
    return Layout(
        keys=pipeline.key_columns,
        values=pipeline.stored_values,
        deletes=pipeline.target.deletes,
        keep_bytes=pipeline.target.keep_bytes,
    )
