"""Deletes from a copy what its original no longer has. Shell; on an executor.

For deletes that were removed before the mirror read them: a key that is live in the copy and of
which the original has no record was deleted. Whatever the original has, a tombstone too, is copied
anyway, so nothing else is touched; what is written to the original meanwhile is copied afterwards,
behind the tombstones written here.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import READ_COMMITTED
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.mirror.copying import PASSING, TaskFailed
from ledgerstone.pipeline.mirror.marks import REPAIRED
from ledgerstone.pipeline.mirror.reading import read_rows, shape_of
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import FoldMode, RowOptions
from ledgerstone.types import TopicPartition

_KEY: Final = ("key",)
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTask:
    source: str  # bootstrap
    target: str
    partition: TopicPartition  # of the original
    target_topic: str
    copy_id: str
    topic_id: str | None
    reason: str
    # Files with the client's properties for each, by Kafka's names.
    source_config: str | None = None
    target_config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    partition: TopicPartition
    reason: str
    keys: int  # that were deleted from the copy


def repair_partition(task: RepairTask) -> Repaired | TaskFailed:
    try:
        with (
            connect_to(task.source, task.source_config) as source,
            connect_to(task.target, task.target_config) as target,
        ):
            return _repair(task, source, target)
    except PASSING as error:
        return TaskFailed(partition=task.partition, reason=f"{type(error).__name__}: {error}")


def _repair(task: RepairTask, source: Client, target: Client) -> Repaired:
    to = TopicPartition(task.target_topic, task.partition.partition)
    # The copy first: whatever is in it by now, the original had before.
    there = _keys(target, to, None, with_deleted=False)
    kept = _keys(source, task.partition, task.topic_id, with_deleted=True)
    extra = there.filter(pc.invert(pc.is_in(there, value_set=kept)))
    producer = Producer(target, ProducerConfig(idempotent=True))
    header = (REPAIRED, task.copy_id.encode())
    for keys in _chunks(extra):
        records = [NewRecord(to.topic, key, None, [header], to.partition) for key in keys]
        for outcome in producer.send(records):
            if isinstance(outcome, Exception):
                raise outcome
    return Repaired(partition=task.partition, reason=task.reason, keys=len(extra))


def _keys(
    client: Client, partition: TopicPartition, topic_id: str | None, *, with_deleted: bool
) -> pa.ChunkedArray:
    start = list_offsets(client, {partition: EARLIEST})[partition].offset
    end = list_offsets(client, {partition: LATEST}, isolation_level=READ_COMMITTED)[partition]
    options = RowOptions(fold=FoldMode.LATEST, include_tombstones=with_deleted)
    wanted = OffsetRange(partition, start, end.offset)
    rows = read_rows(client, wanted, topic_id=topic_id, options=options, names=_KEY)
    return pa.Table.from_batches(rows, shape_of(_KEY).schema).column("key")


def _chunks(keys: pa.ChunkedArray) -> Iterator[list[bytes]]:
    for first in range(0, len(keys), _AT_ONCE):
        yield keys.slice(first, _AT_ONCE).to_pylist()
