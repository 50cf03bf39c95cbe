"""What is added up, and how exactly: by the type that Spark gives a column. Pure.

Whole numbers and decimals are exact, whatever their sum; a float is rounded once, at the end
(`exact_sums`). Dates and times are kept as text, whose order is theirs.
"""

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, named_type
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.exact_sums import (
    EXACT,
    FLOAT_UNIT,
    ExactSum,
    as_decimal,
    nearest,
)

# As in Spark's avg of a decimal: this many more digits after the point.
_AVG_DIGITS: Final = 4


class MeasureKind(Enum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Measure(Enum):
    """How values of a type are kept."""

    WHOLE = "whole"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"  # also dates and times, whose texts are in order
    BINARY = "binary"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    name: str
    kind: MeasureKind
    column: str | None = None  # None: count rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An aggregate with the type of its column."""

    name: str
    kind: MeasureKind
    measure: Measure
    scale: int = 0  # of a decimal
    precision: int = 0
    counts_rows: bool = False

    @property
    def adds(self) -> bool:
        return self.kind in (MeasureKind.SUM, MeasureKind.AVG)

    @property
    def compares(self) -> bool:
        return self.kind in (MeasureKind.MIN, MeasureKind.MAX)

    @property
    def column_type(self) -> AnyType:
        """Of the column that the state of a key has for it."""
        if self.kind is MeasureKind.COUNT:
            return ColumnType.BOOLEAN
        if self.measure is Measure.DECIMAL:
            return DecimalType(self.precision, self.scale)
        return _COLUMNS[self.measure]


_NUMBERS: Final = (Measure.WHOLE, Measure.DECIMAL, Measure.FLOAT)
_TYPES: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Measure.WHOLE),
    **dict.fromkeys(("float", "double"), Measure.FLOAT),
    **dict.fromkeys(("string", "date", "timestamp", "timestamp_ntz"), Measure.TEXT),
    "binary": Measure.BINARY,
    "boolean": Measure.BOOLEAN,
    "decimal": Measure.DECIMAL,
}
_NOTHING: Final = "void"  # of NULL alone
_COLUMNS: Final = {
    Measure.WHOLE: ColumnType.INT64,
    Measure.FLOAT: ColumnType.FLOAT64,
    Measure.TEXT: ColumnType.STRING,
    Measure.BINARY: ColumnType.BINARY,
    Measure.BOOLEAN: ColumnType.BOOLEAN,
}


def measured(aggregate: Aggregate, type_name: str) -> Measured:
    """`type_name` is Spark's word for the type of the column. Raises PipelineError where the
    aggregate makes no sense."""
    name, kind, column = aggregate.name, aggregate.kind, aggregate.column
    if column is None:
        if kind is not MeasureKind.COUNT:
            raise PipelineError(f"aggregate {name}: {kind.value} needs a column")
        return Measured(name=name, kind=kind, measure=Measure.BOOLEAN, counts_rows=True)
    found = _TYPES.get(type_name.partition("(")[0])
    if kind is MeasureKind.COUNT:
        # Whether there is a value is all that counts.
        return Measured(name=name, kind=kind, measure=Measure.BOOLEAN)
    if kind in (MeasureKind.SUM, MeasureKind.AVG) and found not in _NUMBERS:
        raise PipelineError(
            f"aggregate {name}: {kind.value} of {column}, which is {type_name}: numbers are added "
            f"up. If it holds some, say so: CAST({column} AS decimal(18,2))"
        )
    if found is None:
        raise PipelineError(f"aggregate {name}: {type_name} has no {kind.value} here ({column})")
    if found is not Measure.DECIMAL:
        return Measured(name=name, kind=kind, measure=found)
    decimal = named_type(type_name)
    assert isinstance(decimal, DecimalType), type_name
    return Measured(
        name=name, kind=kind, measure=found, scale=decimal.scale, precision=decimal.precision
    )


def check_group(by: str, type_name: str) -> None:
    """Raises PipelineError where values of a type, in Spark's word for it, cannot name a group."""
    if type_name != _NOTHING and type_name.partition("(")[0] not in _TYPES:
        raise PipelineError(
            f"by {by}: {type_name} cannot name a group. CAST it, or name a field of it"
        )


def added_up(of: Measured, count: int, total: ExactSum) -> Any:  # noqa: ANN401 - of any type
    """A sum or an average, None of no value."""
    if not count:
        return None
    if of.measure is Measure.FLOAT:
        said = total.as_float()
        if of.kind is MeasureKind.SUM or (isinstance(said, str) and any(total[1:])):
            return said
        return nearest(Fraction(total.units, count << FLOAT_UNIT))
    if of.measure is Measure.WHOLE:
        return total.units if of.kind is MeasureKind.SUM else total.units / count
    value = as_decimal(total.units, of.scale)
    if of.kind is MeasureKind.SUM:
        return value
    digits = Decimal((0, (1,), -of.scale - _AVG_DIGITS))
    return EXACT.divide(value, Decimal(count)).quantize(digits, context=EXACT)


def object_text(content: Mapping[str, Any]) -> str:
    """A JSON object with sorted names; a decimal is a number with all its digits, as Spark's
    `to_json` writes it."""
    cells = (f"{json.dumps(name)}: {_cell(value)}" for name, value in sorted(content.items()))
    return "{" + ", ".join(cells) + "}"


def _cell(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode()
    return json.dumps(value)
