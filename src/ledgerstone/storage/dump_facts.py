"""The facts a dump reports about the files around a log, and their formats.

Grade D for the size of a file; the rest is data. The fields have the names of `ledgerstone dump
--json`, listed in docs/dump.md. `dump_files` and `dump_index` find the facts; those about logs are
in `dump_log`.
"""

import enum
from collections.abc import Mapping
from typing import ClassVar, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.fs import Filesystem, name_of
from ledgerstone.storage import filenames
from ledgerstone.storage.dump_history import HistoryFacts
from ledgerstone.storage.filenames import Kind, parse_file_name

_SUFFIXES: Final = (filenames.DELETED, filenames.CLEANED, filenames.SWAP, filenames.TMP)


class FileFormat(enum.StrEnum):
    LOG = "log"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TXN_INDEX = "txn_index"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    LEADER_EPOCHS = "leader_epoch_checkpoint"
    PARTITION_METADATA = "partition_metadata"
    OFFSET_CHECKPOINT = "offset_checkpoint"
    META_PROPERTIES = "meta_properties"
    CLEAN_SHUTDOWN = "clean_shutdown"
    LOCK = "lock"
    FOLLOWS_MARK = "follows_mark"
    CLEANING_HISTORY = "cleaning_history"
    REMOVAL_MARKS = "removal_marks"
    DAMAGE_NOTES = "damage_notes"
    SIZES_AT_STOP = "sizes_at_stop"
    LAST_START = "last_start"
    QUORUM_STATE = "quorum_state"
    METADATA_SNAPSHOT = "metadata_snapshot"
    FOREIGN = "foreign"


_OF_KIND: Final[Mapping[Kind, FileFormat]] = {
    Kind.LOG: FileFormat.LOG,
    Kind.INDEX: FileFormat.OFFSET_INDEX,
    Kind.TIME_INDEX: FileFormat.TIME_INDEX,
    Kind.TXN_INDEX: FileFormat.TXN_INDEX,
    Kind.SNAPSHOT: FileFormat.PRODUCER_SNAPSHOT,
}
_OF_NAME: Final[Mapping[str, FileFormat]] = {
    filenames.LEADER_EPOCH_CHECKPOINT: FileFormat.LEADER_EPOCHS,
    filenames.PARTITION_METADATA: FileFormat.PARTITION_METADATA,
    filenames.CLEANING_HISTORY: FileFormat.CLEANING_HISTORY,
    filenames.REMOVAL_MARKS: FileFormat.REMOVAL_MARKS,
    filenames.RECOVERY_POINT_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.LOG_START_OFFSET_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.HIGH_WATERMARK_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.CLEANER_OFFSET_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.META_PROPERTIES: FileFormat.META_PROPERTIES,
    filenames.CLEAN_SHUTDOWN_FILE: FileFormat.CLEAN_SHUTDOWN,
    filenames.LOCK_FILE: FileFormat.LOCK,
    filenames.DAMAGE_NOTES: FileFormat.DAMAGE_NOTES,
    filenames.SIZES_AT_STOP: FileFormat.SIZES_AT_STOP,
    filenames.LAST_START: FileFormat.LAST_START,
    filenames.QUORUM_STATE: FileFormat.QUORUM_STATE,
    filenames.BOOTSTRAP_CHECKPOINT: FileFormat.METADATA_SNAPSHOT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A file's name and size; comes before the facts from inside the file."""

    type: ClassVar[str] = "file"
    path: str
    format: FileFormat
    size_bytes: int
    base_offset: int | None  # the number in the name, if any
    suffix: str  # .deleted, .cleaned, .swap, .tmp, or empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something is wrong. In text files the position is a line, elsewhere a byte."""

    type: ClassVar[str] = "problem"
    path: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetIndexEntry:
    type: ClassVar[str] = "offset_index_entry"
    path: str
    position: int
    offset: int
    log_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIndexEntry:
    type: ClassVar[str] = "time_index_entry"
    path: str
    position: int
    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTotals:
    type: ClassVar[str] = "index_totals"
    path: str
    entry_count: int
    zero_tail_bytes: int  # space that Kafka preallocates for the index of an active segment


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTxnFacts:
    type: ClassVar[str] = "aborted_txn"
    path: str
    position: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFacts:
    type: ClassVar[str] = "producer"
    path: str
    position: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedFacts:
    """The file is empty, and nothing is lost: it is rebuilt from the log."""

    type: ClassVar[str] = "unfinished"
    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochFacts:
    type: ClassVar[str] = "leader_epoch"
    path: str
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    type: ClassVar[str] = "checkpoint"
    path: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdFacts:
    type: ClassVar[str] = "topic_id"
    path: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalFacts:
    """Every tombstone that the log lacks lay below."""

    type: ClassVar[str] = "removal_marks"
    path: str
    removed_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaPropertiesFacts:
    type: ClassVar[str] = "meta_properties"
    path: str
    cluster_id: str | None
    node_id: int
    directory_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanShutdownFacts:
    type: ClassVar[str] = "clean_shutdown"
    path: str
    broker_epoch: int


IndexEntry = OffsetIndexEntry | TimeIndexEntry | AbortedTxnFacts

FileFact = (
    FileFacts
    | Problem
    | OffsetIndexEntry
    | TimeIndexEntry
    | IndexTotals
    | AbortedTxnFacts
    | ProducerFacts
    | UnfinishedFacts
    | LeaderEpochFacts
    | CheckpointFacts
    | TopicIdFacts
    | RemovalFacts
    | MetaPropertiesFacts
    | CleanShutdownFacts
    | HistoryFacts
)


def format_of(name: str) -> FileFormat:
    parsed = parse_file_name(name)
    if parsed is not None:
        is_mark = parsed.suffix == filenames.FOLLOWS
        return FileFormat.FOLLOWS_MARK if is_mark else _OF_KIND[parsed.kind]
    if filenames.is_metadata_snapshot(name):
        return FileFormat.METADATA_SNAPSHOT
    return _OF_NAME.get(name.removesuffix(_suffix_of(name)), FileFormat.FOREIGN)


def identify(fs: Filesystem, path: str) -> FileFacts:
    name = name_of(path)
    parsed = parse_file_name(name)
    return FileFacts(
        path=path,
        format=format_of(name),
        size_bytes=fs.size_of(path),
        base_offset=None if parsed is None else parsed.offset,
        suffix=_suffix_of(name),
    )


def _suffix_of(name: str) -> str:
    return next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
