"""Parts of an expression that have a type, and which types go together. Pure.

Nothing is converted silently that could lose something: text is no number, and a date is no
timestamp. Only a literal in quotes becomes what it is compared with.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.column_types import (
    MAX_PRECISION,
    AnyType,
    ColumnType,
    DecimalType,
    arrow_type,
)
from ledgerstone.pipeline.converting import Unfit, convert
from ledgerstone.pipeline.definition import Column
from ledgerstone.pipeline.expressions.parsing import ExpressionError

Run = Callable[[pa.RecordBatch], Any]  # to an array, or to a scalar that stands for every row

INT: Final = ColumnType.INT64
FLOAT: Final = ColumnType.FLOAT64
TEXT: Final = ColumnType.STRING
BOOLEAN: Final = ColumnType.BOOLEAN
_OF_TEXT: Final = (ColumnType.DATE, ColumnType.TIME, ColumnType.TIMESTAMP)
_INT64_DIGITS: Final = 19


class Typed(NamedTuple):
    """`type` is None for NULL alone, which fits everywhere."""

    type: AnyType | None
    run: Run
    literal: Any = None

    @property
    def said(self) -> str:
        return "NULL" if self.type is None else self.type.value


def constant(value: Any) -> Typed:  # noqa: ANN401 - of any type
    if value is None:
        return Typed(None, lambda _: pa.scalar(None))
    kind = _kind_of(value)
    try:
        scalar = pa.scalar(value, arrow_type(kind))
    except (pa.ArrowException, OverflowError):
        raise ExpressionError(f"{value!r:.40} does not fit {kind.value}") from None
    return Typed(kind, lambda _: scalar, value)


def _kind_of(value: Any) -> AnyType:  # noqa: ANN401 - of any type
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, Decimal):
        return _decimal_of(value)
    return INT if isinstance(value, int) else FLOAT if isinstance(value, float) else TEXT


def _decimal_of(value: Decimal) -> DecimalType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    try:
        return DecimalType(max(len(digits), scale, 1), scale)
    except ValueError as error:
        raise ExpressionError(str(error)) from None


def is_number(kind: AnyType | None) -> bool:
    return kind in (INT, FLOAT) or isinstance(kind, DecimalType)


def common_type(parts: Sequence[Typed], what: str) -> AnyType | None:
    """The type that all of them can have without a loss; None if all are NULL."""
    kinds = list(dict.fromkeys(each.type for each in parts if each.type is not None))
    if len(kinds) <= 1:
        return kinds[0] if kinds else None
    if all(map(is_number, kinds)):
        return FLOAT if FLOAT in kinds else _common_decimal(parts)
    firm = list(
        dict.fromkeys(each.type for each in parts if each.type is not None and not _is_quoted(each))
    )
    if len(firm) == 1 and firm[0] in _OF_TEXT:
        return firm[0]
    said = " and ".join(each.value for each in kinds)
    raise ExpressionError(f"{what}: {said} do not go together; use CAST")


def _is_quoted(part: Typed) -> bool:
    return part.type is TEXT and part.literal is not None


def _common_decimal(parts: Iterable[Typed]) -> DecimalType:
    found = [as_decimal(each) for each in parts if each.type is not None]
    scale = max(each.scale for each in found)
    digits = max(each.precision - each.scale for each in found)
    if digits + scale > MAX_PRECISION:
        raise ExpressionError(f"needs more than {MAX_PRECISION} digits; use CAST")
    return DecimalType(digits + scale, scale)


def as_decimal(part: Typed) -> DecimalType:
    if isinstance(part.type, DecimalType):
        return part.type
    if part.literal is not None:
        return DecimalType(len(str(abs(part.literal))), 0)
    return DecimalType(_INT64_DIGITS, 0)


def as_type(part: Typed, kind: AnyType | None) -> Typed:
    """The same values as another type that `common_type` has found, or a column's."""
    if kind is None or part.type == kind:
        return part
    wanted = arrow_type(kind)
    if part.type is None:
        nothing = pa.scalar(None, wanted)
        return Typed(kind, lambda _: nothing)
    if part.type is TEXT and kind in _OF_TEXT:
        return from_text(part, kind)
    if part.type is INT and isinstance(kind, DecimalType):
        return _int_as_decimal(part, kind)
    return Typed(kind, lambda rows: pc.cast(part.run(rows), wanted))


def _int_as_decimal(part: Typed, kind: DecimalType) -> Typed:
    """By way of a decimal that holds every int64, as Arrow wants it."""
    if part.literal is not None and len(str(abs(part.literal))) <= kind.precision - kind.scale:
        scalar = pa.scalar(Decimal(part.literal), arrow_type(kind))
        return Typed(kind, lambda _: scalar)
    if kind.scale + _INT64_DIGITS > MAX_PRECISION:
        raise ExpressionError(f"a whole number as {kind.value} needs too many digits")
    wide = arrow_type(DecimalType(kind.scale + _INT64_DIGITS, kind.scale))
    wanted = arrow_type(kind)
    return Typed(kind, lambda rows: pc.cast(pc.cast(part.run(rows), wide), wanted))


def from_text(part: Typed, kind: AnyType) -> Typed:
    """As JSON's text is read for a column of this type."""
    column = Column(name="", type=kind, path=())
    wanted = arrow_type(kind)
    if part.literal is not None:
        try:
            scalar = pa.scalar(convert(column, part.literal), wanted)
        except Unfit as error:
            raise ExpressionError(_without_column(error)) from None
        return Typed(kind, lambda _: scalar)

    def run(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array or a scalar
        found = part.run(rows)
        if isinstance(found, pa.Scalar):
            return pa.scalar(convert(column, found.as_py()), wanted)
        return pa.array([convert(column, each) for each in found.to_pylist()], wanted)

    return Typed(kind, run)


def _without_column(error: Unfit) -> str:
    return str(error).removeprefix("column : ")


def fits(kind: AnyType | None, column: AnyType) -> bool:
    """Whether a value may go into a column; what does not fit a narrower number is a bad record."""
    if kind is None or kind == column:
        return True
    if is_number(kind):
        is_narrower = kind is not FLOAT or column is FLOAT
        return is_narrower and (column is ColumnType.INT32 or is_number(column))
    return False
