"""The state of a topic from its brokers: from the start, or from a snapshot on. Shell.

The rules are in README.md. `points` says where reading ends, `freshness` whether a snapshot can
still be resumed, `fold` does the work.
"""

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.dataclasses import replace
from ledgerstone.errors import KafkaError
from ledgerstone.records.kernels.hashing import SEED_SIZE
from ledgerstone.state.fold import Fold
from ledgerstone.state.freshness import check_no_delete_missed, check_reach, check_same_topic
from ledgerstone.state.points import PointInTime, end_offsets
from ledgerstone.state.reading import PartitionBounds, ReadRange, log_bounds, read_ranges
from ledgerstone.state.rows import Piece
from ledgerstone.state.snapshot import Snapshot
from ledgerstone.state.topic_state import (
    PartitionState,
    StateError,
    TopicState,
)
from ledgerstone.types import TopicPartition


class Progress(NamedTuple):
    partition: TopicPartition
    next_offset: int
    end_offset: int
    bytes: int  # of this run, over all partitions


OnProgress = Callable[[Progress], None]


def rebuild(
    client: Client,
    topic: str,
    *,
    at: PointInTime | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    progress: OnProgress | None = None,
) -> TopicState:
    """Reads the whole topic up to the ends it has now, or up to a point in its past."""
    info = client.topic(topic)
    seed = client.dice.random_bytes(SEED_SIZE)
    state = TopicState(
        topic=topic,
        topic_id=info.topic_id,
        cluster_id=client.session.cluster.cluster_id,
        isolation=isolation,
        created_ms=client.clock.now_ms(),
        partitions=[],
    )
    _read(client, state, _bounds(client, topic), seed, at, progress)
    return state


def resume(
    client: Client,
    snapshot: Snapshot,
    *,
    at: PointInTime | None = None,
    progress: OnProgress | None = None,
) -> TopicState:
    """The snapshot's state plus everything written since. Raises StaleSnapshot if some of that is
    gone: it may have included a delete."""
    seed = client.dice.random_bytes(SEED_SIZE)
    loaded = snapshot.load(seed=seed)
    topic = loaded.topic
    info = client.topic(topic)
    check_same_topic(snapshot.manifest, info.topic_id, client.session.cluster.cluster_id)
    bounds = _bounds(client, topic)
    check_reach(snapshot.manifest, bounds)
    state = replace(loaded, created_ms=client.clock.now_ms())
    _read(client, state, bounds, seed, at, progress)
    check_no_delete_missed(client, snapshot.manifest, state)
    return state


def pieces_of(
    client: Client | None, state: TopicState, snapshot: Snapshot | None = None
) -> Generator[Piece, None, None]:
    """The batches of a state again, ordered by partition; without a client, only those of the
    snapshot."""
    held: Iterator[Piece] = iter(()) if snapshot is None else snapshot.pieces()
    piece = next(held, None)
    for each in state.partitions:
        while piece is not None and piece.partition == each.partition:
            yield piece
            piece = next(held, None)
        if client is not None:
            for fetched in read_ranges(client, [_range(state, each)], state.isolation):
                yield Piece(each.partition, fetched.records, each.start_offset)


def pieces_at(
    client: Client | None, state: TopicState, snapshot: Snapshot | None, partition: int, offset: int
) -> Generator[Piece, None, None]:
    """The batches that include one record."""
    each = state.partition(partition)
    if client is not None and offset >= each.start_offset:
        here = ReadRange(TopicPartition(state.topic, partition), offset, offset + 1)
        for fetched in read_ranges(client, [here], state.isolation):
            yield Piece(partition, fetched.records)
    elif snapshot is not None:
        yield from (piece for piece in snapshot.pieces() if piece.partition == partition)


# -- reading ----------------------------------------------------------------------------------


def _bounds(client: Client, topic: str) -> list[PartitionBounds]:
    info = client.topic(topic)
    return log_bounds(client, [TopicPartition(topic, number) for number in info.partitions])


def _read(
    client: Client,
    state: TopicState,
    bounds: list[PartitionBounds],
    seed: bytes,
    at: PointInTime | None,
    progress: OnProgress | None,
) -> None:
    """Brings every partition of `state` up to its end."""
    ends = end_offsets(client, bounds, at, state.isolation)
    known = {each.partition: each for each in state.partitions}
    state.partitions = [
        _started(each, known.get(each.partition.partition), ends[each.partition], seed)
        for each in bounds
    ]
    ranges = [_range(state, each) for each in state.partitions]
    received = 0
    for fetched in read_ranges(client, ranges, state.isolation):
        each = state.partition(fetched.partition.partition)
        aborted = fetched.aborted if state.isolation is IsolationLevel.READ_COMMITTED else ()
        try:
            each.fold.feed(fetched.records, end_offset=each.end_offset, aborted=aborted)
        except KafkaError as error:
            where = f"{fetched.partition} from offset {each.fold.next_offset} on"
            raise StateError(f"{where}: {error}") from error
        received += len(fetched.records)
        if progress is not None:
            progress(Progress(fetched.partition, each.fold.next_offset, each.end_offset, received))
    pairs = list(zip(state.partitions, bounds, strict=True))
    # Keys that the snapshot lacks were written again since, but perhaps behind these ends.
    is_past = any(each.end_offset < bound.end_offset(state.isolation) for each, bound in pairs)
    reasons = [state.because] if state.because is not None and is_past else []
    for each, bound in pairs:
        if each.fold.next_offset < each.end_offset:
            raise StateError(
                f"{bound.partition} ended at offset {each.fold.next_offset} while it was read; "
                f"it ended at {each.end_offset} when reading began"
            )
        readable = bound.end_offset(state.isolation)
        why = each.why_incomplete(readable)
        reasons += [] if why is None else [why]
    state.because = "; ".join(reasons) or None


def _range(state: TopicState, each: PartitionState) -> ReadRange:
    tp = TopicPartition(state.topic, each.partition)
    return ReadRange(tp, each.start_offset, each.end_offset)


def _started(
    bounds: PartitionBounds, known: PartitionState | None, end_offset: int, seed: bytes
) -> PartitionState:
    log_start = bounds.log_start_offset
    if known is None:
        start = min(log_start, end_offset)
        fold, missing = Fold(seed=seed, start_offset=start), 0
    else:
        fold, start, missing = known.fold, known.end_offset, known.missing_before
        if log_start > known.log_start_offset:
            fold.forget_below(log_start)
        if end_offset < start:
            raise StateError(
                f"the snapshot holds {bounds.partition} up to offset {start}, but the state asked "
                f"for ends at {end_offset}; take one that ends earlier, or none"
            )
    return PartitionState(
        partition=bounds.partition.partition,
        fold=fold,
        start_offset=start,
        end_offset=end_offset,
        log_start_offset=log_start,
        high_watermark=bounds.high_watermark,
        last_stable_offset=bounds.last_stable_offset,
        is_resumed=known is not None,
        missing_before=missing,
    )
