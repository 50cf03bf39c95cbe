"""The records of a state as rows, from a second pass over its batches. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ledgerstone.records.kernels import Columns
from ledgerstone.state.content import bytes_of
from ledgerstone.state.topic_state import StateError, TopicState
from ledgerstone.types import Buffer


class Piece(NamedTuple):
    """Whole batches of one partition."""

    partition: int
    data: Buffer
    start_offset: int = 0  # records below it are in another piece


class Row(NamedTuple):
    """One object per record: for people and small jobs."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None  # None: deleted


def rows(
    state: TopicState, pieces: Iterable[Piece], *, live: bool = True, deleted: bool = False
) -> Iterator[Row]:
    """The latest record of each key, in the order of `pieces`."""
    tally = SecondPassTally(state)
    for partition, data, start_offset in pieces:
        fold = state.partition(partition).fold
        for columns in fold.survivors(data, start_offset=start_offset, tombstones=True):
            tally.saw(partition, len(columns))
            is_value = columns.value_length >= 0
            wanted = np.flatnonzero((is_value & live) | (~is_value & deleted))
            yield from (_row(partition, columns, index) for index in wanted.tolist())
    tally.check()


def row_at(state: TopicState, pieces: Iterable[Piece], offset: int) -> Row | None:
    """The row at an offset; the pieces are of one partition."""
    for partition, data, _ in pieces:
        for columns in state.partition(partition).fold.survivors(data, tombstones=True):
            for index in np.flatnonzero(columns.offset == offset).tolist():
                return _row(partition, columns, index)
    return None


class SecondPassTally:
    """Counts the records found in the second pass: the log may be compacted in between."""

    def __init__(self, state: TopicState) -> None:
        self._topic = state.topic
        self._left = {
            each.partition: each.fold.live_keys + each.fold.deleted_keys
            for each in state.partitions
        }

    def saw(self, partition: int, count: int) -> None:
        self._left[partition] -= count

    def check(self) -> None:
        for partition, left in self._left.items():
            if left:
                raise StateError(
                    f"{self._topic}-{partition} was compacted while it was read: the records of "
                    f"{left} keys are gone; try again"
                )


def _row(partition: int, columns: Columns, index: int) -> Row:
    def span(start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes_of(columns, start, length)

    key = span(int(columns.key_start[index]), int(columns.key_length[index]))
    assert key is not None, f"a record without a key survived at {columns.offset[index]}"
    value = span(int(columns.value_start[index]), int(columns.value_length[index]))
    offset, timestamp_ms = int(columns.offset[index]), int(columns.timestamp[index])
    return Row(partition, offset, timestamp_ms, key, value)
