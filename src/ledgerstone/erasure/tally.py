"""Hits of a search or a scan, counted and, up to a limit, remembered. Grade P.

One tally for each file, so that a file that is scanned again replaces what it said before.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import FileHits, NameHits, RecordSpan
from ledgerstone.erasure.print_table import Int64s
from ledgerstone.erasure.scan_plan import (
    SHOWN_PLACES,
    SHOWN_RESIDUE_FILES,
    AsideRecords,
    FoundAt,
    KeyPrints,
    PrintFindings,
    why_not_raw,
)
from ledgerstone.records.kernels import Columns
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition

RECORD: Final = "record"
MENTION: Final = "mention"
RESIDUE: Final = "residue"
NAME: Final = "name"

# A record in a file that lies in no partition's directory.
NOWHERE: Final = TopicPartition("", -1)


class AsideFile(NamedTuple):
    """A file of a directory that is no replica, as `AsideRecords` tells it."""

    path: str
    is_name_cut: bool
    is_passing: bool


@dataclass(slots=True)
class Spread:
    """The records of one key in one partition."""

    records: int = 0
    tombstones: int = 0
    first_offset: int = 0
    last_offset: int = 0
    leader_epoch: int = NO_LEADER_EPOCH  # the lowest

    @classmethod
    def of(cls, columns: Columns, rows: Int64s) -> "Spread":
        """Of some records, at least one."""
        offsets = columns.offset[rows]
        return cls(
            records=len(rows),
            tombstones=int((columns.value_length[rows] < 0).sum()),
            first_offset=int(offsets.min()),
            last_offset=int(offsets.max()),
            leader_epoch=int(columns.batches.leader_epoch[columns.batch_index[rows]].min()),
        )

    def add(self, other: "Spread") -> None:
        if self.records == 0:
            self.first_offset, self.last_offset = other.first_offset, other.last_offset
            self.leader_epoch = other.leader_epoch
        self.records += other.records
        self.tombstones += other.tombstones
        self.first_offset = min(self.first_offset, other.first_offset)
        self.last_offset = max(self.last_offset, other.last_offset)
        self.leader_epoch = min(self.leader_epoch, other.leader_epoch)

    def span_in(self, tp: TopicPartition) -> RecordSpan:
        return RecordSpan(
            tp.topic,
            tp.partition,
            self.first_offset,
            self.last_offset,
            self.records,
            self.tombstones,
            self.leader_epoch,
        )


@dataclass(slots=True)
class Tally:
    counts: dict[tuple[str, int], int] = field(default_factory=dict)  # by kind and group
    places: dict[tuple[str, int], list[FoundAt]] = field(default_factory=dict)
    spreads: dict[tuple[int, TopicPartition], Spread] = field(default_factory=dict)
    names: dict[tuple[int, str], int] = field(default_factory=dict)  # by group and kind of name
    residue_files: dict[tuple[int, str], int] = field(default_factory=dict)
    # In directories that are no replicas: by group, partition and file.
    aside: dict[tuple[int, TopicPartition, AsideFile], Spread] = field(default_factory=dict)

    def count(self, kind: str, group: int, places: Sequence[FoundAt], hits: int) -> None:
        """All `hits` are in the file of the first place."""
        self.counts[kind, group] = self.counts.get((kind, group), 0) + hits
        shown = self.places.setdefault((kind, group), [])
        for place in places:
            if len(shown) >= SHOWN_PLACES:
                break
            shown.append(place)

        if kind == RESIDUE:
            for place in places:
                self._in_file(group, place.file, hits)
                break

    def count_name(self, group: int, place: FoundAt) -> None:
        self.count(NAME, group, [place], 1)
        self.names[group, place.field] = self.names.get((group, place.field), 0) + 1

    def _in_file(self, group: int, file: str, hits: int) -> None:
        self.residue_files[group, file] = self.residue_files.get((group, file), 0) + hits

    def spread(self, group: int, tp: TopicPartition) -> Spread:
        return self.spreads.setdefault((group, tp), Spread())

    def add(self, other: "Tally") -> None:
        """Of another file."""
        for (kind, group), hits in other.counts.items():
            self.count(kind, group, other.places[kind, group], hits)
        for (group, what), hits in other.names.items():
            self.names[group, what] = self.names.get((group, what), 0) + hits
        self.aside.update(other.aside)
        for (group, tp), each in other.spreads.items():
            self.spread(group, tp).add(each)


def findings_of(tally: Tally, members: list[list[int]], keys: KeyPrints) -> list[PrintFindings]:
    """What was found of each print."""
    groups = {index: group for group, indexes in enumerate(members) for index in indexes}
    spans: dict[int, list[RecordSpan]] = {}
    for (group, tp), spread in sorted(tally.spreads.items()):
        spans.setdefault(group, []).append(spread.span_in(tp))
    names: dict[int, list[NameHits]] = {}
    for (group, what), hits in sorted(tally.names.items()):
        names.setdefault(group, []).append(NameHits(what, hits))
    files: dict[int, list[FileHits]] = {}
    for (group, file), hits in sorted(tally.residue_files.items()):
        files.setdefault(group, []).append(FileHits(file, hits))
    aside: dict[int, list[AsideRecords]] = {}
    for (group, tp, where), spread in sorted(tally.aside.items(), key=lambda each: each[0]):
        aside.setdefault(group, []).append(AsideRecords(spread.span_in(tp), *where))
    found = []
    for index, key_print in enumerate(keys.prints):
        group = groups[index]
        found.append(
            PrintFindings(
                spans=tuple(spans.get(group, ())),
                records=tally.counts.get((RECORD, group), 0),
                mentions=tally.counts.get((MENTION, group), 0),
                names=tuple(names.get(group, ())),
                residue=tally.counts.get((RESIDUE, group), 0),
                residue_files=tuple(files.get(group, ())[:SHOWN_RESIDUE_FILES]),
                record_places=tuple(tally.places.get((RECORD, group), ())),
                mention_places=tuple(tally.places.get((MENTION, group), ())),
                name_places=tuple(tally.places.get((NAME, group), ())),
                residue_places=tuple(tally.places.get((RESIDUE, group), ())),
                aside=tuple(aside.get(group, ())),
                raw_unsearched=why_not_raw(key_print),
            )
        )
    return found
