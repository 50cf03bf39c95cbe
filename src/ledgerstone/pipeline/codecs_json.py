"""Decodes JSON values with Arrow's reader if the result is the same as one by one. Pure.

Arrow reads lines and stops at the first bad one. So cells are joined into lines only if each is one
object without a line break. If anything goes wrong, `read_json_lines` returns None; then `codecs`
decodes the cells one by one and finds the bad one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ledgerstone.pipeline.column_types import ColumnType, arrow_type
from ledgerstone.pipeline.definition import Column

# Types that Arrow's reader converts exactly as `converting` does.
_SAME: Final = (ColumnType.STRING, ColumnType.INT32, ColumnType.INT64, ColumnType.BOOLEAN)
_MIN_ROWS: Final = 16


def read_json_lines(columns: Sequence[Column], cells: pa.Array) -> list[pa.Array] | None:
    """The columns, or None if the fast path does not apply. No cell is null."""
    if len(cells) < _MIN_ROWS or not all(each.type in _SAME for each in columns):
        return None
    if not _are_single_lines(cells):
        return None
    try:
        schema = _schema(columns)
        lines = pa.py_buffer(b"\n".join(cells.to_pylist()))
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(1, lines.size)),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
        # Every cell begins and ends an object, so as many rows as cells means one in each.
        if table.num_rows != len(cells):
            return None
        table.validate(full=True)
        return [_at(table, each.path).cast(arrow_type(each.type)) for each in columns]
    except (pa.ArrowException, ValueError):
        return None


def _are_single_lines(cells: pa.Array) -> bool:
    is_object = pc.and_(pc.starts_with(cells, b"{"), pc.ends_with(cells, b"}"))
    breaks = pc.or_(pc.match_substring(cells, b"\n"), pc.match_substring(cells, b"\r"))
    return bool(pc.all(is_object).as_py()) and not pc.any(breaks).as_py()


def _schema(columns: Sequence[Column]) -> pa.Schema:
    """Nested objects as structs; raises ValueError if one path goes through another's end."""
    tree: dict[str, Any] = {}
    for column in columns:
        here = tree
        for name in column.path[:-1]:
            here = here.setdefault(name, {})
            if not isinstance(here, dict):
                raise ValueError(f"{column.path} goes through a plain column")
        if column.path[-1] in here:
            raise ValueError(f"{column.path} appears twice")
        here[column.path[-1]] = arrow_type(column.type)
    return pa.schema(_fields(tree))


def _fields(tree: Mapping[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_fields(kind)) if isinstance(kind, dict) else kind)
        for name, kind in tree.items()
    ]


def _at(table: pa.Table, path: tuple[str, ...]) -> pa.Array:
    array = table.column(path[0]).combine_chunks()
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array
