"""Finds what an earlier attempt of the same task has already written. Shell; rules in README.md.

Before an attempt writes, it commits a note to its own group: the batch of the query, its producer
id, and where each partition ended. A later attempt of the same task and batch finds the note, reads
what that producer wrote from there on, and skips those rows.

This is for writes without transactions; `two_phase` is the other way.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import READ_UNCOMMITTED, FetchConfig, Fetched, Fetcher
from ledgerstone.client.offsets import (
    LATEST,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from ledgerstone.records.batch import BatchHeader
from ledgerstone.records.record import iter_records
from ledgerstone.spark.decision import WriteId
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.types import TopicPartition

_FETCH_BYTES: Final = 8 << 20


class WrittenRow(NamedTuple):
    """What makes a record the same as a row. Its time may have been the clock's."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Delivery(Protocol):
    def begin(self, topic: str) -> Counter[WrittenRow]:
        """Called before the first record of a topic; returns what is already there."""
        ...


class AtLeastOnce:
    """Writes everything again."""

    def begin(self, topic: str) -> Counter[WrittenRow]:
        del topic
        return Counter()


class NotedDelivery:
    def __init__(self, client: Client, write_id: WriteId, producer_id: int) -> None:
        self._client = client
        self._id = write_id
        self._producer_id = producer_id

    def begin(self, topic: str) -> Counter[WrittenRow]:
        partitions = [TopicPartition(topic, n) for n in self._client.topic(topic).partitions]
        notes = committed_offsets(self._client, self._id.group_id, partitions)
        ends = list_offsets(self._client, dict.fromkeys(partitions, LATEST))
        found: Counter[WrittenRow] = Counter()
        fresh: dict[TopicPartition, CommittedOffset] = {}
        for each in partitions:
            note = notes.get(each)
            earlier = () if note is None else producers_in(note.metadata, self._id.batch_id)
            start, end = ends[each].offset, ends[each].offset
            if note is not None and earlier:
                start = note.offset
                found += self._written(each, start, end, earlier)
            text = note_of(self._id.batch_id, [*earlier, self._producer_id])
            fresh[each] = CommittedOffset(start, metadata=text)
        # Crash here: the note names a producer that has written nothing, which is true.
        commit_offsets(self._client, self._id.group_id, fresh)
        return found

    def _written(
        self, partition: TopicPartition, start: int, end: int, producers: Iterable[int]
    ) -> Counter[WrittenRow]:
        config = FetchConfig(partition_max_bytes=_FETCH_BYTES, isolation_level=READ_UNCOMMITTED)
        fetcher = Fetcher(self._client, config)
        found: Counter[WrittenRow] = Counter()
        for fetched in fetcher.read_range(partition, start, end):
            for header, batch in _batches_of(fetched, tuple(producers)):
                if header.record_count <= header.last_offset_delta:
                    raise WriteFailed(
                        f"{partition}: an earlier attempt of {self._id} was compacted at offset "
                        f"{header.base_offset} already, so it is unknown what it wrote; "
                        "deduplicate=false writes all of it again"
                    )
                found.update(
                    WrittenRow(partition.partition, record.key, record.value, tuple(record.headers))
                    for record in iter_records(batch)
                )
        return found


def _batches_of(
    fetched: Fetched, producers: tuple[int, ...]
) -> Iterable[tuple[BatchHeader, memoryview]]:
    return (each for each in fetched.batches() if each[0].producer_id in producers)


def note_of(batch_id: int, producers: Iterable[int]) -> str:
    return f"{batch_id}:{','.join(map(str, producers))}"


def producers_in(note: str | None, batch_id: int) -> tuple[int, ...]:
    """Notes of earlier attempts of this batch; none if the note is about another batch."""
    noted_batch, _, producers = (note or "").partition(":")
    if noted_batch != str(batch_id):
        return ()
    return tuple(int(each) for each in producers.split(",") if each.isdigit())
