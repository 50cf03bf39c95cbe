"""Records of assigned partitions, one object each: for people and small jobs. Shell.

Control batches and aborted records are skipped; the CRC of every batch is checked. A position that
no longer exists raises, so that a reader that was away too long notices.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ledgerstone.client.fetcher import READ_COMMITTED, Fetched, Fetcher
from ledgerstone.records.batch import BatchHeader, verify_crc
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.record import Record, iter_records
from ledgerstone.types import AbortedTxn, TopicPartition


class Consumed(NamedTuple):
    partition: TopicPartition
    record: Record


class AbortedFilter:
    """Finds the batches of one response that belong to aborted transactions.

    The response lists (producer id, first offset) of each; it ends at that producer's abort marker.
    """

    def __init__(self, aborted: tuple[AbortedTxn, ...]) -> None:
        self._coming = sorted(aborted, key=lambda each: each.first_offset)
        self._open: dict[int, int] = {}  # producer id: first offset

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            transaction = self._coming.pop(0)
            self._open[transaction.producer_id] = transaction.first_offset
        if header.is_control:
            if read_control_record(batch).type is ControlType.ABORT:
                self._open.pop(header.producer_id, None)
            return True
        return header.is_transactional and header.producer_id in self._open


def records_of(fetched: Fetched, *, isolation_level: int = READ_COMMITTED) -> Iterator[Record]:
    """The records an application may see, from the fetch offset on."""
    aborted = AbortedFilter(fetched.aborted if isolation_level == READ_COMMITTED else ())
    for header, batch in fetched.batches():
        verify_crc(batch, 0, header)
        if header.record_count == 0 or aborted.hides(header, batch):
            continue
        for record in iter_records(batch):
            if record.offset >= fetched.fetch_offset:
                yield record


class Consumer:
    """Reads from given positions; a group, if any, only stores them."""

    def __init__(self, fetcher: Fetcher, positions: Mapping[TopicPartition, int]) -> None:
        self._fetcher = fetcher
        self.positions = dict(positions)
        self.end_offsets: dict[TopicPartition, int] = {}  # as of the last fetch

    def poll(self, *, max_wait_ms: int | None = None) -> Iterator[Consumed]:
        """The records of one round of fetches, decoded lazily.

        A partition's position moves once all of its records were consumed.
        """
        isolation_level = self._fetcher.config.isolation_level
        for fetched in self._fetcher.fetch(self.positions, max_wait_ms=max_wait_ms):
            partition = fetched.partition
            self.end_offsets[partition] = fetched.end_offset(isolation_level)
            for record in records_of(fetched, isolation_level=isolation_level):
                yield Consumed(partition, record)
            self.positions[partition] = fetched.next_offset
        if self.positions:
            # Only the first partition of a request is sure to get bytes, so they take turns.
            first = next(iter(self.positions))
            self.positions[first] = self.positions.pop(first)
