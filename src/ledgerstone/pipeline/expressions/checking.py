"""Gives every part of an expression its type, or says what does not fit. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.column_types import (
    AnyType,
    ColumnType,
    DecimalType,
    arrow_type,
    named_type,
)
from ledgerstone.pipeline.expressions.functions import called
from ledgerstone.pipeline.expressions.parsing import Cast, ExpressionError, Literal, Name, Node
from ledgerstone.pipeline.expressions.typed import (
    BOOLEAN,
    FLOAT,
    INT,
    TEXT,
    Typed,
    as_type,
    constant,
    from_text,
    is_number,
)

_READ_AS_TEXT: Final = (ColumnType.DATE, ColumnType.TIME, ColumnType.TIMESTAMP)


def checked(node: Node, columns: Mapping[str, AnyType]) -> Typed:
    """Raises ExpressionError; `columns` are those that it may name."""
    if isinstance(node, Literal):
        return constant(node.value)
    if isinstance(node, Name):
        return _column(node.name, columns)
    if isinstance(node, Cast):
        return _cast(checked(node.value, columns), node.type)
    return called(node.function, [checked(each, columns) for each in node.arguments])


def _column(name: str, columns: Mapping[str, AnyType]) -> Typed:
    kind = columns.get(name)
    if kind is None:
        raise ExpressionError(f"there is no column {name}; there are {', '.join(columns)}")
    if kind is ColumnType.INT32:
        return Typed(INT, lambda rows: pc.cast(rows.column(name), pa.int64()))
    return Typed(kind, lambda rows: rows.column(name))


def _cast(part: Typed, name: str) -> Typed:
    try:
        kind = named_type(name)
    except ValueError as error:
        raise ExpressionError(f"CAST: {name}: {error}") from None
    kind = INT if kind is ColumnType.INT32 else kind
    if part.type is None or part.type == kind:
        return as_type(part, kind)
    if part.type is TEXT and (kind in _READ_AS_TEXT or isinstance(kind, DecimalType)):
        return from_text(part, kind)
    if not _can(part.type, kind):
        raise ExpressionError(f"CAST of {part.said} to {kind.value} is not possible")
    if part.type is INT and isinstance(kind, DecimalType):
        return as_type(part, kind)
    wanted = arrow_type(kind)
    # The day of a moment is what such a cast is for, so the time of day may go.
    is_safe = kind is not ColumnType.DATE

    def run(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array or a scalar
        return pc.cast(part.run(rows), wanted, safe=is_safe)

    return Typed(kind, run)


def _can(kind: AnyType, to: AnyType) -> bool:
    if to is TEXT:
        return kind is not ColumnType.BINARY
    if kind is TEXT:
        return to in (INT, FLOAT, BOOLEAN)
    if is_number(kind):
        return is_number(to)
    return (kind, to) in (
        (ColumnType.TIMESTAMP, ColumnType.DATE),
        (ColumnType.DATE, ColumnType.TIMESTAMP),
    )
