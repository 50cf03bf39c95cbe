"""What a table that follows a topic has to hold, in plain Python: record by record."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.changes import changes_decoder
from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.definition_files import define
from ledgerstone.pipeline.layout import OFFSET, PARTITION, layout_of
from tests.kit.table_targets import table_at

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int


def text_pipeline(kind: str, location: str, deletes: str = "hard", **table: Any) -> Pipeline:
    """Keys and values are text; the table is `people(id, said)`. What it puts down beside the table
    goes to a place of its own: a run removes what lies there as left behind by a dead one."""
    beside = {} if "://" in location else {"work": f"{location}-work"}
    return define(
        {
            "name": "people",
            "source": {"topic": "people-topic"},
            **beside,
            "key": {"format": "string", "column": "id"},
            "value": {"format": "string", "column": "said"},
            "table": table_at(kind, location, deletes=deletes, **table),
        },
        directory=Path(),
    )


def record_batch(records: Iterable[Record]) -> pa.RecordBatch:
    listed = list(records)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([each.key for each in listed], pa.binary()),
            "value": pa.array([each.value for each in listed], pa.binary()),
            "partition": pa.array([each.partition for each in listed], pa.int32()),
            "offset": pa.array([each.offset for each in listed], pa.int64()),
            "timestamp": pa.array(
                [each.timestamp_ms * 1000 for each in listed], pa.timestamp("us", tz="UTC")
            ),
        }
    )


def changes_of(pipeline: Pipeline, records: Iterable[Record]) -> pa.Table:
    batch = changes_decoder(pipeline)(record_batch(records))
    return pa.Table.from_batches([batch], layout_of(pipeline).change_schema)


def moment(timestamp_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def expected_rows(records: Iterable[Record], deletes: Deletes) -> list[tuple[Any, ...]]:
    """Rows of `people`: id, said, partition, offset, timestamp and, if there is one, the end."""
    rows: dict[tuple[Any, ...], list[Any]] = {}
    for each in records:
        name, said = each.key.decode(), None if each.value is None else each.value.decode()
        at = moment(each.timestamp_ms)
        origin = [each.partition, each.offset, at]
        if deletes is Deletes.HISTORY:
            for identity, row in rows.items():
                if identity[:2] == (name, each.partition) and row[-1] is None:
                    row[-1] = at
            if said is not None:
                rows[name, each.partition, each.offset] = [name, said, *origin, None]
        elif said is not None:
            rows[(name,)] = [name, said, *origin, *([None] if deletes is Deletes.SOFT else [])]
        elif deletes is Deletes.HARD:
            rows.pop((name,), None)
        else:
            rows[(name,)] = [name, None, *origin, at]
    return sorted((tuple(row) for row in rows.values()), key=lambda row: (row[0], row[2], row[3]))


def table_rows(pieces: Iterable[pa.Table]) -> list[tuple[Any, ...]]:
    """As the model has them: what a deleted row still says depends on how changes were cut."""
    found = []
    for row in (row for piece in pieces for row in piece.to_pylist()):
        if row.get("_deleted_at") is not None:
            row["said"] = None
        found.append(tuple(row.values()))
    return sorted(found, key=lambda row: (row[0], row[2], row[3]))


def not_yet_applied(changes: pa.Table, positions: dict[int, int]) -> pa.Table:
    """Without the changes that a table at `positions` has already applied."""
    numbers = pa.array(list(positions), pa.int32())
    if not len(numbers) or not changes.num_rows:
        return changes
    offsets = pa.array(list(positions.values()), pa.int64())
    place = pc.index_in(changes.column(PARTITION), value_set=numbers)
    next_offset = pc.fill_null(pc.take(offsets, place), 0)
    is_new = pc.greater_equal(changes.column(OFFSET), next_offset)
    return changes if pc.all(is_new).as_py() else changes.filter(is_new)


def positions_after(changes: pa.Table) -> dict[int, int]:
    """The offset after the last change of each partition."""
    grouped = changes.group_by(PARTITION).aggregate([(OFFSET, "max")])
    pairs = zip(grouped[PARTITION].to_pylist(), grouped[f"{OFFSET}_max"].to_pylist(), strict=True)
    return {partition: offset + 1 for partition, offset in sorted(pairs)}
