"""What must be true of any open log, checked by reading everything the slow way."""

from collections.abc import Iterable

from ledgerstone.fs import name_of
from ledgerstone.records.batch import BatchHeader, iter_headers, read_header, verify_crc
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.checkpoints import read_if_exists
from ledgerstone.storage.filenames import CLEANED, DELETED, SWAP, TMP, Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import FetchIsolation, read
from ledgerstone.storage.offset_index import decode_entries as decode_offset_entries
from ledgerstone.storage.producer_replay import apply_batch
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.time_index import decode_entries as decode_time_entries
from ledgerstone.storage.txn_index import AbortedTxnEntry


def batches_of(log: PartitionLog) -> list[bytes]:
    """Every batch in the segment files, in order; each is whole and its CRC is right."""
    found: list[bytes] = []
    for segment in log.segments:
        content = segment.file.pread(segment.size, 0)
        size = 0
        for position, header in iter_headers(content):
            verify_crc(content, position, header)
            found.append(content[position : position + header.size])
            size = position + header.size
        assert size == segment.size, (segment.base_offset, size, segment.size)
    return found


def replayed(batches: Iterable[bytes]) -> tuple[ProducerStateTable, list[AbortedTxnEntry]]:
    """Producer state and aborted transactions, from nothing but the batches."""
    producers = ProducerStateTable()
    aborted = []
    for batch in batches:
        entry = apply_batch(producers, read_header(batch), batch)
        if entry is not None:
            aborted.append(entry)
    return producers, aborted


def check_log(log: PartitionLog) -> None:
    """Offsets rise, indexes point at batches, every offset is found and read where it lies."""
    log.check_invariants()
    headers = [read_header(batch) for batch in batches_of(log)]
    previous_last = -1
    for header in headers:
        assert header.base_offset > previous_last, (header, previous_last)
        previous_last = header.last_offset
    assert not headers or headers[-1].next_offset <= log.log_end_offset
    for segment in log.segments:
        check_segment(log, segment)
    check_reads(log, headers)


def check_segment(log: PartitionLog, segment: Segment) -> None:
    content = segment.file.pread(segment.size, 0)
    starts = dict(iter_headers(content))
    for header in starts.values():
        assert segment.base_offset <= header.base_offset
        following = log.segments.after(segment.base_offset)
        assert following is None or header.next_offset <= following.base_offset
    check_offset_index(log, segment, starts)
    check_time_index(log, segment, list(starts.values()))
    for entry in segment.txn_index.entries():
        assert segment.base_offset <= entry.last_offset
        assert entry.first_offset < entry.last_offset


def check_offset_index(log: PartitionLog, segment: Segment, starts: dict[int, BatchHeader]) -> None:
    segment.offset_index.flush()
    entries = decode_offset_entries(_content(log, segment.path(Kind.INDEX)), segment.base_offset)
    assert len(entries) == segment.offset_index.entry_count
    for entry in entries:
        header = starts.get(entry.position)
        assert header is not None, f"{segment.path(Kind.INDEX)}: {entry} is not where one begins"
        assert header.last_offset == entry.offset, (entry, header)
    positions = list(starts.items())
    for position, header in positions:
        found = segment.find(header.base_offset)
        assert found is not None
        assert found.position == position, (segment.base_offset, header, found)


def check_time_index(log: PartitionLog, segment: Segment, headers: list[BatchHeader]) -> None:
    segment.time_index.flush()
    entries = decode_time_entries(_content(log, segment.path(Kind.TIME_INDEX)), segment.base_offset)
    for entry in entries:
        for header in headers:
            younger = header.max_timestamp > entry.timestamp
            assert not younger or header.last_offset > entry.offset, (entry, header)
    newest = max((header.max_timestamp for header in headers), default=-1)
    assert segment.max_timestamp.timestamp == newest, (segment.base_offset, newest)
    if segment is not log.segments.active and newest >= 0:
        assert entries[-1].timestamp == newest, (segment.base_offset, entries, newest)


def check_reads(log: PartitionLog, headers: list[BatchHeader]) -> None:
    """A reader that starts at any batch gets that batch first."""
    for header in headers:
        if header.last_offset < log.log_start_offset:
            continue
        offset = max(header.base_offset, log.log_start_offset)
        piece = read(log, offset, max_bytes=1, isolation=FetchIsolation.LOG_END).slice
        assert piece is not None, offset
        assert read_header(piece.read()) == header


def check_aborted(log: PartitionLog) -> None:
    """The transaction indexes list what a replay of the whole log finds; the log starts at 0."""
    _, expected = replayed(batches_of(log))
    found = [entry for segment in log.segments for entry in segment.txn_index.entries()]
    assert found == expected


def leftovers(fs: SimFilesystem, directory: str, logs: Iterable[PartitionLog]) -> list[str]:
    """Files with a temporary name; as many `.deleted` ones as wait to be unlinked may be there."""
    names = [path for path in fs.files() if path.startswith(directory)]
    deleted = [path for path in names if path.endswith(DELETED)]
    waiting = sum(len(log.deleted_files) for log in logs)
    unfinished = [path for path in names if name_of(path).endswith((CLEANED, SWAP, TMP))]
    return unfinished if len(deleted) <= waiting else unfinished + deleted


def _content(log: PartitionLog, path: str) -> bytes:
    return read_if_exists(log.fs, path) or b""
