"""The files of one segment: a log file and three indexes with the same base name. Grade D.

Owns the paths and the one open descriptor; makes, renames, syncs and unlinks the four together.
`segment_reader` and `segment` know what the bytes mean.
"""

from ledgerstone.fs import File, Filesystem, join
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.offset_index import OffsetIndex
from ledgerstone.storage.sync_plan import FileAt, OpenFile, Syncable, sync_all
from ledgerstone.storage.time_index import TimeIndex
from ledgerstone.storage.txn_index import TxnIndex


class SegmentFiles:
    """Opens its files only when they are needed, so that an idle segment costs no descriptor."""

    __slots__ = (
        "_file",
        "_fs",
        "_suffix",
        "base_offset",
        "config",
        "directory",
        "offset_index",
        "time_index",
        "txn_index",
    )

    def __init__(
        self, fs: Filesystem, directory: str, base_offset: int, config: LogConfig, *, suffix: str
    ) -> None:
        self._fs = fs
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self._suffix = suffix
        self._file: File | None = None
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(fs, self.path(Kind.INDEX), base_offset, index_bytes)
        self.time_index = TimeIndex(fs, self.path(Kind.TIME_INDEX), base_offset, index_bytes)
        self.txn_index = TxnIndex(fs, self.path(Kind.TXN_INDEX), base_offset)

    def path(self, kind: Kind) -> str:
        return join(self.directory, file_name(self.base_offset, kind, self._suffix))

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self.path(Kind.LOG))
        return self._file

    def paths(self) -> list[str]:
        kinds = (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
        return [path for kind in kinds if self._fs.exists(path := self.path(kind))]

    def index_sizes(self) -> list[int]:
        """Sizes of the offset, time and transaction index files."""
        return [each.file_bytes() for each in (self.offset_index, self.time_index, self.txn_index)]

    def change_suffix(self, suffix: str) -> None:
        """Renames the files that exist, log first: its name is what the loader trusts."""
        old_log = self.path(Kind.LOG)
        self._suffix = suffix
        self._fs.rename(old_log, self.path(Kind.LOG))
        self.offset_index.rename(self.path(Kind.INDEX))
        self.time_index.rename(self.path(Kind.TIME_INDEX))
        self.txn_index.rename(self.path(Kind.TXN_INDEX))

    def reset_indexes(self) -> None:
        self.offset_index.truncate_all()
        self.time_index.truncate_all()
        self.txn_index.reset()

    def files_to_sync(self) -> list[Syncable]:
        """What makes this segment durable once synced, in order; entries are written first."""
        self.offset_index.flush()
        self.time_index.flush()
        return [
            OpenFile(self.file),
            FileAt(self.offset_index.path),
            FileAt(self.time_index.path),
            FileAt(self.txn_index.path),
        ]

    def flush(self) -> None:
        sync_all(self._fs, self.files_to_sync())

    def forget(self) -> None:
        """Drops the descriptor; a slice that a reader still holds keeps the file open."""
        self._file = None

    def unlink(self) -> None:
        # The log file last: an index alone means that a log file is missing.
        for path in reversed(self.paths()):
            self._fs.unlink(path)
        self.forget()
