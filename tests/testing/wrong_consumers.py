"""Consumers that each make one common mistake. The kit must catch every one of them.

All go on where they were, with the state they had. `Resuming` makes no other mistake than that.
"""

from collections.abc import Iterator
from typing import Any

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchConfig,
    Fetched,
    Fetcher,
)
from ledgerstone.records.record import Record, iter_records
from ledgerstone.testing.conformance import ConsumerTask, TombstoneConformance
from ledgerstone.testing.conformance.task import State
from ledgerstone.types import TopicPartition

Rows = dict[tuple[int, bytes], bytes]


class Resuming(TombstoneConformance):
    """Trusts its offsets however long it was away: the tombstone may have come and gone."""

    isolation_level = READ_COMMITTED

    def consume(self, task: ConsumerTask) -> State:
        rows: Rows = task.memory.setdefault("rows", {})
        positions: dict[int, int] = task.memory.setdefault("positions", {})
        host, _, port = task.bootstrap.rpartition(":")
        with Client([Endpoint(host, int(port))]) as client:
            config = FetchConfig(isolation_level=self.isolation_level)
            fetcher = Fetcher(client, config)
            for number, end in task.end_offsets.items():
                start = self.start_offset(task, number, end)
                for fetched in fetcher.read_range(TopicPartition(task.topic, number), start, end):
                    for record in self.seen(fetched):
                        self.apply(task, rows, number, record)
                positions[number] = end
        return {key: value for (_, key), value in rows.items()}

    def start_offset(self, task: ConsumerTask, number: int, end: int) -> int:
        at: int = task.memory["positions"].get(number, 0)
        return at

    def seen(self, fetched: Fetched) -> Iterator[Record]:
        yield from records_of(fetched, isolation_level=self.isolation_level)

    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        assert record.key is not None
        if record.value is None:
            rows.pop((number, record.key), None)
        else:
            rows[number, record.key] = record.value


class IgnoresNull(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        if record.value is not None:
            super().apply(task, rows, number, record)


class TakesNullWithHeadersForAnEvent(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        if record.value is not None or not record.headers:
            super().apply(task, rows, number, record)


class ForgetsForEver(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        dead: list[Any] = task.memory.setdefault("dead", [])
        if record.value is None:
            dead.append(record.key)
        if record.value is None or record.key not in dead:
            super().apply(task, rows, number, record)


class StumblesOverUnknownKeys(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        if record.value is None:
            assert record.key is not None
            del rows[number, record.key]
        else:
            super().apply(task, rows, number, record)


class TakesRepetitionForCorruption(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        dead: list[Any] = task.memory.setdefault("dead", [])
        if record.value is None and record.key in dead:
            raise RuntimeError(f"{record.key!r} was deleted twice")
        if record.value is None:
            dead.append(record.key)
        super().apply(task, rows, number, record)


class TakesEmptyForNull(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        super().apply(task, rows, number, record._replace(value=record.value or None))


class SkipsTransactions(Resuming):
    def seen(self, fetched: Fetched) -> Iterator[Record]:
        for header, batch in fetched.batches():
            if not header.is_transactional:
                yield from iter_records(batch)


class ReadsUncommitted(Resuming):
    isolation_level = READ_UNCOMMITTED


class DropsWhatLiesBetween(Resuming):
    """Takes an aborted transaction for a range of offsets."""

    def seen(self, fetched: Fetched) -> Iterator[Record]:
        ends = {
            header.producer_id: header.base_offset
            for header, _ in fetched.batches()
            if header.is_control
        }
        for record in super().seen(fetched):
            if not any(
                each.first_offset < record.offset < ends.get(each.producer_id, record.offset)
                for each in fetched.aborted
            ):
                yield record


class WantsEveryOffset(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        expected = task.memory.get("next", 0)
        if record.offset != expected:
            raise RuntimeError(f"offset {record.offset}, expected {expected}")
        task.memory["next"] = record.offset + 1
        super().apply(task, rows, number, record)


class WaitsForEveryOffset(Resuming):
    """Counts records instead of using positions, and waits for records that never come."""

    timeout_s = 1.0

    def consume(self, task: ConsumerTask) -> State:
        state = super().consume(task)
        if task.memory["records"] < sum(task.end_offsets.values()):
            task.memory["never"].wait()
        return state

    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        from threading import Event

        task.memory.setdefault("never", Event())
        task.memory["records"] = task.memory.get("records", 0) + 1
        super().apply(task, rows, number, record)


class StartsAtTheEnd(Resuming):
    """auto.offset.reset=latest and no offsets kept: what was written meanwhile is not read."""

    def start_offset(self, task: ConsumerTask, number: int, end: int) -> int:
        return end - 1 if task.memory["positions"] else 0


class HasOneTableForAllPartitions(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        super().apply(task, rows, 0, record)


class TakesABatchForARecord(Resuming):
    def seen(self, fetched: Fetched) -> Iterator[Record]:
        for _, batch in fetched.batches():
            yield from list(iter_records(batch))[:1]


class CutsLargeValues(Resuming):
    def apply(self, task: ConsumerTask, rows: Rows, number: int, record: Record) -> None:
        value = None if record.value is None else record.value[:65_535]
        super().apply(task, rows, number, record._replace(value=value))


class ReturnsText(Resuming):
    def consume(self, task: ConsumerTask) -> Any:
        super().consume(task)
        return {"a": "1"}
