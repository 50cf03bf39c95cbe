"""Every record of the wanted keys in the logs of some partitions. Grade D.

Reads the segments as far as their owner says they reach, and beside them the log files that wait
for their end: `.deleted`, `.cleaned`, `.swap`. Contract: README.md, "Search and scan".
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.audit_headers import erasure_id_in
from ledgerstone.erasure.log_windows import LogWindow, WindowReader
from ledgerstone.erasure.print_table import NO_GROUP, Int64s, PrintTable
from ledgerstone.erasure.scan_plan import (
    Place,
    ScannedPartition,
    SearchPlan,
    SearchReport,
    SpanOfPrint,
)
from ledgerstone.erasure.tally import Spread
from ledgerstone.errors import KafkaError
from ledgerstone.fs import Filesystem, join
from ledgerstone.records.batch import CODEC_MASK, Codec
from ledgerstone.records.kernels import Columns
from ledgerstone.records.varint import decode_varint
from ledgerstone.storage.filenames import (
    CLEANED,
    DELETED,
    SWAP,
    Kind,
    file_name,
    parse_file_name,
)
from ledgerstone.types import Buffer, TopicPartition

_LEFTOVERS: Final = (DELETED, CLEANED, SWAP)


def search_partitions(
    fs: Filesystem,
    plan: SearchPlan,
    *,
    before_read: Callable[[int], None] = lambda size: None,
    go_on: Callable[[], None] = lambda: None,
) -> SearchReport:
    """`before_read` gets the size of each window; `go_on` is called before each file. Both may
    wait, or raise."""
    return _Search(fs, plan, before_read, go_on).run()


@dataclass(slots=True)
class _Search:
    fs: Filesystem
    plan: SearchPlan
    before_read: Callable[[int], None]
    go_on: Callable[[], None]
    table: PrintTable = field(init=False)
    reader: WindowReader = field(init=False)
    places: list[Place] = field(default_factory=list)
    # By group and partition; what was left out of `places` only if it is the last of its span.
    spreads: dict[tuple[int, TopicPartition], Spread] = field(default_factory=dict)
    last_places: dict[tuple[int, TopicPartition], list[Place]] = field(default_factory=dict)
    vanished: list[str] = field(default_factory=list)
    scanned_bytes: int = 0
    files: int = 0
    is_truncated: bool = False

    def __post_init__(self) -> None:
        self.table = PrintTable(self.plan.keys)
        self.reader = WindowReader(
            lead_bytes=0,
            before_read=self.before_read,
            decompression_limit=self.plan.decompression_limit_bytes,
        )

    def run(self) -> SearchReport:
        for partition in self.plan.partitions:
            self._search_partition(partition)
        spans = [
            SpanOfPrint(index, spread.span_in(tp))
            for (group, tp), spread in self.spreads.items()
            for index in self.table.members[group]
        ]
        kept = dict.fromkeys(self.places)
        kept.update((place, None) for last in self.last_places.values() for place in last)
        return SearchReport(
            spans=tuple(sorted(spans)),
            places=tuple(sorted(kept, key=_in_order)),
            is_truncated=self.is_truncated,
            scanned_bytes=self.scanned_bytes,
            files=self.files,
            damaged=tuple(self.reader.damaged),
            vanished=tuple(self.vanished),
        )

    def _search_partition(self, partition: ScannedPartition) -> None:
        for segment in partition.segments:
            name = file_name(segment.base_offset, Kind.LOG)
            self._search_file(partition, name, segment.size_bytes)
        # Listed afterwards: what left the log in the meantime is among them.
        for name in self.fs.list_dir(partition.directory):
            parsed = parse_file_name(name)
            if parsed and parsed.kind is Kind.LOG and parsed.suffix in _LEFTOVERS:
                self._search_file(partition, name, None)

    def _search_file(self, partition: ScannedPartition, name: str, size: int | None) -> None:
        """All of the file if its owner gave no size."""
        self.go_on()
        path = join(partition.directory, name)
        shown = f"{partition.topic_partition}/{name}"
        try:
            file = self.fs.open(path)
        except FileNotFoundError:
            self.vanished.append(shown)
            return
        self.files += 1
        try:
            size = file.size() if size is None else size
            for window in self.reader.windows(file, shown, size, is_log=True):
                self.scanned_bytes += window.end - window.lead
                for columns in self.reader.pieces(window, shown):
                    groups = self.table.groups_of(columns)
                    rows = np.flatnonzero(groups != NO_GROUP)
                    if len(rows):
                        self._note(partition.topic_partition, name, window, columns, groups, rows)
        finally:
            file.close()

    def _note(
        self,
        tp: TopicPartition,
        name: str,
        window: LogWindow,
        columns: Columns,
        groups: Int64s,
        rows: Int64s,
    ) -> None:
        for group in np.unique(groups[rows]).tolist():
            own = rows[groups[rows] == group]
            spread, found = self.spreads.setdefault((group, tp), Spread()), Spread.of(columns, own)
            is_last = spread.records == 0 or found.last_offset >= spread.last_offset
            spread.add(found)
            if is_last:
                last = int(own[columns.offset[own].argmax()])
                self.last_places[group, tp] = self._places(tp, name, window, columns, group, last)
            room = max(self.plan.max_places - len(self.places), 0) // len(self.table.members[group])
            self.is_truncated |= room < len(own)
            for row in own[:room].tolist():
                self.places += self._places(tp, name, window, columns, group, row)

    def _places(
        self,
        tp: TopicPartition,
        name: str,
        window: LogWindow,
        columns: Columns,
        group: int,
        row: int,
    ) -> list[Place]:
        """One for each print of the key."""
        batch = int(columns.batch_index[row])
        is_tombstone = bool(columns.value_length[row] < 0)
        return [
            Place(
                index,
                tp.topic,
                tp.partition,
                name,
                window.file_position + int(columns.batches.position[batch]),
                int(columns.offset[row]),
                int(columns.timestamp[row]),
                is_tombstone,
                erasure_id_in(_headers(columns, row)) if is_tombstone else None,
                Codec(int(columns.batches.attributes[batch]) & CODEC_MASK).config_name,
                int(columns.batches.leader_epoch[batch]),
            )
            for index in self.table.members[group]
        ]


def _in_order(place: Place) -> tuple[int, str, int, int, str, int]:
    return (
        place.print_index,
        place.topic,
        place.partition,
        place.offset,
        place.file,
        place.position,
    )


def _headers(columns: Columns, row: int) -> list[tuple[str, bytes | None]]:
    """The kernel has checked that the headers lie in their record."""
    start, length = int(columns.headers_start[row]), int(columns.headers_length[row])
    source: Buffer = columns.buffer
    if start >= columns.split:
        source, start = columns.arena, start - columns.split
    data = bytes(memoryview(source)[start : start + length])
    headers: list[tuple[str, bytes | None]] = []
    position = 0
    try:
        for _ in range(int(columns.header_count[row])):
            size, position = decode_varint(data, position, len(data))
            name = data[position : position + size].decode(errors="replace")
            size, position = decode_varint(data, position + size, len(data))
            headers.append((name, None if size < 0 else data[position : position + size]))
            position += max(size, 0)
    except KafkaError:
        return []
    return headers
