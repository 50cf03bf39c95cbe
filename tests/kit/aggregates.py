"""An aggregate over a state in files, without Spark: its tasks run one after the other."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ledgerstone.pipeline.streams.aggregate_state import AggregateState
from ledgerstone.pipeline.streams.measures import Aggregate, measured
from ledgerstone.pipeline.streams.micro_batches import apply_rows
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.streams.time_windows import TimeWindows
from ledgerstone.pipeline.streams.totals import GroupTotals
from ledgerstone.pipeline.tables.target import InProcess
from tests.kit.micro_batches import HeldRows


class Change(NamedTuple):
    key: bytes
    partition: int
    offset: int
    written_us: int
    group: str | None  # None: the key is deleted
    measures: tuple[Any, ...]
    time_us: int | None = None  # by which it is in windows


class Killed(Exception):
    """In the place of a kill."""


class Aggregated:
    """`types` are Spark's words for the types of the columns."""

    def __init__(
        self,
        work: Path,
        aggregates: Sequence[Aggregate],
        types: Sequence[str],
        *,
        definition: str = "d",
        to: tuple[str, str] = ("totals", "one"),
        topics: Sequence[str] = (),
        windows: TimeWindows | None = None,
    ) -> None:
        found = tuple(measured(*each) for each in zip(aggregates, types, strict=True))
        self.totals = GroupTotals(by=("g",), measured=found, windows=windows)
        self._columns = [arrow_of(each) for each in types]
        self.store = StateStore(str(work))
        (work / "checkpoint").mkdir(parents=True, exist_ok=True)
        self.state = AggregateState(self.store, self.totals, InProcess())
        self.told: dict[str, Any] = {}
        self.texts: dict[str, str | None] = {}
        self.dies = False
        self.state.open(definition, to, self.tell, topics=topics)

    def tell(self, store: StateStore, version: StateVersion) -> None:
        if self.dies:
            raise Killed
        for path in version.outbox:
            for row in pq.read_table(Path(store.area.root) / path).to_pylist():
                key = json.loads(row["key"])
                group = "@".join(key[name] for name in self.totals.names)
                text = None if row["value"] is None else row["value"].decode()
                self.texts[group] = text
                self.told[group] = None if text is None else json.loads(text)

    def apply(self, batch: int, changes: Sequence[Change], *, alone: bool = False) -> bool:
        """`alone` is one task for all of it, as small batches have it."""
        rows = HeldRows([self.columns([each]) for each in changes], alone=alone)
        return apply_rows(self.state, batch, rows, self.tell)

    def columns(self, changes: Sequence[Change]) -> tuple[pa.Array, ...]:
        columns = [
            pa.array([each.key for each in changes], pa.binary()),
            pa.array([each.partition for each in changes], pa.int32()),
            pa.array([each.offset for each in changes], pa.int64()),
            pa.array([each.written_us for each in changes], pa.int64()),
            pa.array([each.group is None for each in changes], pa.bool_()),
            pa.array([each.time_us for each in changes], pa.int64()),
            pa.array([each.group for each in changes], pa.string()),
        ]
        columns += [
            pa.array([each.measures[at] for each in changes], kind)
            for at, kind in enumerate(self._columns)
        ]
        return tuple(columns)

    def take(self) -> dict[str, Any]:
        """What was told since the last call."""
        found, self.told = self.told, {}
        return found


def arrow_of(type_name: str) -> pa.DataType:
    if type_name.startswith("decimal"):
        precision, scale = type_name[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
    }[type_name]
