"""Filters records and computes columns, as the definition's expressions say. Pure.

A record that does not pass `where` acts like a tombstone: whatever row its key has must go, and
nothing of it is stored. Null is not true. A record whose expression cannot be evaluated is bad.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ledgerstone.pipeline.column_types import AnyType, ColumnType
from ledgerstone.pipeline.definition import TOPIC_COLUMN, Pipeline
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.expressions.evaluating import Expression, condition
from ledgerstone.pipeline.expressions.parsing import ExpressionError
from ledgerstone.pipeline.layout import ORIGIN

WHERE: Final = "where"


class Computed(NamedTuple):
    """Of some records."""

    arrays: tuple[pa.Array, ...]  # of the computed columns
    passes: pa.Array  # never null
    bad: dict[int, str]


class Computing:
    """Raises DefinitionError, which names the key, if an expression is wrong."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._columns: dict[str, AnyType] = {
            each.name: each.type
            for each in (*pipeline.key.columns, *pipeline.value.columns, TOPIC_COLUMN)
        } | dict(ORIGIN)
        self._expressions: list[tuple[str, Expression]] = []
        for each in pipeline.computed:
            key = f"value.columns.{each.column.name}.expression"
            made = self._checked(key, each.expression, each.column.type)
            self._expressions.append((f"column {each.column.name}", made))
        self._where: Expression | None = None
        if pipeline.where is not None:
            self._where = self._checked(WHERE, pipeline.where, ColumnType.BOOLEAN)

    def _checked(self, key: str, text: str, wanted: AnyType) -> Expression:
        try:
            if key == WHERE:
                return condition(text, self._columns)
            return Expression(text, self._columns, wanted)
        except ExpressionError as error:
            raise DefinitionError(key, text, str(error)) from None

    @property
    def is_needed(self) -> bool:
        return bool(self._expressions) or self._where is not None

    def compute(self, rows: pa.RecordBatch) -> Computed:
        """`rows` have the decoded columns and where each record is; none of them is bad.

        Records that do not pass are not asked for more: only their key counts."""
        count = rows.num_rows
        passes, bad = np.ones(count, np.bool_), {}
        if self._where is not None:
            found = self._where.evaluate(rows)
            passes = found.values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
            bad = {row: f"{WHERE}: {why}" for row, why in found.bad.items()}
        places = np.flatnonzero(passes)
        kept = rows if len(places) == count else rows.take(pa.array(places))
        # The place among those that pass, null for the others.
        back = pa.array(np.where(passes, np.cumsum(passes) - 1, 0), mask=~passes)
        arrays = []
        for what, expression in self._expressions:
            found = expression.evaluate(kept)
            arrays.append(found.values if len(places) == count else found.values.take(back))
            for row, why in found.bad.items():
                bad.setdefault(int(places[row]), f"{what}: {why}")
        return Computed(tuple(arrays), pa.array(passes), bad)
