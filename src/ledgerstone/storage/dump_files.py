"""The files around a log as facts: indexes, snapshots, checkpoints, and whether they are true.

Grade D, and it only ever reads. Owns the facts about every file that is not a log; logs and
directories are in `dump`. The formats are decoded by their owners. The names of the facts' fields
are the names in `ledgerstone dump --json` and are listed in docs/dump.md.
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import ClassVar, Final, NamedTuple

from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.fs import File, Filesystem, join, name_of, parent_of
from ledgerstone.records.batch import BatchHeader
from ledgerstone.storage import filenames, offset_index, time_index, txn_index
from ledgerstone.storage.batch_scan import scan_headers
from ledgerstone.storage.checkpoints import (
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    PartitionMetadata,
    read_if_exists,
)
from ledgerstone.storage.filenames import Kind, file_name, parse_file_name
from ledgerstone.storage.log_dir_files import CleanShutdownFile, read_meta_properties
from ledgerstone.storage.producer_snapshot import ENTRY as PRODUCER_ENTRY
from ledgerstone.storage.producer_snapshot import HEADER as SNAPSHOT_HEADER
from ledgerstone.storage.producer_snapshot import decode_snapshot
from ledgerstone.types import INT64_MAX, NO_OFFSET, NO_TIMESTAMP
from ledgerstone.uuid_text import uuid_to_text

# Snapshots and texts are decoded whole; nothing a broker writes comes near this size.
MAX_WHOLE_FILE_BYTES: Final = 64 << 20
_BLOCK_ENTRIES: Final = 8192
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
    filenames.RECOVERY_POINT_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.LOG_START_OFFSET_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.HIGH_WATERMARK_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.CLEANER_OFFSET_CHECKPOINT: FileFormat.OFFSET_CHECKPOINT,
    filenames.META_PROPERTIES: FileFormat.META_PROPERTIES,
    filenames.CLEAN_SHUTDOWN_FILE: FileFormat.CLEAN_SHUTDOWN,
    filenames.LOCK_FILE: FileFormat.LOCK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What a file's name and size say; it comes before everything that is in the file."""

    type: ClassVar[str] = "file"
    path: str
    format: FileFormat
    size_bytes: int
    base_offset: int | None  # the number in the name; None where the name has none
    suffix: str  # .deleted, .cleaned, .swap, .tmp, or empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something is not as it must be. In texts the position is a line, elsewhere a byte."""

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


FileFact = (
    FileFacts
    | Problem
    | OffsetIndexEntry
    | TimeIndexEntry
    | IndexTotals
    | AbortedTxnFacts
    | ProducerFacts
    | LeaderEpochFacts
    | CheckpointFacts
    | TopicIdFacts
    | MetaPropertiesFacts
    | CleanShutdownFacts
)


def format_of(name: str) -> FileFormat:
    parsed = parse_file_name(name)
    if parsed is not None:
        is_mark = parsed.suffix == filenames.FOLLOWS
        return FileFormat.FOLLOWS_MARK if is_mark else _OF_KIND[parsed.kind]
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


def dump_small_file(fs: Filesystem, named: FileFacts, *, verify: bool) -> Iterator[FileFact]:
    """Everything in a file that is not a log; `verify` also holds it against the log beside it."""
    index = _INDEXES.get(named.format)
    if index is not None:
        yield from _dump_index(fs, named, index, verify=verify)
        return
    if named.size_bytes > MAX_WHOLE_FILE_BYTES:
        raise CorruptFile(named.path, 0, f"{named.size_bytes} bytes is too long for such a file")
    read = _READERS.get(named.format)
    if read is not None:
        yield from read(fs, named.path)


# -- indexes ----------------------------------------------------------------------------------

IndexEntry = OffsetIndexEntry | TimeIndexEntry | AbortedTxnFacts


class _IndexFormat(NamedTuple):
    entry_bytes: int
    # Path, a block of whole entries, its position in the file, base offset.
    decode: Callable[[str, bytes, int, int], Iterator[IndexEntry]]


def _decode_offsets(path: str, block: bytes, start: int, base: int) -> Iterator[IndexEntry]:
    for slot, (offset, log_position) in enumerate(offset_index.decode_entries(block, base)):
        position = start + slot * offset_index.ENTRY_BYTES
        yield OffsetIndexEntry(
            path=path, position=position, offset=offset, log_position=log_position
        )


def _decode_times(path: str, block: bytes, start: int, base: int) -> Iterator[IndexEntry]:
    for slot, (timestamp, offset) in enumerate(time_index.decode_entries(block, base)):
        position = start + slot * time_index.ENTRY_BYTES
        yield TimeIndexEntry(path=path, position=position, timestamp_ms=timestamp, offset=offset)


def _decode_txns(path: str, block: bytes, start: int, _: int) -> Iterator[IndexEntry]:
    try:
        entries = txn_index.decode_entries(block, path)
    except CorruptFile as error:
        raise CorruptFile(path, start + error.position, error.reason) from error
    for slot, entry in enumerate(entries):
        position = start + slot * txn_index.ENTRY_BYTES
        yield AbortedTxnFacts(path=path, position=position, **entry._asdict())


_INDEXES: Final[Mapping[FileFormat, _IndexFormat]] = {
    FileFormat.OFFSET_INDEX: _IndexFormat(offset_index.ENTRY_BYTES, _decode_offsets),
    FileFormat.TIME_INDEX: _IndexFormat(time_index.ENTRY_BYTES, _decode_times),
    FileFormat.TXN_INDEX: _IndexFormat(txn_index.ENTRY_BYTES, _decode_txns),
}


def _dump_index(
    fs: Filesystem, named: FileFacts, index: _IndexFormat, *, verify: bool
) -> Iterator[FileFact]:
    file = fs.open(named.path)
    try:
        whole = named.size_bytes - named.size_bytes % index.entry_bytes
        used = _used_bytes(file, whole, index.entry_bytes)
        yield from _entries(file, named, index, used)
        yield IndexTotals(
            path=named.path,
            entry_count=used // index.entry_bytes,
            zero_tail_bytes=whole - used,
        )
        if whole < named.size_bytes:
            reason = f"length {named.size_bytes} is not a multiple of {index.entry_bytes}"
            yield Problem(path=named.path, position=whole, reason=reason)
        if verify:
            yield from _verify_index(fs, named, _entries(file, named, index, used))
    finally:
        file.close()


def _entries(file: File, named: FileFacts, index: _IndexFormat, end: int) -> Iterator[IndexEntry]:
    step = _BLOCK_ENTRIES * index.entry_bytes
    for start in range(0, end, step):
        block = file.pread(min(step, end - start), start)
        yield from index.decode(named.path, block, start, named.base_offset or 0)


def _used_bytes(file: File, whole: int, entry_bytes: int) -> int:
    """Where the entries end and a preallocated tail of zeros begins."""
    end = whole
    step = _BLOCK_ENTRIES * entry_bytes
    while end:
        start = max(0, end - step)
        filled = len(file.pread(end - start, start).rstrip(b"\0"))
        if filled:
            end = start + -(-filled // entry_bytes) * entry_bytes
            break
        end = start
    # One entry of zeros may be meant: a first record at time 0. Two in a row never are.
    return whole if whole - end < 2 * entry_bytes else end


# -- is an index true? ------------------------------------------------------------------------


class _BatchCursor:
    """Moves forward over the headers of a log; `header` is None once there are no more."""

    __slots__ = ("_headers", "header", "max_timestamp_before", "position")

    def __init__(self, file: File) -> None:
        self._headers = scan_headers(file, 0, file.size())
        self.header: BatchHeader | None = None
        self.position = 0
        self.max_timestamp_before = NO_TIMESTAMP
        self.advance()

    def advance(self) -> None:
        if self.header is not None:
            self.max_timestamp_before = max(self.max_timestamp_before, self.header.max_timestamp)
        try:
            self.position, self.header = next(self._headers, (self.position, None))
        except KafkaError:
            # The dump of the log itself says what is wrong there; for an index the log ends here.
            self.header = None


def _verify_index(
    fs: Filesystem, named: FileFacts, entries: Iterator[IndexEntry]
) -> Iterator[Problem]:
    if named.format is FileFormat.TXN_INDEX:
        yield from _verify_txns(entries, named.base_offset or 0)
        return
    log_name = file_name(named.base_offset or 0, Kind.LOG, named.suffix)
    log_path = join(parent_of(named.path), log_name)
    if not fs.exists(log_path):
        yield Problem(path=named.path, position=0, reason=f"no {log_name} beside it")
        return
    log = fs.open(log_path)
    try:
        verify = _verify_offsets if named.format is FileFormat.OFFSET_INDEX else _verify_times
        yield from verify(entries, _BatchCursor(log))
    finally:
        log.close()


def _verify_offsets(entries: Iterator[IndexEntry], cursor: _BatchCursor) -> Iterator[Problem]:
    previous_offset = NO_OFFSET
    for entry, following in pairwise(chain(entries, (None,))):
        assert isinstance(entry, OffsetIndexEntry)
        if entry.offset <= previous_offset:
            yield _problem(entry, f"offset {entry.offset} follows {previous_offset}")
            continue
        previous_offset = entry.offset
        while cursor.header is not None and cursor.position < entry.log_position:
            cursor.advance()
        if cursor.header is None or cursor.position != entry.log_position:
            yield _problem(entry, f"no batch begins at log position {entry.log_position}")
            continue
        # The offset is the last one of an appended set, and a set may be several batches: those
        # before the position of the next entry.
        end = following.log_position if isinstance(following, OffsetIndexEntry) else INT64_MAX
        is_in_set = True
        while is_in_set and cursor.header is not None and cursor.header.last_offset < entry.offset:
            cursor.advance()
            is_in_set = cursor.position < end
        if not is_in_set or cursor.header is None or cursor.header.last_offset != entry.offset:
            reason = f"no batch from log position {entry.log_position} on ends with offset"
            yield _problem(entry, f"{reason} {entry.offset}")


def _verify_times(entries: Iterator[IndexEntry], cursor: _BatchCursor) -> Iterator[Problem]:
    previous = (NO_TIMESTAMP, NO_OFFSET)
    for entry in entries:
        assert isinstance(entry, TimeIndexEntry)
        if entry.timestamp_ms <= previous[0] or entry.offset < previous[1]:
            found = (entry.timestamp_ms, entry.offset)
            yield _problem(entry, f"timestamp and offset {found} follow {previous}")
            continue
        previous = (entry.timestamp_ms, entry.offset)
        while cursor.header is not None and cursor.header.last_offset < entry.offset:
            cursor.advance()
        header = cursor.header
        if header is None or header.base_offset > entry.offset:
            yield _problem(entry, f"offset {entry.offset} is in no batch of the log")
        elif header.max_timestamp != entry.timestamp_ms:
            reason = f"the batch with offset {entry.offset} has {header.max_timestamp}"
            yield _problem(entry, f"timestamp {entry.timestamp_ms}, but {reason}")
        elif cursor.max_timestamp_before > entry.timestamp_ms:
            reason = f"{cursor.max_timestamp_before} comes before offset {entry.offset}"
            yield _problem(entry, f"timestamp {entry.timestamp_ms}, but {reason}")


def _verify_txns(entries: Iterator[IndexEntry], base_offset: int) -> Iterator[Problem]:
    previous_last = base_offset - 1
    for entry in entries:
        assert isinstance(entry, AbortedTxnFacts)
        if entry.last_offset <= previous_last:
            yield _problem(entry, f"last offset {entry.last_offset} follows {previous_last}")
        elif entry.first_offset > entry.last_offset:
            reason = f"first offset {entry.first_offset} is past last offset {entry.last_offset}"
            yield _problem(entry, reason)
        previous_last = max(previous_last, entry.last_offset)


def _problem(entry: IndexEntry, reason: str) -> Problem:
    return Problem(path=entry.path, position=entry.position, reason=reason)


# -- snapshots and texts ----------------------------------------------------------------------


def _dump_snapshot(fs: Filesystem, path: str) -> Iterator[FileFact]:
    entries = decode_snapshot(read_if_exists(fs, path) or b"", path)
    for slot, entry in enumerate(entries):
        fields = entry._asdict()
        yield ProducerFacts(
            path=path,
            position=SNAPSHOT_HEADER.size + slot * PRODUCER_ENTRY.size,
            timestamp_ms=fields.pop("timestamp"),
            **fields,
        )


def _dump_leader_epochs(fs: Filesystem, path: str) -> Iterator[FileFact]:
    previous = None
    for line, entry in enumerate(LeaderEpochCheckpoint(fs, path).read(), start=3):
        yield LeaderEpochFacts(path=path, leader_epoch=entry.epoch, start_offset=entry.start_offset)
        if previous is not None and not (
            entry.epoch > previous.epoch and entry.start_offset > previous.start_offset
        ):
            reason = f"epoch and start offset {tuple(entry)} follow {tuple(previous)}"
            yield Problem(path=path, position=line, reason=reason)
        previous = entry


def _dump_checkpoint(fs: Filesystem, path: str) -> Iterator[FileFact]:
    for tp, offset in OffsetCheckpoint(fs, path).read().items():
        yield CheckpointFacts(path=path, topic=tp.topic, partition=tp.partition, offset=offset)


def _dump_partition_metadata(fs: Filesystem, path: str) -> Iterator[FileFact]:
    topic_id = PartitionMetadata(fs, path).read()
    if topic_id is not None:
        yield TopicIdFacts(path=path, topic_id=uuid_to_text(topic_id))


def _dump_meta_properties(fs: Filesystem, path: str) -> Iterator[FileFact]:
    meta = read_meta_properties(fs, path)
    if meta is not None:
        directory_id = None if meta.directory_id is None else uuid_to_text(meta.directory_id)
        yield MetaPropertiesFacts(
            path=path,
            cluster_id=meta.cluster_id,
            node_id=meta.node_id,
            directory_id=directory_id,
        )


def _dump_clean_shutdown(fs: Filesystem, path: str) -> Iterator[FileFact]:
    broker_epoch = CleanShutdownFile(fs, path).read_broker_epoch()
    yield CleanShutdownFacts(path=path, broker_epoch=broker_epoch)


_READERS: Final[Mapping[FileFormat, Callable[[Filesystem, str], Iterator[FileFact]]]] = {
    FileFormat.PRODUCER_SNAPSHOT: _dump_snapshot,
    FileFormat.LEADER_EPOCHS: _dump_leader_epochs,
    FileFormat.PARTITION_METADATA: _dump_partition_metadata,
    FileFormat.OFFSET_CHECKPOINT: _dump_checkpoint,
    FileFormat.META_PROPERTIES: _dump_meta_properties,
    FileFormat.CLEAN_SHUTDOWN: _dump_clean_shutdown,
}
