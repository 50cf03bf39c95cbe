"""One file of a scan: every key in it, as records and as plain bytes. Grade D.

A log file is looked at three ways: its records by their keys, its bytes as they lie on the disk,
and the bytes that its compressed batches unpack to. The broker's own files are read for what users
can have put into them (`own_files`, `own_records`). Every other file is plain bytes.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure import classify as labels
from ledgerstone.erasure.classify import NO_ROW, Labels, classify, hits_in_arena
from ledgerstone.erasure.journal import ERASURES_TOPIC
from ledgerstone.erasure.log_windows import MAX_BATCH_BYTES, LogWindow, WindowReader
from ledgerstone.erasure.own_files import MAX_BYTES as MAX_OWN_BYTES
from ledgerstone.erasure.own_files import (
    NAMES,
    TEXTS,
    FileField,
    has_reader,
    hidden_texts,
    read_fields,
)
from ledgerstone.erasure.own_records import journal_texts, sealed_print
from ledgerstone.erasure.print_table import NO_GROUP, Int64s, PrintTable, RawHits
from ledgerstone.erasure.scan_plan import NO_POSITION, SHOWN_PLACES, FoundAt
from ledgerstone.erasure.tally import (
    MENTION,
    NOWHERE,
    RECORD,
    RESIDUE,
    AsideFile,
    Spread,
    Tally,
)
from ledgerstone.errors import KafkaError
from ledgerstone.fs import File
from ledgerstone.records.batch import HEADER_SIZE, compute_crc, read_header
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels import Batches, Columns
from ledgerstone.types import TopicPartition

NO_ROWS: Final = np.empty(0, np.int64)


@dataclass(slots=True, kw_only=True)
class FileScan:
    """Filled by `run`; afterwards it is what the file said."""

    table: PrintTable
    reader: WindowReader
    path: str  # as the report shows it
    name: str  # of the file, as it is on the disk
    topic_partition: TopicPartition
    is_log: bool
    aside: AsideFile | None = None  # its directory is no replica
    log_bytes: int = 0  # of an index: the size of its log
    size_bytes: int = 0
    crc: int = 0
    tally: Tally = field(default_factory=Tally)

    def run(self, file: File, size_bytes: int) -> None:
        if has_reader(self.name) and size_bytes <= MAX_OWN_BYTES and self._is_own(file, size_bytes):
            return
        if not self.is_log and self._begins_with_a_batch(file, size_bytes):
            # Somebody's copy of a log, of nobody knows which life. What its batches unpack to is
            # not in its bytes.
            self.is_log, self.topic_partition = True, NOWHERE
        for window in self.reader.windows(file, self.path, size_bytes, is_log=self.is_log):
            self.crc = crc32c(window.view[window.lead : window.end], self.crc)
            self.size_bytes = window.position + window.end - window.lead
            hits = self.table.find_raw(window.view, ends_after=window.lead, end=window.end)
            if window.batches is None:
                self._count_raw(RESIDUE, window, hits)
                continue
            # What begins before the window's first batch runs from one batch into another.
            self._count_raw(RESIDUE, window, hits.where(hits.position < window.lead))
            for columns in self.reader.pieces(window, self.path):
                self._look_at(columns, window, hits)

    def _begins_with_a_batch(self, file: File, size_bytes: int) -> bool:
        """Whole, and with the right code: other files are not taken for logs by chance."""
        try:
            header = read_header(file.pread(min(HEADER_SIZE, size_bytes), 0))
        except KafkaError:
            return False
        if header.size > min(size_bytes, MAX_BATCH_BYTES):
            return False
        self.reader.before_read(header.size)
        data = file.pread(header.size, 0)
        return len(data) == header.size and compute_crc(data, 0, len(data)) == header.crc

    def _is_own(self, file: File, size_bytes: int) -> bool:
        """Whether it is what the broker writes; then it has been searched."""
        self.reader.before_read(size_bytes)
        data = file.pread(size_bytes, 0)
        found = read_fields(self.name, data, self.log_bytes)
        if found is None:
            hidden = hidden_texts(self.name, data)
            self._count_fields([FileField(TEXTS, each) for each in hidden])
            return False
        self.crc, self.size_bytes = crc32c(data), len(data)
        self._count_fields(found)
        return True

    def _count_fields(self, found: Sequence[FileField]) -> None:
        for index, group in self.table.find_in_fields([each.content for each in found]):
            place = FoundAt(self.path, NO_POSITION, field=found[index].what)
            if found[index].what in NAMES:
                self.tally.count_name(group, place)
            else:
                self.tally.count(RESIDUE, group, [place], 1)

    def _look_at(self, columns: Columns, window: LogWindow, hits: RawHits) -> None:
        groups = self.table.groups_of(columns)
        told = NO_ROWS
        if self.topic_partition.topic == ERASURES_TOPIC:
            told = self._look_at_journal(columns, window)
            groups[told] = NO_GROUP
        rows = np.flatnonzero(groups != NO_GROUP)
        stored = hits
        if len(hits):
            first = int(columns.batches.position[0])
            stored = hits.where((hits.position >= first) & (hits.position < columns.consumed))
        unpacked = hits_in_arena(columns, self.table)
        if len(rows) == 0 and len(stored) == 0 and len(unpacked) == 0:
            return
        found = classify(columns, groups, stored, unpacked)
        found.kind[np.isin(found.row, told)] = labels.DROPPED
        concerned = np.union1d(columns.batch_index[rows], found.batch)
        bad = _bad_batches(window.view, columns.batches, concerned)
        # What a torn batch says of itself cannot be believed: whatever it holds is residue.
        found.kind[np.isin(found.batch, bad) & (found.kind == labels.MENTION)] = labels.RESIDUE
        is_torn = np.isin(columns.batch_index[rows], bad)
        # Nor is it known whose life a record belongs to that lies in no partition's directory.
        is_lost = is_torn | (self.topic_partition == NOWHERE)
        self._count_rows(RESIDUE, window, columns, groups, rows[is_lost])
        self._count_rows(RECORD, window, columns, groups, rows[~is_lost])
        group = np.concatenate([stored.group, unpacked.group])
        position = np.concatenate([stored.position, unpacked.position])
        self._count_labelled(window, columns, found, group, position)

    def _look_at_journal(self, columns: Columns, window: LogWindow) -> Int64s:
        """Mentions in the texts of its records; the rows that need no other look."""
        told: list[int] = []
        texts: list[bytes] = []
        rows: list[int] = []
        for row in range(len(columns)):
            key = _content(columns, columns.key_start[row], columns.key_length[row])
            value = _content(columns, columns.value_start[row], columns.value_length[row])
            found = None if key is None else journal_texts(key, value)
            self._look_for_sealed(window, columns, row, value)
            if found is not None:
                told.append(row)
                texts += found
                rows += [row] * len(found)
        bad: dict[int, bool] = {}
        for index, group in self.table.find_in_fields(texts):
            row = rows[index]
            batch = int(columns.batch_index[row])
            if batch not in bad:
                bad[batch] = bool(_bad_batches(window.view, columns.batches, np.array([batch])))
            position = _position(window, columns, batch, int(columns.value_start[row]))
            place = FoundAt(self.path, position, int(columns.offset[row]))
            self.tally.count(RESIDUE if bad[batch] else MENTION, group, [place], 1)
        return np.array(told, np.int64)

    def _look_for_sealed(
        self, window: LogWindow, columns: Columns, row: int, value: bytes | None
    ) -> None:
        """Copies in hosted journals are waited for; nothing compacts what was set aside."""
        sealed = None if self.aside is None else sealed_print(value)
        group = NO_GROUP if sealed is None else self.table.group_of(sealed)
        if group != NO_GROUP:
            batch = int(columns.batch_index[row])
            position = _position(window, columns, batch, int(columns.value_start[row]))
            place = FoundAt(self.path, position, int(columns.offset[row]))
            self.tally.count(RESIDUE, group, [place], 1)

    def _count_raw(self, kind: str, window: LogWindow, hits: RawHits) -> None:
        """Hits that lie in no record."""
        for group in np.unique(hits.group).tolist():
            positions = hits.position[hits.group == group]
            shown = (positions[:SHOWN_PLACES] + window.file_position).tolist()
            places = [FoundAt(self.path, position) for position in shown]
            self.tally.count(kind, group, places, len(positions))

    def _count_rows(
        self, kind: str, window: LogWindow, columns: Columns, groups: Int64s, rows: Int64s
    ) -> None:
        for group in np.unique(groups[rows]).tolist():
            own = rows[groups[rows] == group]
            places = [
                FoundAt(
                    self.path,
                    _position(window, columns, int(columns.batch_index[row]), row_start),
                    int(columns.offset[row]),
                )
                for row, row_start in zip(
                    own[:SHOWN_PLACES].tolist(), columns.key_start[own].tolist(), strict=False
                )
            ]
            self.tally.count(kind, group, places, len(own))
            if kind == RECORD:
                self._spread(group).add(Spread.of(columns, own))

    def _spread(self, group: int) -> Spread:
        if self.aside is not None:
            place = group, self.topic_partition, self.aside
            return self.tally.aside.setdefault(place, Spread())
        return self.tally.spread(group, self.topic_partition)

    def _count_labelled(
        self, window: LogWindow, columns: Columns, found: Labels, group: Int64s, position: Int64s
    ) -> None:
        for kind, name in ((labels.MENTION, MENTION), (labels.RESIDUE, RESIDUE)):
            chosen = np.flatnonzero(found.kind == kind)
            for each in np.unique(group[chosen]).tolist():
                own = chosen[group[chosen] == each]
                places = [
                    FoundAt(
                        self.path,
                        _position(window, columns, int(found.batch[hit]), int(position[hit])),
                        None if found.row[hit] == NO_ROW else int(columns.offset[found.row[hit]]),
                    )
                    for hit in own[:SHOWN_PLACES].tolist()
                ]
                self.tally.count(name, each, places, len(own))


def _content(columns: Columns, start: np.int64, length: np.int32) -> bytes | None:
    if length < 0:
        return None
    source, at = (columns.buffer, int(start))
    if at >= columns.split and length > 0:
        source, at = columns.arena, at - columns.split
    return bytes(memoryview(source)[at : at + int(length)])


def _position(window: LogWindow, columns: Columns, batch: int, position: int) -> int:
    """In the file: of the hit where it lies there as it is, else of its batch."""
    if position >= columns.split:
        position = int(columns.batches.position[batch])
    return window.file_position + position


def _bad_batches(view: memoryview, batches: Batches, concerned: Int64s) -> list[int]:
    return [
        index
        for index in concerned.tolist()
        if compute_crc(view, int(batches.position[index]), int(batches.size[index]))
        != batches.crc[index]
    ]
