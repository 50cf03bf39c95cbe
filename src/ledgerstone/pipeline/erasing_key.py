"""What to search for when a key is erased: its bytes, and the columns it became. Pure.

Rows are compared by their columns. Files that cannot be parsed are searched for the bytes, unless
the key is too short for that.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.pipeline.codecs import decoder
from ledgerstone.pipeline.codecs_avro import SchemaOf
from ledgerstone.pipeline.definition import ColumnCodec
from ledgerstone.pipeline.errors import PipelineError

# Shorter ones occur in many files by chance.
SHORTEST_NEEDLE_BYTES: Final = 6
# Delta's statistics may hold only the beginning of a text.
_STATS_PREFIX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedKey:
    """`repr` shows nothing: output and logs must not contain the key."""

    raw: bytes = field(repr=False)
    columns: Mapping[str, Any] = field(repr=False)
    texts: tuple[str, ...] = field(default=(), repr=False)  # other forms of it in a cell
    mentions: tuple[str, ...] = ()  # columns in which rows of other keys name it

    @property
    def needles(self) -> list[bytes]:
        """The forms of the key in a file: itself, as JSON, as base64, and its longer parts."""
        found = {self.raw: None, base64.b64encode(self.raw): None}
        for value in self.columns.values():
            if isinstance(value, str):
                found[value.encode("utf-8", "surrogatepass")] = None
                found[json.dumps(value)[1:-1].encode()] = None
            elif isinstance(value, bytes):
                found[value] = None
        return [each for each in found if len(each) >= SHORTEST_NEEDLE_BYTES]


def wanted_key(codec: ColumnCodec, raw: bytes, schema_of: SchemaOf | None = None) -> WantedKey:
    decoded = decoder(codec, schema_of)(pa.array([raw], pa.binary()))
    for reason in decoded.bad.values():
        raise PipelineError(f"the key is not one of this pipeline: {reason}")
    names = [column.name for column in codec.columns]
    values = [array[0].as_py() for array in decoded.arrays]
    return WantedKey(raw=raw, columns=dict(zip(names, values, strict=True)))


def is_row_of(table: pa.Table, wanted: WantedKey) -> pa.Array:
    """Whether all key columns of each row are the key's."""
    has_columns = wanted.columns and all(name in table.column_names for name in wanted.columns)
    found = pa.array([bool(has_columns)] * len(table), pa.bool_())
    if has_columns:
        for name, value in wanted.columns.items():
            found = pc.and_(found, _equals(table.column(name), value))
    return found


def rows_with(table: pa.Table, wanted: WantedKey) -> int:
    """Rows whose key columns are all the key's, or that have a cell equal to the key."""
    found = is_row_of(table, wanted)
    for name in table.column_names:
        if name in wanted.mentions:
            continue
        column = table.column(name)
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            found = pc.or_(found, _equals(column, wanted.raw))
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            for text in wanted.texts:
                found = pc.or_(found, _equals(column, text))
            try:
                found = pc.or_(found, _equals(column, wanted.raw.decode()))
            except UnicodeDecodeError:
                continue
    return int(pc.sum(found).as_py() or 0)


def _equals(column: pa.ChunkedArray, value: object) -> pa.Array:
    if value is None:
        is_equal = column.is_null()
    else:
        try:
            is_equal = pc.equal(column, pa.scalar(value, column.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            is_equal = pa.chunked_array([pa.array([False] * len(column), pa.bool_())])
    filled = pc.fill_null(is_equal, False)
    return filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled


def stats_hold(content: object, wanted: WantedKey) -> bool:
    """Whether a part of the key is among the strings of nested JSON, whole or cut as Delta does."""
    if isinstance(content, Mapping):
        return any(stats_hold(each, wanted) for each in content.values())
    if isinstance(content, list):
        return any(stats_hold(each, wanted) for each in content)
    if not isinstance(content, str):
        return False
    for value in wanted.columns.values():
        if isinstance(value, str) and len(value) >= SHORTEST_NEEDLE_BYTES:
            cut = content.rstrip("\uffff\U0010ffff")
            if value in content or (len(cut) >= _STATS_PREFIX and value.startswith(cut)):
                return True
    return False
