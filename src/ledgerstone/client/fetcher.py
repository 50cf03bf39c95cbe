"""Raw batches by partition and offset, for Spark and for `consumer`. Shell.

Nothing is decoded here but batch headers. Offsets have gaps where compaction or a transaction
marker was, so readers continue at the `next_offset` of the last batch, never at "last record + 1".
"""

from collections.abc import Iterator, Mapping
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.client.rounds import PartitionAnswer
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptRecord
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.types import AbortedTxn, TopicPartition

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1 << 20
    isolation_level: int = READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of one fetch for one partition."""

    partition: TopicPartition
    fetch_offset: int
    next_offset: int  # where to fetch next; the fetch offset if nothing came
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: memoryview  # whole batches; the first may begin below the fetch offset
    aborted: tuple[AbortedTxn, ...]

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Each batch that reaches the fetch offset."""
        for position, header in iter_headers(self.records):
            if header.next_offset > self.fetch_offset:
                yield header, self.records[position : position + header.size]

    def end_offset(self, isolation_level: int) -> int:
        """The end of what a reader of this isolation level can read."""
        if isolation_level == READ_UNCOMMITTED or self.last_stable_offset < 0:
            return self.high_watermark
        return self.last_stable_offset


class Fetcher:
    def __init__(self, client: Client, config: FetchConfig | None = None) -> None:
        self._client = client
        self.config = config or FetchConfig()

    def fetch(
        self, positions: Mapping[TopicPartition, int], *, max_wait_ms: int | None = None
    ) -> list[Fetched]:
        """One fetch from every leader concerned. Raises errors such as OffsetOutOfRange."""
        wait_ms = self.config.max_wait_ms if max_wait_ms is None else max_wait_ms
        cluster = self._client.session.cluster
        leaders = dict.fromkeys(map(cluster.leader_of, positions))
        # Leaders are asked one after the other and share the waiting time.
        share_ms = wait_ms // max(len(leaders), 1)

        def build(group: Mapping[TopicPartition, int]) -> FetchRequest:
            return self._request(group, share_ms)

        answers = self._client.ask_leaders("Fetch", positions, build, self._read, FetchResponse)
        done = answers.all_done()
        return [_fetched(each, done[each], offset) for each, offset in positions.items()]

    def read_range(
        self, partition: TopicPartition, start_offset: int, end_offset: int
    ) -> Iterator[Fetched]:
        """Fetches until `end_offset`, or the end of the readable log if that is lower."""
        position = start_offset
        max_wait_ms = 0
        while position < end_offset:
            (fetched,) = self.fetch({partition: position}, max_wait_ms=max_wait_ms)
            if fetched.next_offset > position:
                position = fetched.next_offset
                max_wait_ms = 0
                yield fetched
            elif position >= self.end_offset(fetched):
                return
            else:
                # There is more, but it was not sent. Retrying at once would only keep the broker
                # busy.
                max_wait_ms = self.config.max_wait_ms

    def end_offset(self, fetched: Fetched) -> int:
        """The end of what can be read, once an answer has brought nothing.

        A leader that was just elected may not know yet how much is committed, and its answer ends
        too early. Asked for the end, it says so, and the client waits (KIP-207)."""
        isolation_level = self.config.isolation_level
        end_offset = fetched.end_offset(isolation_level)
        if fetched.fetch_offset < end_offset:
            return end_offset
        partition = fetched.partition
        latest = list_offsets(self._client, {partition: LATEST}, isolation_level=isolation_level)
        return latest[partition].offset

    def _request(self, positions: Mapping[TopicPartition, int], max_wait_ms: int) -> FetchRequest:
        cluster = self._client.session.cluster
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self.config.min_bytes,
            max_bytes=self.config.max_bytes,
            isolation_level=self.config.isolation_level,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=cluster.topic_id(topic),
                    partitions=[
                        FetchPartition(
                            partition=number,
                            current_leader_epoch=cluster.leader_epoch_of(
                                TopicPartition(topic, number)
                            ),
                            fetch_offset=offset,
                            partition_max_bytes=self.config.partition_max_bytes,
                        )
                        for number, offset in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(positions).items()
            ],
        )

    def _read(self, response: FetchResponse) -> Iterator[PartitionAnswer[FetchPartitionResponse]]:
        cluster = self._client.session.cluster
        for topic in response.responses:
            name = cluster.name_of(topic.topic, topic.topic_id)
            if name is None:
                continue
            for each in topic.partitions:
                code = response.error_code or each.error_code
                partition = TopicPartition(name, each.partition_index)
                yield PartitionAnswer(partition, code, each, _range_of(each))


def _range_of(answer: FetchPartitionResponse) -> str | None:
    """The valid range, for an error message."""
    if answer.log_start_offset < 0 or answer.high_watermark < 0:
        return None
    return f"offsets {answer.log_start_offset} to {answer.high_watermark} are there"


def _fetched(
    partition: TopicPartition, answer: FetchPartitionResponse, fetch_offset: int
) -> Fetched:
    assert answer.records is None or isinstance(answer.records, memoryview)
    records = memoryview(b"") if answer.records is None else answer.records
    next_offset, end = fetch_offset, 0
    for position, header in iter_headers(records):
        next_offset = max(next_offset, header.next_offset)
        end = position + header.size
    if end and next_offset == fetch_offset:
        raise CorruptRecord(f"{partition}: {end} bytes of batches, none of them at {fetch_offset}")
    return Fetched(
        partition=partition,
        fetch_offset=fetch_offset,
        next_offset=next_offset,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        records=records[:end],
        aborted=tuple(
            AbortedTxn(each.producer_id, each.first_offset)
            for each in answer.aborted_transactions or ()
        ),
    )
