"""Writes the history to the log, and folds the log to its state. Shell over a `Client`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.demo.encoding import AUTHORS, FILES, HistoryEncoder, KeyedRecord, listing, tree_row
from ledgerstone.demo.errors import DemoFailed
from ledgerstone.demo.history import Commit, History
from ledgerstone.state.points import PointInTime
from ledgerstone.state.rebuild import pieces_of, rebuild
from ledgerstone.state.rows import rows

PARTITIONS: Final = 3
RECORDS_PER_SEND: Final = 2_000
# Some segments for each partition, whatever the size of the history; a batch has to fit into one.
WANTED_SEGMENTS: Final = 6
SMALLEST_SEGMENT_BYTES: Final = 16 * 1024
LARGEST_SEGMENT_BYTES: Final = 64 << 20
BATCH_BYTES: Final = 8 * 1024
# About what a record costs besides its key.
_VALUE_BYTES: Final = 180
_CENTURY_MS: Final = 100 * 366 * 86_400_000

OnProgress = Callable[[int, int], None]  # records written, of how many


@dataclass(slots=True, kw_only=True)
class Streamed:
    records: int = 0
    tombstones: int = 0
    bytes: int = 0  # of keys and values
    middle_offsets: dict[int, int] = field(default_factory=dict)
    encoder: HistoryEncoder = field(default_factory=HistoryEncoder)


def create_topics(client: Client, history: History) -> None:
    volume = sum(
        _VALUE_BYTES + len(each.path) for commit in history.commits for each in commit.changes
    )
    wanted_bytes = volume // (PARTITIONS * WANTED_SEGMENTS)
    segment_bytes = min(max(wanted_bytes, SMALLEST_SEGMENT_BYTES), LARGEST_SEGMENT_BYTES)
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(segment_bytes),
        # Records carry the times of commits; years would pass within one segment.
        "segment.ms": str(_CENTURY_MS),
        # The cleaner waits until the story asks for it.
        "min.cleanable.dirty.ratio": "1.0",
    }
    create_topic(client, NewTopic(name=FILES, partitions=PARTITIONS, configs=settings))
    create_topic(client, NewTopic(name=AUTHORS, partitions=1, configs=settings))


def stream(client: Client, history: History, on_progress: OnProgress) -> Streamed:
    """Every change as a record; notes where the partitions end after the middle commit."""
    done = Streamed()
    total = sum(1 + len(commit.changes) for commit in history.commits)
    producer = Producer(client, ProducerConfig(idempotent=True, batch_bytes=BATCH_BYTES))
    ends = dict.fromkeys(range(PARTITIONS), 0)
    middle = history.middle()
    for commits in (history.commits[:middle], history.commits[middle:]):
        waiting: list[KeyedRecord] = []
        for index, commit in enumerate(commits):
            waiting += done.encoder.records_of(commit)
            if len(waiting) >= RECORDS_PER_SEND or index == len(commits) - 1:
                _send(producer, waiting, ends)
                _count(done, waiting)
                waiting = []
                on_progress(done.records, total)
        if not done.middle_offsets:
            done.middle_offsets = dict(ends)
    return done


def _send(producer: Producer, records: Sequence[KeyedRecord], ends: dict[int, int]) -> None:
    new = [
        NewRecord(each.topic, each.key, each.value, timestamp_ms=each.timestamp_ms)
        for each in records
    ]
    for record, outcome in zip(records, producer.send(new), strict=True):
        if not isinstance(outcome, Placed):
            raise DemoFailed(f"the broker refused {record.topic} {record.key!r}: {outcome}")
        if record.topic == FILES:
            ends[outcome.partition.partition] = outcome.offset + 1


def _count(done: Streamed, records: Sequence[KeyedRecord]) -> None:
    done.records += len(records)
    done.tombstones += sum(1 for record in records if record.value is None)
    done.bytes += sum(len(record.key) + len(record.value or b"") for record in records)


def paths_of(commits: Sequence[Commit]) -> Mapping[bytes, None]:
    return dict.fromkeys(change.path for commit in commits for change in commit.changes)


# -- the state ------------------------------------------------------------------------------------


class FoldedState(NamedTuple):
    """What `ledgerstone state` reports."""

    listing: bytes
    live_keys: int
    deleted_keys: int
    records: int
    because: str | None  # why it may be incomplete


def fold(client: Client, at: PointInTime | None = None) -> FoldedState:
    found = rebuild(client, FILES, at=at)
    with closing(pieces_of(client, found)) as pieces:
        tree = [
            tree_row(row.key, row.value) for row in rows(found, pieces) if row.value is not None
        ]
    totals = found.totals()
    return FoldedState(
        listing=listing(tree),
        live_keys=totals.live_keys,
        deleted_keys=totals.deleted_keys,
        records=found.counts.records,
        because=found.because,
    )
