"""A compaction too simple to get wrong: decodes everything, keeps the latest record of each key.

It stands in for the cleaner where a test is about what happens to the files afterwards.
"""

from collections.abc import Iterator, Sequence

from ledgerstone.records.batch import BatchHeader, iter_headers, read_header
from ledgerstone.records.builder import build_batch, empty_batch
from ledgerstone.records.record import Record, iter_records
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.segment import Segment


def rewrite_segments(
    log: PartitionLog,
    sources: Sequence[Segment],
    *,
    drop_tombstones: bool = False,
    keep_tail: bool = True,
) -> Segment:
    """A sealed `.cleaned` segment with what is left of the sources.

    Batches of producers are emptied rather than dropped, so that replaying the log gives the same
    producer state; with `keep_tail` the last batch is too, so that the offset range stays."""
    cleaned = Segment(
        log.fs,
        log.directory,
        sources[0].base_offset,
        log.config,
        created_ms=sources[0].created_ms,
        suffix=CLEANED,
    )
    cleaned.create()
    for batch in rewritten(log, sources, drop_tombstones=drop_tombstones, keep_tail=keep_tail):
        cleaned.append(batch, [read_header(batch)])
    for source in sources:
        for entry in source.txn_index.entries():
            cleaned.add_aborted_txn(entry)
    cleaned.seal()
    return cleaned


def rewritten(
    log: PartitionLog,
    sources: Sequence[Segment],
    *,
    drop_tombstones: bool = False,
    keep_tail: bool = True,
) -> list[bytes]:
    """The batches such a segment holds."""
    latest = _latest_offsets(log)
    batches = [found for source in sources for found in _batches(source)]
    kept = []
    for at, (header, batch) in enumerate(batches):
        if header.is_control or header.record_count == 0:
            kept.append(batch)
            continue
        records = list(iter_records(batch))
        left = [
            record
            for record in records
            if record.key is None
            or (latest[record.key] == record.offset and not (drop_tombstones and not record.value))
        ]
        if len(left) == len(records):
            kept.append(batch)
        elif left:
            kept.append(_rebuilt(header, left))
        elif header.has_producer_id or (keep_tail and at == len(batches) - 1):
            kept.append(empty_batch(header))
    return kept


def _latest_offsets(log: PartitionLog) -> dict[bytes, int]:
    return {
        record.key: record.offset
        for segment in log.segments
        for header, batch in _batches(segment)
        if not header.is_control
        for record in iter_records(batch)
        if record.key is not None
    }


def _batches(segment: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
    content = segment.file.pread(segment.size, 0)
    for position, header in iter_headers(content):
        yield header, content[position : position + header.size]


def _rebuilt(header: BatchHeader, records: Sequence[Record]) -> bytes:
    return bytes(
        build_batch(
            [(record.timestamp, record.key, record.value, ()) for record in records],
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            offsets=[record.offset for record in records],
            last_offset_delta=header.last_offset_delta,
            max_timestamp=header.max_timestamp,
        )
    )
