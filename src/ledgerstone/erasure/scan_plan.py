"""What a search or a scan for keys is told, and what it tells back: plain facts. Grade P.

A search looks for records of the keys in the logs of one topic; a scan looks for the bytes of the
keys in every file of a node. Both know keys only as prints. The seed and the base in a plan are
secret: a plan travels through a pipe, and never into a command line, a log or an answer.
Contract: the section "Search and scan" of README.md.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import (
    FileHits,
    FileTrouble,
    KindCount,
    NameHits,
    PartitionScan,
    RecordSpan,
    ReplicaScan,
)
from ledgerstone.erasure.key_print import MIN_RAW_BYTES, KeyPrint, PrintKey
from ledgerstone.records.compression import STORED_LIMIT
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition

# A window must hold a key and its surroundings, and windows are bounded.
MAX_RAW_BYTES: Final = 4 << 20
# Of a class and a key; the counts are exact all the same.
SHOWN_PLACES: Final = 20
DEFAULT_MAX_PLACES: Final = 10_000
# Files with residue that are told one by one; a key that is in more of them needs other help.
SHOWN_RESIDUE_FILES: Final = 100
NO_POSITION: Final = -1
# Files that were not searched as they should be, and partitions, that are told one by one.
SHOWN_TROUBLES: Final = 100
SHOWN_PARTITIONS: Final = 64
# Of lists in texts for people.
_SHOWN_FILES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPrints:
    """Keys to look for, and the secrets under which they were printed."""

    prints: tuple[KeyPrint, ...]
    sip_seed: bytes = field(repr=False)
    rolling_base: int = field(repr=False)

    @classmethod
    def under(cls, print_key: PrintKey, prints: Sequence[KeyPrint]) -> "KeyPrints":
        return cls(
            prints=tuple(prints),
            sip_seed=print_key.sip_seed,
            rolling_base=print_key.rolling_base,
        )


class LiveSegment(NamedTuple):
    """A segment as its owner knows it: what lies behind `size_bytes` is not yet there."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedPartition:
    topic_partition: TopicPartition
    directory: str
    segments: tuple[LiveSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    partitions: tuple[ScannedPartition, ...]
    keys: KeyPrints
    max_places: int = DEFAULT_MAX_PLACES
    decompression_limit_bytes: int = STORED_LIMIT
    bytes_per_second: float | None = None  # None is unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class ResiduePlan:
    log_dirs: tuple[str, ...]
    keys: KeyPrints
    # Of these topics only the directories in `replicas` are logs as they stand: offsets count in no
    # others. Directories of other topics are believed.
    topics: tuple[str, ...] = ()
    replicas: tuple[str, ...] = ()
    decompression_limit_bytes: int = STORED_LIMIT
    bytes_per_second: float | None = None


ScanPlan = SearchPlan | ResiduePlan


class Place(NamedTuple):
    """One record of a key."""

    print_index: int
    topic: str
    partition: int
    file: str  # its name in the partition's directory
    position: int  # of the batch in the file
    offset: int
    timestamp_ms: int
    is_tombstone: bool
    erasure_id: str | None  # of a tombstone that an erasure wrote
    codec: str
    leader_epoch: int = NO_LEADER_EPOCH  # of its batch


class UnreadableBytes(NamedTuple):
    """Bytes of a log file that cannot be read as records."""

    file: str
    position: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file} at {self.position}: {self.reason}"


class SpanOfPrint(NamedTuple):
    print_index: int
    span: RecordSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """Spans count every record; places are the first `max_places`, and of each span the last."""

    spans: tuple[SpanOfPrint, ...]
    places: tuple[Place, ...]
    is_truncated: bool
    scanned_bytes: int
    files: int = 0
    damaged: tuple[UnreadableBytes, ...] = ()
    # Files that went while the search ran; what they held may be in others by now.
    vanished: tuple[str, ...] = ()

    @property
    def trouble(self) -> str | None:
        """Why the search may have missed something."""
        return _first_trouble({"damaged": self.damaged, "vanished": self.vanished})

    def spans_of(self, print_index: int) -> tuple[RecordSpan, ...]:
        return tuple(each.span for each in self.spans if each.print_index == print_index)


class FoundAt(NamedTuple):
    """Where a hit of a scan is: the position is the batch's where the batch is compressed."""

    file: str
    position: int  # NO_POSITION: in the name of the file, or in a field that was decoded
    offset: int | None = None  # of the record it lies in
    field: str = ""  # what it was found in, where that is no plain bytes

    def __str__(self) -> str:
        if self.position == NO_POSITION:
            return f"{self.file}, {self.field}"
        return f"{self.file} at {self.position}"


class AsideRecords(NamedTuple):
    """Records of a key in one file of a directory that is no replica, or not yet one. Nothing
    truncates or compacts it, so its offsets do not say whose life they belong to."""

    span: RecordSpan
    file: str
    is_name_cut: bool = False  # of the directory: the topic's may have been longer
    # It waits for nobody's decision: a copy for another directory, or a replica that is coming.
    is_passing: bool = False

    def is_of(self, topic: str) -> bool:
        name = self.span.topic
        return name == topic or (self.is_name_cut and topic.startswith(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintFindings:
    """What a scan found of one key. Records, mentions, names and residue exclude each other.

    No path in it holds a key that was looked for: such a part is shown as `…`."""

    spans: tuple[RecordSpan, ...] = ()
    records: int = 0  # records whose key is the key, in whatever topic
    mentions: int = 0  # in records of other keys: in a key, a value or a header
    names: tuple[NameHits, ...] = ()  # in names of topics, groups and such
    residue: int = 0  # anywhere else
    residue_files: tuple[FileHits, ...] = ()  # the first SHOWN_RESIDUE_FILES
    record_places: tuple[FoundAt, ...] = ()
    mention_places: tuple[FoundAt, ...] = ()
    name_places: tuple[FoundAt, ...] = ()
    residue_places: tuple[FoundAt, ...] = ()
    # Records in directories that are set aside or wait to be removed, by file. In no span.
    aside: tuple[AsideRecords, ...] = ()
    raw_unsearched: str | None = None  # why its bytes were looked for only as keys of records


class FileDigest(NamedTuple):
    """A file as it was scanned. The path starts with the number of its log directory."""

    path: str
    size_bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    prints: tuple[PrintFindings, ...]
    files: tuple[FileDigest, ...]  # by path
    scanned_bytes: int
    digest: str  # SHA-256 over `files`, hexadecimal
    vanished: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()  # scanned up to the size first seen
    damaged: tuple[UnreadableBytes, ...] = ()  # searched as bytes, not as records
    unreadable: tuple[FileTrouble, ...] = ()
    restless: tuple[str, ...] = ()  # directories whose logs changed again and again
    hidden_topics: Mapping[str, str] = field(default_factory=dict)  # how to show their names
    kinds: tuple[KindCount, ...] = ()  # `files`, counted
    partitions: Mapping[str, tuple[PartitionScan, ...]] = field(default_factory=dict)  # by topic

    @property
    def trouble(self) -> str | None:
        """Why the scan did not see everything; None for a complete one."""
        return _first_trouble(
            {
                "unreadable": self.unreadable,
                "not readable as records": self.damaged,
                "changed all the while": self.restless,
            }
        )

    def of_replica(
        self, print_index: int, *, topic: str, node_id: int, started_ms: int, ended_ms: int
    ) -> ReplicaScan:
        found = self.prints[print_index]
        troubles = self._file_troubles()
        told = troubles[:SHOWN_TROUBLES]
        trouble = _first_trouble({"changed all the while": self.restless})
        if len(troubles) > SHOWN_TROUBLES:
            trouble = self.trouble
        # Of the topic itself it is not known which life they are of; of others they are told.
        own = [each for each in found.aside if each.is_of(topic)]
        passing = [each for each in own if each.is_passing]
        if passing:
            # Readable soon, so nobody may accept them.
            trouble = f"the key is in {passing[0].file}, in no log that is hosted here now"
        aside = [FileHits(each.file, each.span.records) for each in own if not each.is_passing]
        spans = [*found.spans, *(each.span for each in found.aside if each not in own)]
        places = [*map(str, found.residue_places), *(each.file for each in aside)]
        files = sorted([*found.residue_files, *aside])
        return ReplicaScan(
            node_id=node_id,
            started_ms=started_ms,
            ended_ms=ended_ms,
            files=len(self.files),
            scanned_bytes=self.scanned_bytes,
            digest=self.digest,
            trouble=trouble,
            troubles=tuple(told),
            records=tuple(spans),
            hidden_topics=tuple(
                (name, self.hidden_topics[name])
                for name in dict.fromkeys(span.topic for span in spans)
                if name in self.hidden_topics
            ),
            mentions=found.mentions,
            names=found.names,
            residue=found.residue + sum(each.hits for each in aside),
            residue_places=tuple(places[:SHOWN_PLACES]),
            residue_files=tuple(files[:SHOWN_RESIDUE_FILES]),
            kinds=self.kinds,
            partitions=self.partitions.get(topic, ())[:SHOWN_PARTITIONS],
            partition_count=len(self.partitions.get(topic, ())),
        )

    def _file_troubles(self) -> list[FileTrouble]:
        """Of each file the first."""
        found = {each.file: each.why for each in self.unreadable}
        for damage in self.damaged:
            found.setdefault(damage.file, f"at {damage.position}: {damage.reason}")
        return [FileTrouble(file, why) for file, why in sorted(found.items())]


def why_not_raw(key_print: KeyPrint) -> str | None:
    if key_print.length < MIN_RAW_BYTES:
        return f"keys of less than {MIN_RAW_BYTES} bytes are in any file by chance"
    if key_print.telling < MIN_RAW_BYTES:
        return "keys that are small numbers, filled up with zeros, are in any file by chance"
    if key_print.length > MAX_RAW_BYTES:
        return f"keys of more than {MAX_RAW_BYTES} bytes are too long for a window"
    return None


def _first_trouble(lists: dict[str, Sequence[object]]) -> str | None:
    for what, found in lists.items():
        if found:
            more = f" and {len(found) - _SHOWN_FILES} more" if len(found) > _SHOWN_FILES else ""
            return f"{what}: {', '.join(str(each) for each in found[:_SHOWN_FILES])}{more}"
    return None
