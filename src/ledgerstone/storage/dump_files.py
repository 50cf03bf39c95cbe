"""Facts about every file that is neither a log nor an index: snapshots, checkpoints, texts.

Grade D, read-only. The formats are decoded by their owners. The facts are in
`dump_facts`, indexes in `dump_index`, logs in `dump_log`, directories in `dump`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem
from ledgerstone.storage.checkpoints import (
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    PartitionMetadata,
    read_if_exists,
)
from ledgerstone.storage.dump_facts import (
    CheckpointFacts,
    CleanShutdownFacts,
    FileFact,
    FileFacts,
    FileFormat,
    LeaderEpochFacts,
    MetaPropertiesFacts,
    Problem,
    ProducerFacts,
    RemovalFacts,
    TopicIdFacts,
    UnfinishedFacts,
)
from ledgerstone.storage.dump_history import dump_history
from ledgerstone.storage.dump_index import INDEXES, dump_index
from ledgerstone.storage.log_dir_files import CleanShutdownFile, read_meta_properties
from ledgerstone.storage.producer_snapshot import ENTRY as PRODUCER_ENTRY
from ledgerstone.storage.producer_snapshot import HEADER as SNAPSHOT_HEADER
from ledgerstone.storage.producer_snapshot import decode_snapshot
from ledgerstone.storage.removal_marks import decode_marks
from ledgerstone.uuid_text import uuid_to_text

# Snapshots and texts are decoded whole; brokers write nothing near this size.
MAX_WHOLE_FILE_BYTES: Final = 64 << 20
_NEVER_WRITTEN: Final = (
    "empty: the broker was interrupted while writing it; the next start discards it and "
    "reads the log instead"
)


def dump_small_file(fs: Filesystem, named: FileFacts, *, verify: bool) -> Iterator[FileFact]:
    """Everything in a file that is not a log; `verify` also checks it against the log beside it."""
    if named.format in INDEXES:
        yield from dump_index(fs, named, verify=verify)
        return
    if named.size_bytes > MAX_WHOLE_FILE_BYTES:
        raise CorruptFile(
            named.path, 0, f"{named.size_bytes} bytes is too large for this kind of file"
        )
    read = _READERS.get(named.format)
    if read is not None:
        yield from read(fs, named.path)


def _dump_snapshot(fs: Filesystem, path: str) -> Iterator[FileFact]:
    data = read_if_exists(fs, path) or b""
    if not data:
        yield UnfinishedFacts(path=path, reason=_NEVER_WRITTEN)
        return
    entries = decode_snapshot(data, path)
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


def _dump_removal_marks(fs: Filesystem, path: str) -> Iterator[FileFact]:
    removed_to = decode_marks(read_if_exists(fs, path) or b"", path)
    yield RemovalFacts(path=path, removed_to=removed_to)


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
    FileFormat.CLEANING_HISTORY: dump_history,
    FileFormat.REMOVAL_MARKS: _dump_removal_marks,
}
