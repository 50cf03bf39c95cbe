"""Evaluates a checked expression on rows, and finds the rows it cannot be evaluated for. Pure.

All rows at once, as Arrow is fast at. If one of them raises, halves are tried, down to single rows:
that finds the bad ones, and a row whose trouble is in a branch that does not count.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ledgerstone.pipeline.column_types import AnyType, arrow_type
from ledgerstone.pipeline.converting import Unfit
from ledgerstone.pipeline.expressions.checking import checked
from ledgerstone.pipeline.expressions.parsing import ExpressionError, parse
from ledgerstone.pipeline.expressions.typed import BOOLEAN, Run, as_type, fits

_FAILURES: Final = (pa.ArrowInvalid, Unfit, ValueError, OverflowError)


class Evaluated(NamedTuple):
    """Bad rows are null, and have a reason."""

    values: pa.Array
    bad: dict[int, str]


class Expression:
    """Not picklable: made where it is used, from its text."""

    def __init__(self, text: str, columns: Mapping[str, AnyType], wanted: AnyType) -> None:
        """Raises ExpressionError if the text is wrong, or if its values are not of this type."""
        typed = checked(parse(text), columns)
        if not fits(typed.type, wanted):
            raise ExpressionError(f"it is {typed.said}, not {wanted.value}; use CAST")
        self._run: Run = as_type(typed, wanted).run
        self._type = arrow_type(wanted)
        nothing = [pa.array([], arrow_type(kind)) for kind in columns.values()]
        try:
            self._at_once(pa.RecordBatch.from_arrays(nothing, names=list(columns)))
        except (*_FAILURES, pa.ArrowException) as error:
            raise ExpressionError(f"it cannot be evaluated: {error}") from None

    def evaluate(self, rows: pa.RecordBatch) -> Evaluated:
        bad: dict[int, str] = {}
        pieces = self._evaluated(rows, 0, bad)
        return Evaluated(pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces), bad)

    def _evaluated(self, rows: pa.RecordBatch, first: int, bad: dict[int, str]) -> list[pa.Array]:
        try:
            return [self._at_once(rows)]
        except _FAILURES as error:
            count = rows.num_rows
            if count == 1:
                bad[first] = str(error).removeprefix("column : ") or type(error).__name__
                return [pa.nulls(1, self._type)]
            half = count // 2
            left = self._evaluated(rows.slice(0, half), first, bad)
            return left + self._evaluated(rows.slice(half), first + half, bad)

    def _at_once(self, rows: pa.RecordBatch) -> pa.Array:
        found: Any = self._run(rows)
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, rows.num_rows)
        return found


def condition(text: str, columns: Mapping[str, AnyType]) -> Expression:
    return Expression(text, columns, BOOLEAN)
