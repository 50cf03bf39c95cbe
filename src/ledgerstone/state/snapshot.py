"""A topic's state as one file: written atomically, read back in bounded pieces. Grade D.

The bytes and the fields are in README.md. A torn, changed or forged file is refused with
CorruptFile before its contents are used.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

import numpy as np

from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.fs import File, Filesystem, parent_of
from ledgerstone.records.crc import crc32c
from ledgerstone.records.kernels import BatchAction, Columns, rewrite
from ledgerstone.records.kernels.windows import Bytes
from ledgerstone.state.content import checksum_text
from ledgerstone.state.fold import Fold
from ledgerstone.state.manifest import (
    BadManifest,
    Manifest,
    PartitionManifest,
    from_json,
    manifest_of,
    to_json,
)
from ledgerstone.state.rows import Piece, SecondPassTally
from ledgerstone.state.topic_state import PartitionState, TopicState
from ledgerstone.types import Buffer

MAGIC: Final = b"LSSTATE\n"
VERSION: Final = 1
HEADER: Final = Struct(">8sHI")  # magic, version, bytes of the manifest
PIECE: Final = Struct(">iI")  # partition, bytes of batches that follow
TRAILER: Final = Struct(">QI")  # bytes of the file, CRC-32C of everything before this field
CRC_SIZE: Final = 4
END_OF_PIECES: Final = -1
TEMPORARY_SUFFIX: Final = ".tmp"
LOCK_SUFFIX: Final = ".lock"


class Snapshot:
    """An open snapshot file. Replacing the file by name later does not affect it."""

    def __init__(self, fs: Filesystem, path: str) -> None:
        self.path = path
        self._file = fs.open(path)
        self._size = self._file.size()
        self.manifest = self._read_manifest()

    def _read_manifest(self) -> Manifest:
        smallest = HEADER.size + PIECE.size + TRAILER.size
        if self._size < smallest:
            raise self._corrupt(0, f"{self._size} bytes, a snapshot has at least {smallest}")
        magic, version, length = HEADER.unpack(self._file.pread(HEADER.size, 0))
        if magic != MAGIC:
            raise self._corrupt(0, f"begins with {magic!r}, not {MAGIC!r}")
        if version != VERSION:
            raise self._corrupt(8, f"has version {version}, expected {VERSION}")
        if length > self._size - smallest:
            raise self._corrupt(10, f"a manifest of {length} bytes in a file of {self._size}")
        stated, _ = TRAILER.unpack(self._file.pread(TRAILER.size, self._size - TRAILER.size))
        if stated != self._size:
            raise self._corrupt(self._size, f"is torn: it should have {stated} bytes")
        self._pieces_at = HEADER.size + length
        try:
            return from_json(self._file.pread(length, HEADER.size))
        except BadManifest as error:
            raise self._corrupt(HEADER.size, str(error)) from error

    def pieces(self) -> Iterator[Piece]:
        """All batches, ordered by partition and offset. The CRC is checked at the end; until then
        the batches are unverified."""
        position = self._pieces_at
        crc = crc32c(self._file.pread(position, 0))
        end = self._size - TRAILER.size
        listed = iter(self.manifest.partitions)
        current = next(listed)
        while True:
            if end - position < PIECE.size:
                raise self._corrupt(position, "the pieces do not end")
            head = self._file.pread(PIECE.size, position)
            partition, length = PIECE.unpack(head)
            position += PIECE.size
            if partition == END_OF_PIECES:
                break
            if length > end - position:
                raise self._corrupt(position, f"a piece of {length} bytes, {end - position} left")
            while current.partition != partition:
                found = next(listed, None)
                if found is None:
                    raise self._corrupt(position, f"partition {partition} is not expected here")
                current = found
            data = self._file.pread(length, position)
            crc = crc32c(data, crc32c(head, crc))
            position += length
            yield Piece(partition, data)
        self._check_end(position, length, crc32c(head, crc))

    def _check_end(self, position: int, length: int, crc: int) -> None:
        if length or position != self._size - TRAILER.size:
            raise self._corrupt(position, "more follows the last piece")
        trailer = self._file.pread(TRAILER.size, position)
        found = crc32c(trailer[:-CRC_SIZE], crc)
        stored = TRAILER.unpack(trailer)[1]
        if found != stored:
            raise self._corrupt(position, f"crc {found:#010x}, stored {stored:#010x}")

    def _corrupt(self, position: int, reason: str) -> CorruptFile:
        return CorruptFile(self.path, position, reason)

    def load(self, *, seed: bytes) -> TopicState:
        """The saved state, checked against its manifest."""
        folds = {each.partition: Fold(seed=seed) for each in self.manifest.partitions}
        for partition, data, _ in self.pieces():
            try:
                folds[partition].load(data)
            except KafkaError as error:
                raise self._corrupt(0, f"partition {partition}: {error}") from error
        return TopicState(
            topic=self.manifest.topic,
            topic_id=self.manifest.topic_id,
            cluster_id=self.manifest.cluster_id,
            isolation=self.manifest.isolation,
            created_ms=self.manifest.created_ms,
            because=self.manifest.because,
            partitions=[
                self._partition_state(each, folds[each.partition])
                for each in self.manifest.partitions
            ],
        )

    def _partition_state(self, said: PartitionManifest, fold: Fold) -> PartitionState:
        found = (fold.live_keys, checksum_text(fold.checksum))
        if found != (said.live_keys, said.checksum) or fold.next_offset > said.next_offset:
            raise self._corrupt(
                0,
                f"partition {said.partition} holds {found[0]} live keys with checksum {found[1]} "
                f"below offset {fold.next_offset}, but the manifest says {said.live_keys}, "
                f"{said.checksum}, {said.next_offset}",
            )
        fold.resume(
            next_offset=said.next_offset, leader_epoch=said.leader_epoch, counts=said.counts
        )
        return PartitionState(
            partition=said.partition,
            fold=fold,
            start_offset=said.next_offset,
            end_offset=said.next_offset,
            log_start_offset=said.log_start_offset,
            high_watermark=said.high_watermark,
            last_stable_offset=said.last_stable_offset,
            is_resumed=True,
            missing_before=said.counts.missing,
        )

    def close(self) -> None:
        self._file.close()


def write_snapshot(
    fs: Filesystem,
    path: str,
    state: TopicState,
    pieces: Iterable[Piece],
    *,
    forget_deleted_before_ms: int | None = None,
) -> int:
    """Writes the state with the batches of `pieces`, ordered by partition; returns its size.

    The file at `path` is replaced once the new one is complete and synced."""
    lock = fs.lock(path + LOCK_SUFFIX)
    temporary = path + TEMPORARY_SUFFIX
    try:
        file = fs.open(temporary, create=True)
        try:
            file.truncate(0)
            size = _write(file, state, pieces, forget_deleted_before_ms)
            file.fsync()
        except BaseException:
            file.close()
            fs.unlink(temporary)
            raise
        file.close()
        fs.rename(temporary, path)
        fs.fsync_dir(parent_of(path))
    finally:
        lock.release()
    return size


def _write(file: File, state: TopicState, pieces: Iterable[Piece], forget_ms: int | None) -> int:
    out = _Output(file)
    manifest = to_json(manifest_of(state))
    out.write(HEADER.pack(MAGIC, VERSION, len(manifest)))
    out.write(manifest)
    tally = SecondPassTally(state)
    for partition, data, start_offset in pieces:
        fold = state.partition(partition).fold
        for columns, keep in fold.judge(data, start_offset=start_offset):
            tally.saw(partition, int(keep.sum()))
            if forget_ms is not None:
                keep[(columns.value_length < 0) & (columns.timestamp < forget_ms)] = 0
            kept = _kept_batches(columns, keep)
            if len(kept):
                out.write(PIECE.pack(partition, len(kept)))
                out.write(kept)
    tally.check()
    out.write(PIECE.pack(END_OF_PIECES, 0))
    out.write(TRAILER.pack(out.position + TRAILER.size, 0)[:-CRC_SIZE])
    out.write(out.crc.to_bytes(CRC_SIZE, "big"))
    return out.position


def _kept_batches(columns: Columns, keep: Bytes) -> memoryview:
    batches = columns.batches
    # Batches that were not walked are markers, which a snapshot does not need.
    actions = np.where(batches.is_control, BatchAction.DISCARD, BatchAction.NONE)
    return rewrite(columns, keep, actions=actions.astype(np.uint8)).data


class _Output:
    """Appends, and tracks the CRC of everything so far."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.position = 0
        self.crc = 0

    def write(self, data: Buffer) -> None:
        self._file.pwrite(data, self.position)
        self.position += len(data)
        self.crc = crc32c(data, self.crc)
