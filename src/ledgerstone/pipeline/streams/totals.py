"""Aggregates over a changing table: what a key gave is taken back when it changes. Pure.

Four tables are the state. `keys` has the group and the measures of each live key, and nothing of
deleted ones. `groups` has the sums of each group. `values` and `extremes` are there for `min` and
`max` (`group_values`). A change of keys becomes deltas, a row for each group and for each value;
deltas are added, and a group whose result differs from what it was is told. No step needs more than
the rows of its own keys, values or groups.
"""

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
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
from ledgerstone.pipeline.streams.group_values import (
    GROUP,
    VALUES_SCHEMA,
    Extremes,
    multiset,
)
from ledgerstone.pipeline.streams.measures import (
    Aggregate,
    Measure,
    Measured,
    MeasureKind,
    added_up,
    object_text,
)
from ledgerstone.pipeline.streams.ordered_values import ordered_bytes, value_of
from ledgerstone.pipeline.streams.time_windows import NAMES as WINDOW_NAMES
from ledgerstone.pipeline.streams.time_windows import TIME, TimeWindows

__all__ = ["MAX_MEASURES", "Aggregate", "GroupTotals", "MeasureKind"]

MAX_MEASURES: Final = 50
KEY: Final = "key"
ROWS: Final = "rows"
_NO_NUMBERS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

Record = tuple[bytes, bytes | None]


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
    windows: TimeWindows | None = None

    def __post_init__(self) -> None:
        if not self.measured or len(self.measured) > MAX_MEASURES:
            raise PipelineError(
                f"{len(self.measured)} aggregates, from 1 to {MAX_MEASURES} are taken"
            )
        names = [each.name for each in self.measured]
        for name in names:
            if names.count(name) > 1:
                raise PipelineError(f"aggregate {name}: there is another one of this name")

    @property
    def names(self) -> tuple[str, ...]:
        """Those that the key of a result has."""
        return self.by if self.windows is None else (*self.by, *WINDOW_NAMES)

    @property
    def layout(self) -> Layout:
        """Of `keys`, which is a table as any that follows a topic."""
        columns = [Column(name=GROUP, type=ColumnType.STRING, path=())]
        columns += [
            Column(name=f"m{at}", type=each.column_type, path=())
            for at, each in enumerate(self.measured)
            if not each.counts_rows
        ]
        if self.windows is not None:
            columns.append(Column(name=TIME, type=ColumnType.INT64, path=()))
        key = Column(name=KEY, type=ColumnType.BINARY, path=())
        return Layout(keys=(key,), values=tuple(columns), deletes=Deletes.HARD, keep_bytes=False)

    @property
    def group_schema(self) -> pa.Schema:
        fields = [(GROUP, pa.string()), (ROWS, pa.int64())]
        for at in range(len(self.measured)):
            fields += [(f"n{at}", pa.int64()), (f"s{at}", pa.string())]
        return pa.schema(fields)

    @property
    def has_values(self) -> bool:
        return any(each.compares for each in self.measured)

    def as_json(self) -> dict[str, Any]:
        return {
            "by": list(self.by),
            "windows": None if self.windows is None else asdict(self.windows),
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
        windows = content["windows"]
        return GroupTotals(
            by=tuple(content["by"]),
            measured=tuple(found),
            windows=None if windows is None else TimeWindows(**windows),
        )

    # -- from keys to deltas -------------------------------------------------------------------

    def deltas(self, before: pa.Table, after: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
        """What the groups of changed keys gain and lose: their sums, and their values. With windows
        in pieces, for a row may be in a thousand of them; a group can be in several pieces."""
        rows = pa.concat_tables([before, after]).combine_chunks()
        signs = np.r_[-np.ones(before.num_rows, np.int64), np.ones(after.num_rows, np.int64)]
        if self.windows is None:
            yield self._deltas(rows, signs)
            return
        # In order, so that few groups are in more than one piece.
        order = pc.sort_indices(rows, sort_keys=[(GROUP, "ascending"), (TIME, "ascending")])
        rows, signs = rows.take(order), signs[order.to_numpy()]
        at_once = self.windows.rows_at_once
        for at in range(0, rows.num_rows, at_once):
            piece = slice(at, at + at_once)
            yield self._deltas(*self.windows.spread(rows[piece], signs[piece]))

    def _deltas(self, rows: pa.Table, signs: Any) -> tuple[pa.Table, pa.Table]:  # noqa: ANN401
        if not rows.num_rows:
            return self.group_schema.empty_table(), VALUES_SCHEMA.empty_table()
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
        sums = pa.table(found).select(self.group_schema.names).cast(self.group_schema)
        nothing = VALUES_SCHEMA.empty_table()
        return sums, pa.concat_tables([nothing, *self._value_deltas(rows, signs)])

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
            yield multiset(pa.table(given).cast(VALUES_SCHEMA))

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
        key = json.dumps(dict(zip(self.names, json.loads(group), strict=True)), sort_keys=True)
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


def group_texts(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """The group of each row, as a JSON array. Most rows share theirs with others, so each distinct
    one is written once."""
    if not columns:
        return pa.array(["[]"] * rows, pa.string())
    table = pa.table(dict(zip(map(str, range(len(columns))), columns, strict=True)))
    numbered = table.append_column("row", pa.array(np.arange(table.num_rows)))
    names = list(table.column_names)
    distinct = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    cells = zip(*(distinct.column(name).to_pylist() for name in names), strict=True)
    texts = pa.array(
        [json.dumps([_plain(each) for each in row], ensure_ascii=False) for row in cells],
        pa.string(),
    )
    members = whole(distinct.column("row_list"))
    owner = members.flatten().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(members).to_numpy(zero_copy_only=False)
    places = np.empty(table.num_rows, np.int64)
    places[owner] = np.repeat(np.arange(len(texts)), lengths)
    return texts.take(pa.array(places))


def measure_column(array: pa.Array, of: Measured) -> pa.Array:
    """A column as `keys` has it."""
    if of.kind is MeasureKind.COUNT:
        return pc.if_else(array.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
    wanted = arrow_type(of.column_type)
    if pa.types.is_temporal(array.type):
        if pa.types.is_timestamp(array.type) and array.type.tz is not None:
            # Spark gives them in the zone of the session, where an hour may come twice.
            array = array.cast(pa.timestamp("us", tz="UTC"))
        distinct = array.dictionary_encode()
        texts = [None if each is None else str(each) for each in distinct.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(distinct.indices)
    return array.cast(wanted)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a cell of any column
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        # A negative zero is zero; what is no number is told in words, as a sum is.
        return value + 0.0 if math.isfinite(value) else _NO_NUMBERS[str(value)]
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    if isinstance(value, datetime | date | Decimal):
        return str(value)
    return value


def _counted(wanted: Any, signs: Any, codes: Any, count: int) -> pa.Array:  # noqa: ANN401 - of numpy
    found = np.zeros(count, np.int64)
    np.add.at(found, codes[wanted], signs[wanted])
    return pa.array(found)
