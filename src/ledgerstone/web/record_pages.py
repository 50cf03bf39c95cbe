"""Some records of a partition, decoded for people, in bounded slices. Grade D.

A batch may be large and hold very many records, so decoding is a generator: files are read and
payloads decompressed in a thread, and the loop runs other work every few records.
"""

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.fs import FileSlice
from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.records.control import read_control_record
from ledgerstone.records.record import Headers, Record, iter_payload, records_payload
from ledgerstone.server.http.server import Job
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import FetchIsolation, read
from ledgerstone.web.router import NotShown

PAGE_RECORDS: Final = 50
READ_BYTES: Final = 1 << 20
# The bytes read to find the records of one page.
BUDGET_BYTES: Final = 8 << 20
BUDGET_RECORDS: Final = 20_000
LARGEST_PAYLOAD: Final = 32 << 20
# Records decoded before yielding; each takes some microseconds.
_AT_ONCE: Final = 100


class Shown(NamedTuple):
    """One row. `marker` is the name of a transaction marker, which is not a user's record."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    is_transactional: bool = False
    delete_horizon_ms: int | None = None
    marker: str = ""

    @property
    def is_tombstone(self) -> bool:
        return self.value is None and not self.marker


class Slice(NamedTuple):
    rows: list[Shown]
    is_cut: bool = False  # the budget was used up before its end


Slices = Generator[Job | None, Any, Slice]


def rows_from(log: PartitionLog, start_offset: int, *, at_most: int = PAGE_RECORDS) -> Slices:
    """The first records at or above an offset."""
    return _rows(log, start_offset, log.high_watermark, at_most=at_most)


def rows_before(log: PartitionLog, end_offset: int, *, at_most: int = PAGE_RECORDS) -> Slices:
    """The last records below an offset. A compacted log has gaps, so it steps back further until it
    has enough."""
    found, distance = Slice([]), at_most
    while True:
        start_offset = max(log.log_start_offset, end_offset - distance)
        wider = yield from _rows(log, start_offset, end_offset, at_most=BUDGET_RECORDS)
        if wider.is_cut and found.rows:
            return found
        found = Slice(wider.rows[-at_most:])
        if len(wider.rows) >= at_most or start_offset == log.log_start_offset or wider.is_cut:
            return found
        distance *= 4


@dataclass(slots=True, kw_only=True)
class _Search:
    """The progress of one page."""

    offset: int
    end_offset: int
    at_most: int
    rows: list[Shown] = field(default_factory=list)
    bytes_left: int = BUDGET_BYTES
    records_left: int = BUDGET_RECORDS
    is_full: bool = False

    @property
    def is_cut(self) -> bool:
        return self.bytes_left <= 0 or self.records_left <= 0

    @property
    def goes_on(self) -> bool:
        return self.offset < self.end_offset and not self.is_full and not self.is_cut

    def take(self, rows: Iterator[Shown]) -> Generator[None, None, None]:
        """Takes the rows of a batch that belong to the page."""
        for row in rows:
            self.records_left -= 1
            if self.records_left % _AT_ONCE == 0:
                yield
            if row.offset < self.offset:
                continue
            if row.offset >= self.end_offset or len(self.rows) == self.at_most:
                self.is_full = True
                return
            self.rows.append(row)


def _rows(log: PartitionLog, start_offset: int, end_offset: int, *, at_most: int) -> Slices:
    search = _Search(offset=start_offset, end_offset=end_offset, at_most=at_most)
    try:
        while search.goes_on and (piece := _piece_at(log, search.offset)) is not None:
            data = yield piece.read
            search.bytes_left -= len(data)
            for position, header in iter_headers(data):
                rows = yield from _decoded(data, position, header)
                yield from search.take(rows)
                if search.is_full:
                    break
                search.offset = max(search.offset, header.next_offset)
    except (KafkaError, StorageError, OSError) as error:
        if not search.rows:
            what = f"{log.topic_partition} cannot be read at offset {search.offset}: {error}"
            raise NotShown(503, what) from None
    return Slice(search.rows, is_cut=search.is_cut and not search.is_full)


def _piece_at(log: PartitionLog, offset: int) -> FileSlice | None:
    piece = read(log, offset, max_bytes=READ_BYTES, isolation=FetchIsolation.HIGH_WATERMARK).slice
    if piece is not None and piece.size > LARGEST_PAYLOAD:
        raise NotShown(413, f"The batch at offset {offset} has {piece.size} bytes.")
    return piece


def _decoded(
    data: bytes, position: int, header: BatchHeader
) -> Generator[Job | None, Any, Iterator[Shown]]:
    """The rows of one batch, still to be decoded."""
    if header.record_count == 0:
        return iter(())
    if header.is_control:
        marker = read_control_record(data, position).type.name.lower()
        row = Shown(header.base_offset, header.max_timestamp, None, None, marker=marker)
        return iter((row,))
    decompress = partial(records_payload, data, position, header, limit=LARGEST_PAYLOAD)
    payload = (yield decompress) if header.is_compressed else decompress()
    return (_shown(header, record) for record in iter_payload(header, payload))


def _shown(header: BatchHeader, record: Record) -> Shown:
    return Shown(
        *record,
        is_transactional=header.is_transactional,
        delete_horizon_ms=header.delete_horizon_ms,
    )
