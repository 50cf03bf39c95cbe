"""Which moment of a transaction a crash has struck: read off the disk before the next start.

Each point that one node can meet, from InitProducerId to Complete, has a mark. Checkers judge what
happens next; the marks show that each point was struck at all.
"""

from collections.abc import Iterator
from contextlib import suppress

from ledgerstone.errors import CorruptRecord, LedgerstoneError
from ledgerstone.records.batch import iter_headers
from ledgerstone.sim.attempts import TxnBook
from ledgerstone.sim.decisions import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    CoordinatorState,
    PartitionFates,
    TxnStatus,
    decide,
    states_in,
)
from ledgerstone.storage.txn_index import decode_entries
from ledgerstone.types import TopicPartition

INIT_UNANSWERED = "crash: InitProducerId is written, not answered"
ONGOING_EMPTY = "crash: a partition is added, nothing is written to it"
ONGOING_DATA = "crash: data of an open transaction"
END_LOST = "crash: EndTxn was sent, the log says Ongoing"
NO_MARKER = "crash: Prepare is written, no marker"
SOME_MARKERS = "crash: some markers are written"
ALL_MARKERS = "crash: all markers are written, Complete is not"
COMPLETE_UNANSWERED = "crash: Complete is written, EndTxn is not answered"
OFFSETS_PENDING = "crash: offsets are pending"
NO_INDEX = "crash: a marker is in the log, not in the transaction index"

POINTS = (
    INIT_UNANSWERED,
    ONGOING_EMPTY,
    ONGOING_DATA,
    END_LOST,
    NO_MARKER,
    SOME_MARKERS,
    ALL_MARKERS,
    COMPLETE_UNANSWERED,
    OFFSETS_PENDING,
    NO_INDEX,
)


def points_on_disk(book: TxnBook) -> list[str]:
    """The points that the node's last life has ended at."""
    files = book.model.node.fs.files()
    partitions = _partitions(files)
    points: dict[str, None] = {}
    for tp, decided in partitions.items():
        if tp.topic == OFFSETS_TOPIC and decided.open:
            points[OFFSETS_PENDING] = None
        if tp.topic == STATE_TOPIC:
            for name, state in states_in(decided).items():
                points.update(dict.fromkeys(_of_state(book, partitions, name, state)))
    if _index_lags(files):
        points[NO_INDEX] = None
    return list(points)


def _of_state(
    book: TxnBook,
    partitions: dict[TopicPartition, PartitionFates],
    name: str,
    found: CoordinatorState,
) -> Iterator[str]:
    attempt = next((a for a in reversed(book.attempts) if a.transactional_id == name), None)
    is_ending = attempt is not None and attempt.is_ending and attempt.told is None
    state, producer_id = found.state, found.producer_id
    open_in = [tp for tp, decided in partitions.items() if producer_id in decided.open]
    match state:
        case TxnStatus.EMPTY:
            if (producer_id, found.epoch) not in book.known_ids:
                yield INIT_UNANSWERED
        case TxnStatus.ONGOING:
            yield ONGOING_DATA if open_in else ONGOING_EMPTY
            if is_ending:
                yield END_LOST
        case TxnStatus.PREPARE_COMMIT | TxnStatus.PREPARE_ABORT:
            yield from _of_markers(partitions, found, open_in)
        case TxnStatus.COMPLETE_COMMIT | TxnStatus.COMPLETE_ABORT:
            if is_ending:
                yield COMPLETE_UNANSWERED


def _of_markers(
    partitions: dict[TopicPartition, PartitionFates],
    found: CoordinatorState,
    open_in: list[TopicPartition],
) -> Iterator[str]:
    if not open_in:
        yield ALL_MARKERS
    elif len(open_in) < len(found.partitions):
        yield SOME_MARKERS
    else:
        yield NO_MARKER


def _partitions(files: dict[str, bytes]) -> dict[TopicPartition, PartitionFates]:
    segments: dict[TopicPartition, list[bytes]] = {}
    for path in sorted(files):
        directory, _, name = path.rpartition("/")
        topic, _, number = directory.rpartition("/")[2].rpartition("-")
        if name.endswith(".log") and number.isdecimal() and not topic.startswith("__cluster"):
            tp = TopicPartition(topic, int(number))
            segments.setdefault(tp, []).append(_whole_batches(files[path]))
    found = {}
    for tp, pieces in segments.items():
        with suppress(LedgerstoneError):
            found[tp] = decide(iter(pieces))
    return found


def _whole_batches(data: bytes) -> bytes:
    """Up to the first bytes that are no batch: what was not synced may be anything."""
    end = 0
    with suppress(CorruptRecord):
        for position, header in iter_headers(data):
            end = position + header.size
    return data[:end]


def _index_lags(files: dict[str, bytes]) -> bool:
    """Whether the last ABORT marker with data of a segment is missing from its index."""
    for path, data in files.items():
        if not path.endswith(".log") or not ("/input-" in path or "/output-" in path):
            continue
        with suppress(LedgerstoneError):
            decided = decide(iter([_whole_batches(data)]))
            aborted = [
                marker.offset
                for marker in decided.markers
                if not marker.is_commit and _has_data(decided, marker.offset)
            ]
            entries = decode_entries(files.get(path.removesuffix(".log") + ".txnindex", b""))
            if aborted and aborted[-1] not in {entry.last_offset for entry in entries}:
                return True
    return False


def _has_data(decided: PartitionFates, marker_offset: int) -> bool:
    """Whether the marker ends records of its own segment."""
    marker = next(each for each in decided.markers if each.offset == marker_offset)
    before = [each.offset for each in decided.markers if each.producer_id == marker.producer_id]
    previous = max((offset for offset in before if offset < marker_offset), default=-1)
    return any(
        entry.producer_id == marker.producer_id and previous < entry.offset < marker_offset
        for entry in decided.entries
    )
