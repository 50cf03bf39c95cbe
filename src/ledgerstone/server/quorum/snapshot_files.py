"""Snapshots of the metadata log on disk. Grade D. Contract: `raft.log.SnapshotStore`.

They lie beside the log's segments under Kafka's names: `<offset>-<epoch>.checkpoint`, 20 and 10
digits. A snapshot is written under a name that ends in `.part`, synced, made read-only, and only
then gets its own name. A deletion is a rename to `.deleted`; the file goes a minute later, so that
a reader in the middle of it can finish. A start removes what a crash left of either.
"""

import re
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.errors import LogStorageError
from ledgerstone.fs import File, Filesystem, join
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.storage.deleted_files import DeletedFiles
from ledgerstone.storage.sync_plan import NewFile
from ledgerstone.types import INT32_MAX, INT64_MAX, Buffer

_SUFFIX: Final = ".checkpoint"
_PART: Final = ".checkpoint.part"
_DELETED: Final = ".checkpoint.deleted"
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_UNLINK_DELAY_MS: Final = 60_000


class SnapshotFiles:
    def __init__(
        self, fs: Filesystem, clock: Clock, directory: str, deleted_files: DeletedFiles
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._directory = directory
        self._deleted_files = deleted_files
        self._sizes = _settled(fs, directory)
        # Downloads have numbers, so that a dropped one never shares its name with the next.
        self._downloads = 0
        self._part: _Part | None = None

    # -- finished ones ------------------------------------------------------------------------

    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        return tuple(self._sizes)

    def size_of(self, snapshot_id: OffsetAndEpoch) -> int:
        return self._sizes[snapshot_id]

    def path_of(self, snapshot_id: OffsetAndEpoch) -> str:
        return join(self._directory, _stem(snapshot_id) + _SUFFIX)

    def open(self, snapshot_id: OffsetAndEpoch) -> File:
        return self._fs.open_read_only(self.path_of(snapshot_id))

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        file = self.open(snapshot_id)
        try:
            return file.pread(max_bytes, position)
        finally:
            file.close()

    def delete(self, snapshot_id: OffsetAndEpoch) -> None:
        """Power loss may bring it back: a snapshot too many does no harm."""
        del self._sizes[snapshot_id]
        aside = join(self._directory, _stem(snapshot_id) + _DELETED)
        try:
            self._fs.rename(self.path_of(snapshot_id), aside)
        except OSError as error:
            raise LogStorageError(f"snapshot {snapshot_id} was not deleted: {error}") from error
        self._deleted_files.add([aside], due_ms=self._clock.now_ms() + _UNLINK_DELAY_MS)

    def appeared(self, snapshot_id: OffsetAndEpoch) -> None:
        """A file got its name, and is durable."""
        self._sizes[snapshot_id] = self._fs.size_of(self.path_of(snapshot_id))
        self._sizes = dict(sorted(self._sizes.items()))

    # -- the one that is being fetched --------------------------------------------------------

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, chunk: Buffer) -> None:
        try:
            if position == 0:
                self.drop_part()
                self._downloads += 1
                path = self._part_path(snapshot_id, f"fetched{self._downloads}")
                self._part = _Part(snapshot_id, path, self._fs.open(path, create=True))
            part = self._part
            assert part is not None
            assert part.snapshot_id == snapshot_id, (part.snapshot_id, snapshot_id)
            part.file.pwrite(chunk, position)
        except OSError as error:
            raise LogStorageError(f"snapshot {snapshot_id} was not written: {error}") from error

    def drop_part(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            part.file.close()
            self._fs.unlink(part.path)

    def part(self, snapshot_id: OffsetAndEpoch) -> tuple[File, str] | None:
        """To be looked at before it is taken."""
        part = self._part
        is_it = part is not None and part.snapshot_id == snapshot_id
        return (part.file, part.path) if is_it and part is not None else None

    def take_part(self, snapshot_id: OffsetAndEpoch) -> NewFile | None:
        """What makes the fetched part a snapshot. From now on it is not dropped any more."""
        part = self._part
        if part is None or part.snapshot_id != snapshot_id:
            return None
        self._part = None
        part.file.close()
        return NewFile(part.path, self.path_of(snapshot_id))

    # -- own ones -----------------------------------------------------------------------------

    def own_file(self, snapshot_id: OffsetAndEpoch) -> NewFile:
        """Where a snapshot of our own is written, and what it is called then."""
        return NewFile(self._part_path(snapshot_id, "own"), self.path_of(snapshot_id))

    def _part_path(self, snapshot_id: OffsetAndEpoch, origin: str) -> str:
        return join(self._directory, f"{_stem(snapshot_id)}-{origin}{_PART}")


class _Part:
    __slots__ = ("file", "path", "snapshot_id")

    def __init__(self, snapshot_id: OffsetAndEpoch, path: str, file: File) -> None:
        self.snapshot_id = snapshot_id
        self.path = path
        self.file = file


def snapshot_id_of(name: str) -> OffsetAndEpoch | None:
    """By the name of its file; None if it is no finished snapshot's."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[1]) > INT64_MAX or int(found[2]) > INT32_MAX:
        return None
    return OffsetAndEpoch(int(found[1]), int(found[2]))


def _stem(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}"


def _settled(fs: Filesystem, directory: str) -> dict[OffsetAndEpoch, int]:
    """What there is, by id. Leftovers of a crash are unlinked; whether that survives the next
    crash does not matter."""
    sizes = {}
    is_changed = False
    for name in fs.list_dir(directory):
        if name.endswith((_PART, _DELETED)):
            fs.unlink(join(directory, name))
            is_changed = True
        elif (snapshot_id := snapshot_id_of(name)) is not None:
            sizes[snapshot_id] = fs.size_of(join(directory, name))
    if is_changed:
        fs.fsync_dir(directory)
    return dict(sorted(sizes.items()))
