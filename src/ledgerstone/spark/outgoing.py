"""Outgoing rows, as columns, and the batches they become. Pure.

Rows without headers are encoded by whole columns; rows with headers one by one in the builder.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.client.producer_id import ProducerId
from ledgerstone.dataclasses import dataclass
from ledgerstone.records.batch import MAGIC, TRANSACTIONAL_FLAG, BatchHeader
from ledgerstone.records.builder import RecordHeaders, build_batch, seal_batch
from ledgerstone.records.compression import compress
from ledgerstone.spark.encoding import (
    Int64s,
    Spans,
    encode_records,
    null_spans,
    record_sizes,
    spans_of,
)
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.spark.write_options import WriteColumns, WriteOptions
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition

_ANYWHERE: Final = -1
# More records per batch gain nothing, and consumers have to read a batch whole.
_MAX_RECORDS: Final = 100_000

Headers = Sequence[RecordHeaders] | None


class BatchNumbering(Protocol):
    """The producer, and the sequence of the next batch for a partition."""

    @property
    def identity(self) -> ProducerId: ...

    @property
    def is_transactional(self) -> bool: ...

    def next_sequence(self, partition: TopicPartition, /) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outgoing:
    topics: pa.Array | str  # one for all rows, or one a row
    keys: Spans
    values: Spans
    partition: Int64s  # -1: where the key belongs
    timestamp_ms: Int64s
    headers: Headers

    def __len__(self) -> int:
        return len(self.keys.start)

    def take(self, rows: Int64s) -> "Outgoing":
        return Outgoing(
            topics=self.topics
            if isinstance(self.topics, str)
            else self.topics.take(pa.array(rows)),
            keys=self.keys.take(rows),
            values=self.values.take(rows),
            partition=self.partition[rows],
            timestamp_ms=self.timestamp_ms[rows],
            headers=None if self.headers is None else [self.headers[row] for row in rows],
        )

    def by_topic(self) -> Iterator[tuple[str, "Outgoing"]]:
        if isinstance(self.topics, str):
            yield self.topics, self
            return
        for topic in pc.unique(self.topics).to_pylist():
            if topic is None:
                raise WriteFailed("a row has no topic, and no option says one")
            rows = np.flatnonzero(pc.equal(self.topics, topic).to_numpy(zero_copy_only=False))
            yield topic, self.take(rows)


def outgoing_rows(
    batch: pa.RecordBatch, columns: WriteColumns, options: WriteOptions, now_ms: int
) -> Outgoing:
    count = batch.num_rows

    def column(place: int | None) -> pa.Array | None:
        return None if place is None else batch.column(place)

    keys, topics, headers = column(columns.key), column(columns.topic), column(columns.headers)
    return Outgoing(
        topics=options.topic or topics,
        keys=null_spans(count) if keys is None else spans_of(keys),
        values=spans_of(batch.column(columns.value)),
        partition=_partitions(column(columns.partition), count),
        timestamp_ms=_times(column(columns.timestamp), count, now_ms),
        headers=None if headers is None or headers.null_count == count else _headers(headers),
    )


def _partitions(column: pa.Array | None, count: int) -> Int64s:
    lowest = None if column is None else pc.min(column).as_py()
    if lowest is not None and lowest < 0:
        raise WriteFailed(f"a row asks for partition {lowest}")
    return _numbers(column, count, _ANYWHERE)


def _numbers(column: pa.Array | None, count: int, default: int) -> Int64s:
    if column is None:
        return np.full(count, default, np.int64)
    filled = column.cast(pa.int64()).fill_null(default)
    found: Int64s = filled.to_numpy(zero_copy_only=False)
    return found


def _times(column: pa.Array | None, count: int, now_ms: int) -> Int64s:
    if column is None:
        return np.full(count, now_ms, np.int64)
    # Records have milliseconds; the rest of the microseconds is cut off.
    millis = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())
    return _numbers(millis, count, now_ms)


def _headers(column: pa.Array) -> list[RecordHeaders]:
    cells: list[list[dict[str, Any]] | None] = column.to_pylist()
    return [[(each["key"], each["value"]) for each in cell or ()] for cell in cells]


def built_batches(
    rows: Outgoing, topic: str, numbers: Int64s, options: WriteOptions, producer: BatchNumbering
) -> Iterator[dict[TopicPartition, tuple[int, bytearray]]]:
    """Rounds of one batch per partition; the next is built once the previous one was sent."""
    if not len(rows):
        return
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    queues = {
        TopicPartition(topic, int(number)): _chunks(rows, chunk, options)
        for number, chunk in zip(found, np.split(order, starts[1:]), strict=True)
    }
    while queues:
        heads = {partition: chunks.pop(0) for partition, chunks in queues.items()}
        yield {
            partition: (len(chunk), _built(rows.take(chunk), partition, options, producer))
            for partition, chunk in heads.items()
        }
        queues = {partition: chunks for partition, chunks in queues.items() if chunks}


def _chunks(rows: Outgoing, chosen: Int64s, options: WriteOptions) -> list[Int64s]:
    sizes = record_sizes(rows.keys.take(chosen), rows.values.take(chosen))
    if rows.headers is not None:
        sizes = sizes + np.array([_headers_size(rows.headers[row]) for row in chosen], np.int64)
    ends = np.cumsum(sizes)
    chunks = []
    first = 0
    while first < len(chosen):
        used = int(ends[first - 1]) if first else 0
        stop = int(np.searchsorted(ends, used + options.batch_bytes, side="right"))
        stop = min(max(stop, first + 1), first + _MAX_RECORDS)
        chunks.append(chosen[first:stop])
        first = stop
    return chunks


def _headers_size(headers: RecordHeaders) -> int:
    return sum(len(name) * 4 + len(value or b"") + 10 for name, value in headers)


def _built(
    rows: Outgoing, partition: TopicPartition, options: WriteOptions, producer: BatchNumbering
) -> bytearray:
    identity, sequence = producer.identity, producer.next_sequence(partition)
    if rows.headers is not None:
        parts = [
            (
                int(rows.timestamp_ms[row]),
                rows.keys.bytes_at(row),
                rows.values.bytes_at(row),
                headers,
            )
            for row, headers in enumerate(rows.headers)
        ]
        return build_batch(
            parts,
            codec=options.codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            transactional=producer.is_transactional,
        )
    base_timestamp = int(rows.timestamp_ms[0])
    payload = encode_records(rows.keys, rows.values, rows.timestamp_ms - base_timestamp)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=int(options.codec) | (TRANSACTIONAL_FLAG if producer.is_transactional else 0),
        last_offset_delta=len(rows) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=int(rows.timestamp_ms.max()),
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=sequence,
        record_count=len(rows),
    )
    return seal_batch(header, compress(options.codec, payload, None))
