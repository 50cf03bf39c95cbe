"""Aggregates over a changing table: what a key gave is taken back when it changes. Pure.

Three tables are the state. `keys` has the group and the measures of each live key, and nothing of
deleted ones. `groups` has the sums of each group. `values` has, for `min` and `max`, the distinct
values of each group with the number of rows that have them. A change of keys becomes deltas, a row
for each group; deltas are added to groups, and a group whose result differs from what it was is
told. No step needs more than the rows of its own keys or groups.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.dataclasses import asdict, dataclass
from ledgerstone.pipeline.canonical import whole
from ledgerstone.pipeline.column_types import ColumnType, arrow_type
from ledgerstone.pipeline.definition import Column, Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.streams.exact_sums import ExactSum, grouped_sums, sum_of_text
from ledgerstone.pipeline.streams.measures import (
    Aggregate,
    Measure,
    Measured,
    MeasureKind,
    added_up,
    object_text,
)
from ledgerstone.pipeline.streams.ordered_values import ordered_bytes, value_of

__all__ = ["MAX_MEASURES", "Aggregate", "GroupTotals", "MeasureKind"]

MAX_MEASURES: Final = 50
KEY: Final = "key"
GROUP: Final = "grp"
ROWS: Final = "rows"
VALUES_SCHEMA: Final = pa.schema(
    [(GROUP, pa.string()), ("at", pa.int32()), ("value", pa.binary()), ("count", pa.int64())]
)

Record = tuple[bytes, bytes | None]
Extremes = Mapping[tuple[str, int], tuple[bytes, bytes]]  # of a group and an aggregate


class GroupSums(NamedTuple):
    """What is known of one group; of each aggregate the number of values, and their sum."""

    rows: int
    counts: tuple[int, ...]
    sums: tuple[ExactSum, ...]

    def plus(self, other: "GroupSums") -> "GroupSums":
        return GroupSums(
            self.rows + other.rows,
            tuple(map(sum, zip(self.counts, other.counts, strict=True))),
            tuple(one.plus(more) for one, more in zip(self.sums, other.sums, strict=True)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotals:
    """Picklable: what is aggregated. `by` are the names that a group's key has."""

    by: tuple[str, ...]
    measured: tuple[Measured, ...]

    def __post_init__(self) -> None:
        if not self.measured or len(self.measured) > MAX_MEASURES:
            raise PipelineError(
                f"{len(self.measured)} aggregates, from 1 to {MAX_MEASURES} are taken"
            )

    @property
    def layout(self) -> Layout:
        """Of `keys`, which is a table as any that follows a topic."""
        columns = [Column(name=GROUP, type=ColumnType.STRING, path=())]
        columns += [
            Column(name=f"m{at}", type=each.column_type, path=())
            for at, each in enumerate(self.measured)
            if not each.counts_rows
        ]
        key = Column(name=KEY, type=ColumnType.BINARY, path=())
        return Layout(keys=(key,), values=tuple(columns), deletes=Deletes.HARD, keep_bytes=False)

    @property
    def group_schema(self) -> pa.Schema:
        fields = [(GROUP, pa.string()), (ROWS, pa.int64())]
        for at in range(len(self.measured)):
            fields += [(f"n{at}", pa.int64()), (f"s{at}", pa.string())]
        return pa.schema(fields)

    @property
    def delta_schema(self) -> pa.Schema:
        """Sums where `at` is null, values elsewhere: both travel in one file."""
        values = [VALUES_SCHEMA.field(name) for name in ("at", "value", "count")]
        return pa.schema([*self.group_schema, *values])

    @property
    def has_values(self) -> bool:
        return any(each.compares for each in self.measured)

    def as_json(self) -> dict[str, Any]:
        return {
            "by": list(self.by),
            "aggregates": [
                {**asdict(each), "kind": each.kind.value, "measure": each.measure.value}
                for each in self.measured
            ],
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "GroupTotals":
        found = [
            Measured(
                **{**each, "kind": MeasureKind(each["kind"]), "measure": Measure(each["measure"])}
            )
            for each in content["aggregates"]
        ]
        return GroupTotals(by=tuple(content["by"]), measured=tuple(found))

    # -- from keys to deltas -------------------------------------------------------------------

    def deltas(self, before: pa.Table, after: pa.Table) -> pa.Table:
        """What the groups of changed keys gain and lose."""
        rows = pa.concat_tables([before, after]).combine_chunks()
        if not rows.num_rows:
            return self.delta_schema.empty_table()
        signs = np.r_[-np.ones(before.num_rows, np.int64), np.ones(after.num_rows, np.int64)]
        names = whole(rows.column(GROUP)).dictionary_encode()
        codes = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        count = len(names.dictionary)
        found: dict[str, Any] = {GROUP: names.dictionary}
        found[ROWS] = _counted(np.ones(len(codes), np.bool_), signs, codes, count)
        for at, each in enumerate(self.measured):
            if each.counts_rows:
                found[f"n{at}"], found[f"s{at}"] = found[ROWS], pa.nulls(count, pa.string())
                continue
            array = whole(rows.column(f"m{at}"))
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            found[f"n{at}"] = _counted(valid, signs, codes, count)
            found[f"s{at}"] = pa.nulls(count, pa.string())
            if each.adds:
                sums = grouped_sums(array, signs, codes, count)
                found[f"s{at}"] = pa.array([one.text() for one in sums], pa.string())
        for field in self.delta_schema:
            found.setdefault(field.name, pa.nulls(count, field.type))
        added = pa.table(found).select(self.delta_schema.names).cast(self.delta_schema)
        return pa.concat_tables([added, *self._value_deltas(rows, signs)])

    def _value_deltas(self, rows: pa.Table, signs: Any) -> Iterable[pa.Table]:  # noqa: ANN401
        for at, each in enumerate(self.measured):
            if not each.compares:
                continue
            array = whole(rows.column(f"m{at}"))
            valid = array.is_valid()
            kept = array.filter(valid)
            given = {
                GROUP: whole(rows.column(GROUP)).filter(valid),
                "at": pa.array(np.full(len(kept), at, np.int32)),
                "value": ordered_bytes(kept, each.measure),
                "count": pa.array(signs).filter(valid),
            }
            yield _with_all(_multiset(pa.table(given)), self.delta_schema)

    # -- from deltas to groups -----------------------------------------------------------------

    def sums_of(self, table: pa.Table) -> dict[str, GroupSums]:
        """By group; of a group that comes more than once, all of it together."""
        found: dict[str, GroupSums] = {}
        for row in table.to_pylist():
            numbers = range(len(self.measured))
            one = GroupSums(
                row[ROWS],
                tuple(row[f"n{at}"] for at in numbers),
                tuple(sum_of_text(row[f"s{at}"] or "0") for at in numbers),
            )
            known = found.get(row[GROUP])
            found[row[GROUP]] = one if known is None else known.plus(one)
        return found

    def group_rows(self, groups: Mapping[str, GroupSums]) -> pa.Table:
        rows = []
        for group, sums in groups.items():
            row: dict[str, Any] = {GROUP: group, ROWS: sums.rows}
            for at, each in enumerate(self.measured):
                row[f"n{at}"] = sums.counts[at]
                row[f"s{at}"] = sums.sums[at].text() if each.adds else None
            rows.append(row)
        return pa.Table.from_pylist(rows, self.group_schema)

    def record(self, group: str, sums: GroupSums | None, extremes: Extremes) -> Record:
        """The result of a group; a tombstone where nothing is left in it."""
        key = json.dumps(dict(zip(self.by, json.loads(group), strict=True)), sort_keys=True)
        if sums is None:
            return key.encode(), None
        result = {
            each.name: self._result(at, each, sums, extremes.get((group, at)))
            for at, each in enumerate(self.measured)
        }
        return key.encode(), object_text(result).encode()

    def _result(
        self, at: int, of: Measured, sums: GroupSums, found: tuple[bytes, bytes] | None
    ) -> Any:  # noqa: ANN401 - of any type
        if of.kind is MeasureKind.COUNT:
            return sums.counts[at]
        if of.adds:
            return added_up(of, sums.counts[at], sums.sums[at])
        if found is None:
            return None
        content = found[0] if of.kind is MeasureKind.MIN else found[1]
        return value_of(content, of.measure, of.scale)


def split_deltas(deltas: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Those of sums, those of values."""
    is_sum = deltas.column("at").is_null()
    values = deltas.filter(pc.invert(is_sum)).select(VALUES_SCHEMA.names)
    return deltas.filter(is_sum), values.cast(VALUES_SCHEMA)


def with_deltas(totals: GroupTotals, held: pa.Table, deltas: pa.Table) -> pa.Table:
    """`groups` after the deltas; a group without rows is gone."""
    changes = totals.sums_of(deltas)
    touched = pc.is_in(held.column(GROUP), value_set=pa.array(list(changes), pa.string()))
    known = totals.sums_of(held.filter(touched))
    found = {}
    for group, gained in changes.items():
        sums = known[group].plus(gained) if group in known else gained
        if sums.rows < 0:
            raise PipelineError(f"a group has {sums.rows} rows: the state is damaged. Delete it")
        if sums.rows:
            found[group] = sums
    return pa.concat_tables([held.filter(pc.invert(touched)), totals.group_rows(found)])


def with_values(held: pa.Table, deltas: pa.Table) -> pa.Table:
    """Only the rows of values that change are grouped again."""
    near = pc.and_(
        pc.is_in(held.column("value"), value_set=pc.unique(deltas.column("value"))),
        pc.is_in(held.column(GROUP), value_set=pc.unique(deltas.column(GROUP))),
    )
    changed = _multiset(pa.concat_tables([held.filter(near), deltas]))
    return pa.concat_tables([held.filter(pc.invert(near)), changed])


def extremes_of(values: pa.Table, groups: pa.Array | None = None) -> Extremes:
    """The least and the greatest value of each group, of these groups or of all."""
    if groups is not None:
        values = values.filter(pc.is_in(values.column(GROUP), value_set=groups))
    found = values.group_by([GROUP, "at"]).aggregate([("value", "min"), ("value", "max")])
    return {
        (row[GROUP], row["at"]): (row["value_min"], row["value_max"]) for row in found.to_pylist()
    }


def _multiset(values: pa.Table) -> pa.Table:
    """One row for each value, without those that no row has any more."""
    grouped = values.group_by([GROUP, "at", "value"], use_threads=False)
    added = grouped.aggregate([("count", "sum")]).rename_columns(VALUES_SCHEMA.names)
    return added.filter(pc.not_equal(added.column("count"), 0)).cast(VALUES_SCHEMA)


def group_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """The group of each row, as a JSON array. Most rows share theirs with others, so each distinct
    one is written once."""
    table = pa.table(dict(zip(map(str, range(len(columns))), columns, strict=True)))
    numbered = table.append_column("row", pa.array(np.arange(table.num_rows)))
    names = list(table.column_names)
    distinct = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    cells = zip(*(distinct.column(name).to_pylist() for name in names), strict=True)
    texts = pa.array(
        [json.dumps([_plain(each) for each in row], ensure_ascii=False) for row in cells],
        pa.string(),
    )
    rows = whole(distinct.column("row_list"))
    owner = rows.flatten().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(rows).to_numpy(zero_copy_only=False)
    places = np.empty(table.num_rows, np.int64)
    places[owner] = np.repeat(np.arange(len(texts)), lengths)
    return texts.take(pa.array(places))


def measure_column(array: pa.Array, of: Measured) -> pa.Array:
    """A column as `keys` has it."""
    if of.kind is MeasureKind.COUNT:
        return pc.if_else(array.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
    wanted = arrow_type(of.column_type)
    if pa.types.is_temporal(array.type):
        distinct = array.dictionary_encode()
        texts = [None if each is None else str(each) for each in distinct.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(distinct.indices)
    return array.cast(wanted)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a cell of any column
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | Decimal):
        return str(value)
    return value


def _counted(wanted: Any, signs: Any, codes: Any, count: int) -> pa.Array:  # noqa: ANN401 - of numpy
    found = np.zeros(count, np.int64)
    np.add.at(found, codes[wanted], signs[wanted])
    return pa.array(found)


def _with_all(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names).cast(schema)
