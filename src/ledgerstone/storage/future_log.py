"""A copy of a log that is being made in another log directory, for a move between them. Grade D.

Files are copied, not records: sealed segments with their indexes and snapshots never change, so the
copy is equal byte for byte. They are copied in steps, while the log takes appends. The last
segment, and small files that change, follow at the end, within one turn.

The copy lies in `<topic>-<partition>.<32 hex>-future`, as in Kafka. Its name is also the memory of
the wish: a start that finds one throws away what is in it and copies again.
"""

from contextlib import closing
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import StorageError
from ledgerstone.fs import Filesystem, join, name_of
from ledgerstone.storage.filenames import (
    TMP,
    Kind,
    future_dir_name,
    parse_file_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.sync_plan import DirectoryAt, FileAt, Syncable, sync_all
from ledgerstone.uuid_text import random_uuid

# Of the last segment: what may be left to copy when the log is switched over, within one turn.
LAST_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class _File:
    """One file to copy, up to a size."""

    source: str
    target: str
    size: int
    position: int = 0


@dataclass(slots=True, kw_only=True)
class FutureLog:
    """Made by `begin_future`. `step` until it is level, sync what `take_syncs` names, `finish`."""

    log: PartitionLog
    target: LogDir
    path: str
    # Where the copy ends; within a segment, by the share of its bytes that is copied.
    end_offset: int
    size_bytes: int = 0
    _truncations: int = 0
    _left: list[_File] = field(default_factory=list)
    _copied: dict[int, int] = field(default_factory=dict)
    _unsynced: list[str] = field(default_factory=list)

    @property
    def is_stale(self) -> bool:
        """Whether the log was cut, or its segments were replaced, since the copy began."""
        if self.log.truncations != self._truncations:
            return True
        segments = self.log.segments
        known = ((base, segments.at_base(base)) for base in self._copied)
        return any(found is None or found.size != self._copied[base] for base, found in known)

    def plan(self) -> bool:
        """Looks for sealed segments that are not copied; False if the copy is level but for a short
        last segment. A long one is sealed first."""
        log = self.log
        if log.segments.active.size > LAST_BYTES:
            log.roll()
        for segment in log.segments:
            if segment is not log.segments.active and segment.base_offset not in self._copied:
                self._left += self._files_of(segment)
                self._copied[segment.base_offset] = segment.size
        return bool(self._left)

    def step(self, limit_bytes: int) -> int:
        """Copies up to so many bytes of what is planned; returns how many."""
        done = 0
        while self._left and done < limit_bytes:
            file = self._left[0]
            count = min(file.size - file.position, limit_bytes - done)
            self._copy(file, count)
            self._measure(file)
            done += count
            if file.position == file.size:
                self._unsynced.append(file.target)
                self._left.pop(0)
        return done

    def _measure(self, file: _File) -> None:
        parsed = parse_file_name(name_of(file.source))
        if parsed is None or parsed.kind is not Kind.LOG:
            return
        following = self.log.segments.after(parsed.offset)
        end_offset = self.log.log_end_offset if following is None else following.base_offset
        span = end_offset - parsed.offset
        self.end_offset = parsed.offset + span * file.position // max(file.size, 1)

    @property
    def is_copying(self) -> bool:
        return bool(self._left)

    def take_syncs(self) -> tuple[Syncable, ...]:
        """What makes the steps so far durable."""
        files, self._unsynced = self._unsynced, []
        return (*map(FileAt, files), DirectoryAt(self.path))

    def _files_of(self, segment: Segment) -> list[_File]:
        # Entries of indexes are written behind.
        segment.files_to_sync()
        files = []
        for path in segment.paths():
            is_log = path == segment.path(Kind.LOG)
            size = segment.size if is_log else self.log.fs.size_of(path)
            files.append(self._file(path, size))
        snapshot = self.log.snapshots.path(segment.base_offset)
        if self.log.fs.exists(snapshot):
            files.append(self._file(snapshot, self.log.fs.size_of(snapshot)))
        return files

    def _file(self, source: str, size: int) -> _File:
        return _File(source, join(self.path, name_of(source)), size)

    def _copy(self, file: _File, count: int) -> None:
        fs = self.log.fs
        with closing(fs.open_read_only(file.source)) as source:
            data = source.pread(count, file.position)
        if len(data) != count:
            raise StorageError(f"{file.source} ends before {file.position + count}")
        with closing(fs.open(file.target, create=True)) as target:
            if file.position == 0:
                target.truncate(0)
            if data:
                target.pwrite(data, file.position)
        file.position += count
        if file.source.endswith(Kind.LOG.value):
            self.size_bytes += count
        if file.position == file.size:
            # Retention goes by it where records have no timestamps.
            fs.set_mtime_ms(file.target, fs.mtime_ms(file.source))

    # -- the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        """Copies what is left, syncs it, and proves that the copy opens as the same log. Nothing
        may be appended between this and the switch."""
        fs, log = self.log.fs, self.log
        active = log.segments.active
        self._left += self._files_of(active)
        self._copied[active.base_offset] = active.size
        for name in fs.list_dir(log.directory):
            # What is not named after an offset is small, and goes where the log goes.
            if parse_file_name(name) is None and not name.endswith(TMP):
                source = join(log.directory, name)
                self._left.append(self._file(source, fs.size_of(source)))
        while self._left:
            self.step(LAST_BYTES)
        sync_all(fs, self.take_syncs())
        opened = self.open(self.path)
        for segment in opened.segments:
            segment.forget()

    def open(self, path: str) -> PartitionLog:
        """The copy as a log. StorageError if it is not the same."""
        log, active = self.log, self.log.segments.active
        opened, _ = open_log(
            OpenLog(
                fs=log.fs,
                clock=log.clock,
                dice=log.dice,
                directory=path,
                topic_partition=log.topic_partition,
                config=log.config,
                recovery_point=active.base_offset,
                log_start_offset=log.log_start_offset,
                high_watermark=log.high_watermark,
                codecs=self.target.codecs,
                producer_id_expiration_ms=self.target.producer_id_expiration_ms,
                may_have_lost_power=False,
            )
        )
        mine = [(each.base_offset, each.size) for each in log.segments]
        its = [(each.base_offset, each.size) for each in opened.segments]
        if mine != its or opened.log_end_offset != log.log_end_offset:
            raise StorageError(
                f"{path} is not a copy of {log.directory}: it has segments {its} and ends at "
                f"{opened.log_end_offset}, not {mine} and {log.log_end_offset}"
            )
        return opened


def begin_future(log: PartitionLog, target: LogDir, name: str | None = None) -> FutureLog:
    """An empty copy, durable by its name. `name` is one that a start has found."""
    fs = target.fs
    if name is None:
        name = future_dir_name(log.topic_partition, random_uuid(target.dice).hex())
    path = join(target.path, name)
    fs.make_dir(path)
    empty(fs, path)
    fs.fsync_dir(target.path)
    target.futures[log.topic_partition] = name
    target.remembered.forget(log.topic_partition)
    return FutureLog(
        log=log,
        target=target,
        path=path,
        end_offset=log.log_start_offset,
        _truncations=log.truncations,
    )


def empty(fs: Filesystem, path: str) -> None:
    for name in fs.list_dir(path):
        fs.unlink(join(path, name))


def drop_future(future: FutureLog) -> None:
    """The move was called off: the copy goes as a deleted partition does."""
    future.target.doom_future(future.log.topic_partition)
