"""Decodes keys or values, an Arrow column of bytes, into the columns of a definition. Pure.

A record that does not fit the definition never stops the others: its row is null in every column,
and `bad` has the reason. `bad_records` decides what happens to it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.codecs_avro import SchemaOf, avro_parser
from ledgerstone.pipeline.codecs_json import read_json_lines
from ledgerstone.pipeline.column_types import arrow_type
from ledgerstone.pipeline.converting import Unfit, convert, find, strict_json
from ledgerstone.pipeline.definition import Column, ColumnCodec, Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One array per column of the codec, and why some rows are null in all of them."""

    arrays: tuple[pa.Array, ...]
    bad: dict[int, str]


Parse = Callable[[bytes], object]
Decode = Callable[[pa.Array], Decoded]


def decoder(codec: ColumnCodec, schema_of: SchemaOf | None = None) -> Decode:
    """A function for cells of this codec. Null cells are null rows and not bad.

    Avro or Protobuf with a registry needs a function that fetches schemas."""
    match codec.format:
        case Format.RAW:
            return lambda cells: Decoded(arrays=(cells.cast(pa.binary()),), bad={})
        case Format.STRING:
            return _decode_text
        case Format.JSON:
            return lambda cells: _decode_json(codec.columns, cells)
        case Format.AVRO:
            parse = avro_parser(codec, schema_of)
            return lambda cells: decode_each(codec.columns, cells, parse)
        case Format.PROTOBUF:
            # An extra, which not everybody has.
            from ledgerstone.pipeline.codecs_protobuf import protobuf_parser

            read = protobuf_parser(codec, schema_of)
            return lambda cells: decode_each(codec.columns, cells, read)


def _decode_text(cells: pa.Array) -> Decoded:
    try:
        return Decoded(arrays=(cells.cast(pa.string()),), bad={})
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    bad: dict[int, str] = {}
    for row, cell in enumerate(cells.to_pylist()):
        try:
            texts.append(None if cell is None else cell.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            bad[row] = f"not UTF-8: {error.reason} at byte {error.start}"
    return Decoded(arrays=(pa.array(texts, pa.string()),), bad=bad)


def _decode_json(columns: Sequence[Column], cells: pa.Array) -> Decoded:
    is_null = cells.is_null()
    present = cells.drop_null() if cells.null_count else cells
    arrays = read_json_lines(columns, present)
    if arrays is None:
        return decode_each(columns, cells, lambda cell: strict_json(cell.decode()))
    if cells.null_count:
        places = pc.if_else(is_null, None, pc.subtract(pc.cumulative_sum(_as_ones(is_null)), 1))
        arrays = [array.take(places) for array in arrays]
    return Decoded(arrays=tuple(arrays), bad={})


def _as_ones(is_null: pa.Array) -> pa.Array:
    return pc.if_else(is_null, pa.scalar(0, pa.int64()), pa.scalar(1, pa.int64()))


def decode_each(columns: Sequence[Column], cells: pa.Array, parse: Parse) -> Decoded:
    """One by one: an object per record, but with a reason for every bad one."""
    values: list[list[Any]] = [[] for _ in columns]
    bad: dict[int, str] = {}
    for row, cell in enumerate(cells.to_pylist()):
        converted: list[Any] = [None] * len(columns)
        if cell is not None:
            try:
                content = parse(cell)
                converted = [convert(each, find(content, each.path)) for each in columns]
            except Unfit as error:
                bad[row] = str(error)
            except (ValueError, EOFError, TypeError, IndexError, OverflowError, KeyError) as error:
                bad[row] = f"cannot be decoded: {error or type(error).__name__}"
        for column, value in zip(values, converted, strict=True):
            column.append(value)
    arrays = tuple(
        pa.array(each, arrow_type(column.type))
        for column, each in zip(columns, values, strict=True)
    )
    return Decoded(arrays=arrays, bad=bad)
