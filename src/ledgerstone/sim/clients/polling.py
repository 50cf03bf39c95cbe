"""Fetching from several partitions at once, as a consumer of either isolation level."""

from typing import NamedTuple

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.sim.attempts import SeenRange, TxnBook
from ledgerstone.sim.clients.committed_read import AbortedRange, deliver
from ledgerstone.sim.clients.membership import WAIT
from ledgerstone.sim.model import FoundRecord
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

FETCH_VERSION = 12
_READ_COMMITTED = 1


class Polled(NamedTuple):
    topic_partition: TopicPartition
    records: list[FoundRecord]
    next_offset: int


def fetch_request(
    positions: dict[TopicPartition, int], *, is_committed: bool, max_bytes: int, wait_ms: int
) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for tp, position in positions.items():
        topics.setdefault(tp.topic, []).append(
            FetchPartition(
                partition=tp.partition, fetch_offset=position, partition_max_bytes=max_bytes
            )
        )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=_READ_COMMITTED if is_committed else 0,
        session_epoch=-1,
        topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
    )


def polled(
    book: TxnBook,
    reader: str,
    positions: dict[TopicPartition, int],
    answer: FetchResponse,
    *,
    is_committed: bool,
) -> list[Polled]:
    """What the answer delivers; a partition that cannot be read now delivers nothing."""
    found = []
    for topic in answer.responses:
        for each in topic.partitions:
            tp = TopicPartition(topic.topic, each.partition_index)
            if each.error_code in WAIT:
                continue
            if each.error_code != ErrorCode.NONE:
                name = ErrorCode(each.error_code).name
                raise Violation("ReadersGoOn", f"{reader} at {positions[tp]} of {tp}: {name}")
            found.append(_take(book, reader, tp, positions[tp], each, is_committed))
    return found


def _take(
    book: TxnBook,
    reader: str,
    tp: TopicPartition,
    position: int,
    answer: FetchPartitionResponse,
    is_committed: bool,
) -> Polled:
    aborted = [
        AbortedRange(each.producer_id, each.first_offset)
        for each in answer.aborted_transactions or ()
    ]
    data = bytes(answer.records or b"")  # type: ignore[arg-type]
    records, next_offset = deliver(data, position, aborted if is_committed else ())
    if is_committed and records and records[-1].offset >= answer.last_stable_offset:
        raise Violation(
            "NoDirtyRead",
            f"{reader} got {tp} offset {records[-1].offset}, stable to {answer.last_stable_offset}",
        )
    for record in records:
        book.model.learn(tp, record.offset, record.serial)
        attempt = book.by_serial.get(record.serial)
        if is_committed and attempt is not None and attempt.commit_asked_ms is None:
            raise Violation(
                "NoDirtyRead",
                f"{reader} got {tp} offset {record.offset} of {attempt}, which asked for no commit",
            )
    if next_offset > position:
        serials = tuple(record.serial for record in records)
        book.ranges.append(SeenRange(reader, tp, position, next_offset, is_committed, serials))
    return Polled(tp, records, next_offset)
