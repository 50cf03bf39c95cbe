"""Which batches of a response a reader may see, and their records as columns. Pure.

Control batches are never visible. Records of aborted transactions are hidden from read_committed
readers: a response lists (producer id, first offset) of each such transaction, and that producer's
abort marker ends it.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ledgerstone.dataclasses import replace
from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.kernels import Batches, Columns, walk
from ledgerstone.records.kernels.windows import Int64s
from ledgerstone.types import AbortedTxn, Buffer

Flags = NDArray[np.bool_]


def check_order(batches: Batches) -> None:
    """Offsets must rise from batch to batch, or "the latest" has no meaning."""
    bad = batches.last_offset < batches.base_offset
    bad[1:] |= batches.base_offset[1:] <= batches.last_offset[:-1]
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        before = int(batches.last_offset[index - 1]) if index else "nothing"
        raise CorruptRecord(
            f"batch with offsets {batches.base_offset[index]} to {batches.last_offset[index]} "
            f"after {before}"
        )


def hidden_batches(data: Buffer, batches: Batches, aborted: Sequence[AbortedTxn]) -> Flags:
    """Control batches and aborted data."""
    hidden = batches.is_control
    if not aborted:
        return hidden
    coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_ids: dict[int, int] = {}  # producer id: first offset
    in_txn = (batches.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG)) != 0
    for index in np.flatnonzero(in_txn).tolist():
        while coming and coming[-1].first_offset <= batches.last_offset[index]:
            transaction = coming.pop()
            open_ids[transaction.producer_id] = transaction.first_offset
        producer_id = int(batches.producer_id[index])
        if not hidden[index]:
            hidden[index] = producer_id in open_ids
        elif producer_id in open_ids and _ends_in_abort(data, batches, index):
            del open_ids[producer_id]
    return hidden


def _ends_in_abort(data: Buffer, batches: Batches, index: int) -> bool:
    if batches.record_count[index] == 0:
        return False  # a marker that the cleaner has emptied; its transaction is gone as well
    position = int(batches.position[index])
    return read_control_record(data, position).type is ControlType.ABORT


def walk_pieces(data: Buffer, batches: Batches, skip: Flags) -> Iterator[Columns]:
    """The records of all batches that are not skipped.

    There is more than one piece only if decompressed payloads take too much memory."""
    first = 0
    while first < len(batches):
        start = int(batches.position[first])
        columns = walk(data, start=start, end=batches.consumed, skip=skip[first:])
        _check_rows(columns)
        yield columns
        first += len(columns.batches)


def _check_rows(columns: Columns) -> None:
    offset, batches = columns.offset, columns.batches
    if not len(offset):
        return
    rises = bool((offset[1:] > offset[:-1]).all())
    if not rises or offset[0] < batches.base_offset[0] or offset[-1] > batches.last_offset[-1]:
        raise CorruptRecord(
            f"records at offsets {offset.min()} to {offset.max()} do not rise within their "
            f"batches, {batches.base_offset[0]} to {batches.last_offset[-1]}"
        )


def taken(columns: Columns, rows: Int64s | Flags) -> Columns:
    """Some of the rows. They cannot be rewritten, since batches are no longer whole."""
    return replace(
        columns,
        offset=columns.offset[rows],
        timestamp=columns.timestamp[rows],
        key_start=columns.key_start[rows],
        value_start=columns.value_start[rows],
        headers_start=columns.headers_start[rows],
        key_length=columns.key_length[rows],
        value_length=columns.value_length[rows],
        headers_length=columns.headers_length[rows],
        header_count=columns.header_count[rows],
        batch_index=columns.batch_index[rows],
    )
