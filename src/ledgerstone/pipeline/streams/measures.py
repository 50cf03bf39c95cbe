"""What is added up, and how exactly: by the type that Spark gives a column. Pure.

Whole numbers and decimals are exact, whatever their sum: SQLite's own sums overflow or are floats.
A whole number is added in halves of 32 bits, which cannot overflow; decimals are text, and are
added by Python.
"""

import base64
import json
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum
from typing import Any, Final

from ledgerstone.pipeline.errors import PipelineError

# More digits than any sum of decimals of 38 can need.
_EXACT: Final = Context(prec=100, rounding=ROUND_HALF_UP)
# As in Spark's avg of a decimal: this many more digits after the point.
_AVG_DIGITS: Final = 4
_HALF: Final = 32


class MeasureKind(Enum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Measure(Enum):
    """How values of a type are kept."""

    WHOLE = "whole"
    DECIMAL = "decimal"  # as text, all digits
    FLOAT = "float"
    TEXT = "text"  # also dates and times, whose texts are in order
    BINARY = "binary"
    BOOLEAN = "boolean"


_NUMBERS: Final = (Measure.WHOLE, Measure.DECIMAL, Measure.FLOAT)
_TYPES: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Measure.WHOLE),
    **dict.fromkeys(("float", "double"), Measure.FLOAT),
    **dict.fromkeys(("string", "date", "timestamp", "timestamp_ntz"), Measure.TEXT),
    "binary": Measure.BINARY,
    "boolean": Measure.BOOLEAN,
    "decimal": Measure.DECIMAL,
}


def measure_of(name: str, kind: MeasureKind, column: str | None, type_name: str) -> Measure:
    """`type_name` is Spark's word for the type of the column. Raises PipelineError where the
    aggregate makes no sense."""
    if column is None:
        if kind is not MeasureKind.COUNT:
            raise PipelineError(f"aggregate {name}: {kind.value} needs a column")
        return Measure.WHOLE
    found = _TYPES.get(type_name.partition("(")[0])
    if kind is MeasureKind.COUNT:
        return Measure.BOOLEAN  # Whether there is a value is all that counts.
    if kind in (MeasureKind.SUM, MeasureKind.AVG) and found not in _NUMBERS:
        raise PipelineError(
            f"aggregate {name}: {kind.value} of {column}, which is {type_name}: numbers are added "
            f"up. If it holds some, say so: CAST({column} AS decimal(18,2))"
        )
    if found is None:
        raise PipelineError(f"aggregate {name}: {type_name} has no {kind.value} here ({column})")
    return found


def stored(value: Any, kind: MeasureKind, measure: Measure) -> Any:  # noqa: ANN401 - a cell of any column
    """As SQLite keeps it."""
    if value is None:
        return None
    if kind is MeasureKind.COUNT:
        return 1
    if measure is Measure.DECIMAL:
        return format(value, "f")
    if measure is Measure.BOOLEAN:
        return int(value)
    return str(value) if measure is Measure.TEXT else value


class _Exact:
    """An aggregate function of SQLite over decimals as text; nulls are left out, as always."""

    def __init__(self) -> None:
        self._found: Decimal | None = None

    def step(self, text: str | None) -> None:
        if text is not None:
            value = Decimal(text)
            self._found = value if self._found is None else self._joined(self._found, value)

    def _joined(self, one: Decimal, other: Decimal) -> Decimal:
        return _EXACT.add(one, other)

    def finalize(self) -> str | None:
        return None if self._found is None else format(self._found, "f")


class _ExactMin(_Exact):
    def _joined(self, one: Decimal, other: Decimal) -> Decimal:
        return min(one, other)


class _ExactMax(_Exact):
    def _joined(self, one: Decimal, other: Decimal) -> Decimal:
        return max(one, other)


EXACT_FUNCTIONS: Final = {"exact_sum": _Exact, "exact_min": _ExactMin, "exact_max": _ExactMax}


def selected(kind: MeasureKind, measure: Measure, column: str | None) -> list[str]:
    """What SQLite is asked for; `result_of` makes one value of it. `column` None: rows."""
    if kind is MeasureKind.COUNT:
        return ["count(*)" if column is None else f"count({column})"]
    if measure is Measure.DECIMAL:
        word = "exact_sum" if kind is MeasureKind.AVG else f"exact_{kind.value}"
        return [f"{word}({column})", f"count({column})"]
    if measure is Measure.WHOLE and kind in (MeasureKind.SUM, MeasureKind.AVG):
        low = (1 << _HALF) - 1
        return [f"sum({column} >> {_HALF})", f"sum({column} & {low})", f"count({column})"]
    return [f"{kind.value}({column})"]


def result_of(kind: MeasureKind, measure: Measure, found: list[Any]) -> Any:  # noqa: ANN401 - of any type
    if found[0] is None or kind is MeasureKind.COUNT:
        return found[0]
    if measure is Measure.DECIMAL:
        return _decimal_result(kind, Decimal(found[0]), found[1])
    if measure is Measure.WHOLE and kind in (MeasureKind.SUM, MeasureKind.AVG):
        total = (found[0] << _HALF) + found[1]
        return total if kind is MeasureKind.SUM else total / found[2]
    return _SHOWN[measure](found[0]) if measure in _SHOWN else found[0]


def _decimal_result(kind: MeasureKind, value: Decimal, count: int) -> Decimal:
    if kind is not MeasureKind.AVG:
        return value
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "a sum of numbers is a number"
    digits = Decimal((0, (1,), exponent - _AVG_DIGITS))
    return _EXACT.divide(value, Decimal(count)).quantize(digits, context=_EXACT)


_SHOWN: Final[Mapping[Measure, Callable[[Any], Any]]] = {
    Measure.BINARY: lambda value: base64.b64encode(value).decode(),
    Measure.BOOLEAN: bool,
}


def object_text(content: Mapping[str, Any]) -> str:
    """A JSON object with sorted names; a decimal is a number with all its digits, as Spark's
    `to_json` writes it."""
    cells = (
        f"{json.dumps(name)}: "
        + (format(value, "f") if isinstance(value, Decimal) else json.dumps(value))
        for name, value in sorted(content.items())
    )
    return "{" + ", ".join(cells) + "}"
