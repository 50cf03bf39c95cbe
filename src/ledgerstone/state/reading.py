"""Reads a topic from its brokers for a state. Shell.

The next response is fetched while the current one is folded: kernels release the interpreter lock.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ledgerstone.client.ahead import one_ahead
from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import FetchConfig, Fetched, Fetcher
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.dataclasses import dataclass
from ledgerstone.types import TopicPartition

FETCH_BYTES: Final = 8 << 20


class ReadRange(NamedTuple):
    partition: TopicPartition
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """One partition's log when reading began."""

    partition: TopicPartition
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int

    def end_offset(self, isolation: IsolationLevel) -> int:
        committed = isolation is IsolationLevel.READ_COMMITTED
        return self.last_stable_offset if committed else self.high_watermark


def log_bounds(client: Client, partitions: Iterable[TopicPartition]) -> list[PartitionBounds]:
    wanted = list(partitions)
    starts = list_offsets(client, dict.fromkeys(wanted, EARLIEST))
    latest = dict.fromkeys(wanted, LATEST)
    ends = [list_offsets(client, latest, isolation_level=each.level) for each in IsolationLevel]
    committed, uncommitted = ends
    return [
        PartitionBounds(
            partition=each,
            log_start_offset=starts[each].offset,
            high_watermark=uncommitted[each].offset,
            last_stable_offset=committed[each].offset,
        )
        for each in wanted
    ]


def read_ranges(
    client: Client, ranges: Iterable[ReadRange], isolation: IsolationLevel
) -> Iterator[Fetched]:
    """Everything in these ranges, one after the other, including the whole batches at their ends.

    The client must not be used otherwise until this has ended or is closed."""
    config = FetchConfig(
        max_bytes=FETCH_BYTES, partition_max_bytes=FETCH_BYTES, isolation_level=isolation.level
    )
    fetcher = Fetcher(client, config)
    answers = (answer for each in ranges for answer in fetcher.read_range(*each))
    return one_ahead(answers)
