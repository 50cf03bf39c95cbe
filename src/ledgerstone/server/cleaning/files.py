"""What cleaning writes beside the segments: the cleaner checkpoint and each partition's history.

Grade D. The checkpoint is Kafka's `cleaner-offset-checkpoint`, one in each log directory; it keeps
what it says of partitions that are not open. The history is ours and may be lost without harm.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.cleaner.history import (
    MAX_BYTES,
    Run,
    decode_history,
    encode_runs,
    last_cleaned,
)
from ledgerstone.cleaner.tombstone_ledger import TombstoneLedger
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.checkpoints import OffsetCheckpoint, read_if_exists, write_atomically
from ledgerstone.storage.filenames import (
    CLEANED,
    CLEANER_OFFSET_CHECKPOINT,
    CLEANING_HISTORY,
    parse_file_name,
)
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import INT64_MAX, TopicPartition

_LOG: Final = logging.getLogger(__name__)


# Writing means four fsyncs, and clients wait meanwhile. A pass may take less time than they do.
WRITE_INTERVAL_MS: Final = 5_000


@dataclass(slots=True, kw_only=True)
class CleaningFiles:
    """Memory is ahead of the files by what passes have added since the last write.

    A crash then costs another pass over what was cleaned already. The order of a write matters: a
    checkpoint says that what lies below needs no pass of its own, so that the horizons below it
    must be known first."""

    # By the path of the log directory.
    checkpoints: dict[str, OffsetCheckpoint]
    first_dirty_offsets: dict[TopicPartition, int]
    # The log directory of a partition, as a path; None if it is not open in any.
    directory_of: Callable[[TopicPartition], str | None] = lambda _: None
    # Why the last write failed; it is tried again.
    failure: str | None = None
    write_due_ms: int = INT64_MAX  # monotonic
    _next_write_ms: int = 0
    _on_disk: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    _stale_histories: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    _runs: dict[TopicPartition, list[Run]] = field(default_factory=dict)
    _ledgers: dict[TopicPartition, TombstoneLedger] = field(default_factory=dict)

    @classmethod
    def open(cls, fs: Filesystem, *log_dirs: str) -> "CleaningFiles":
        """A broken checkpoint is read as if there were none: everything is dirty then."""
        checkpoints = {
            path: OffsetCheckpoint(fs, join(path, CLEANER_OFFSET_CHECKPOINT)) for path in log_dirs
        }
        on_disk = {path: _read_checkpoint(each) for path, each in checkpoints.items()}
        first_dirty: dict[TopicPartition, int] = {}
        for offsets in on_disk.values():
            for tp, offset in offsets.items():
                # In two directories after a crash: the lower one is true of both.
                first_dirty[tp] = min(offset, first_dirty.get(tp, offset))
        return cls(checkpoints=checkpoints, first_dirty_offsets=first_dirty, _on_disk=on_disk)

    def set_first_dirty_offset(self, tp: TopicPartition, offset: int) -> None:
        """Durable when this returns."""
        self.first_dirty_offsets[tp] = offset
        self._write()

    def cleaned_up_to(self, tp: TopicPartition, offset: int) -> None:
        """A pass has come so far; written down with the next write."""
        self.first_dirty_offsets[tp] = offset

    def forget(self, tp: TopicPartition) -> None:
        """The caller calls `write_now` once it has forgotten all it wants to."""
        self.first_dirty_offsets.pop(tp, None)
        self._runs.pop(tp, None)
        self._ledgers.pop(tp, None)
        self._stale_histories.pop(tp, None)

    # -- writing ------------------------------------------------------------------------------

    def write_soon(self, now_ms: int) -> None:
        """At once where the last write was long ago."""
        self.write_due_ms = min(self.write_due_ms, max(now_ms, self._next_write_ms))
        self.write_if_due(now_ms)

    def write_if_due(self, now_ms: int) -> None:
        if now_ms < self.write_due_ms:
            return
        self._next_write_ms = now_ms + WRITE_INTERVAL_MS
        self.write_due_ms = INT64_MAX if self.write_now() else self._next_write_ms

    def write_now(self) -> bool:
        """False if the disk refused; a new partition of an old name must not inherit its entry, and
        so it is tried again until it works."""
        try:
            self._write()
        except OSError as error:
            if self.failure is None:
                _LOG.warning("cleaning not written down reason=%s", error)
            self.failure = str(error)
            return False
        self.failure = None
        return True

    def _write(self) -> None:
        """A partition whose history is refused keeps its old entry; the others are not kept
        waiting."""
        offsets = dict(self.first_dirty_offsets)
        on_disk = {tp: each for known in self._on_disk.values() for tp, each in known.items()}
        failure: OSError | None = None
        for tp, log in list(self._stale_histories.items()):
            path = join(log.directory, CLEANING_HISTORY)
            try:
                write_atomically(log.fs, path, encode_runs(self.runs(log), self.ledger(log)))
                del self._stale_histories[tp]
            except OSError as error:
                failure = error
                if tp in on_disk and tp in offsets:
                    offsets[tp] = min(offsets[tp], on_disk[tp])
                else:
                    offsets.pop(tp, None)
        for path, mine in self._divided(offsets).items():
            if mine != self._on_disk[path]:
                try:
                    self.checkpoints[path].write(mine)
                    self._on_disk[path] = mine
                except OSError as error:
                    failure = error
        if failure is not None:
            raise failure

    def _divided(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[str, dict[TopicPartition, int]]:
        """By log directory. A partition that is not open stays where its entry was."""
        divided: dict[str, dict[TopicPartition, int]] = {path: {} for path in self.checkpoints}
        if len(divided) == 1:
            return {path: dict(offsets) for path in divided}
        for tp, offset in offsets.items():
            path = self.directory_of(tp)
            if path in divided:
                divided[path][tp] = offset
                continue
            for known, entries in self._on_disk.items():
                if tp in entries:
                    divided[known][tp] = offset
        return divided

    def directory_failed(self, path: str) -> None:
        """Nothing is written there any more, and nothing is known of its partitions."""
        self.checkpoints.pop(path, None)
        for tp in self._on_disk.pop(path, {}):
            if not any(tp in entries for entries in self._on_disk.values()):
                self.first_dirty_offsets.pop(tp, None)

    # -- history ------------------------------------------------------------------------------

    def runs(self, log: PartitionLog) -> list[Run]:
        """The oldest first."""
        known = self._runs.get(log.topic_partition)
        if known is None:
            known = self._read(log)[0]
        return known

    def ledger(self, log: PartitionLog) -> TombstoneLedger:
        known = self._ledgers.get(log.topic_partition)
        if known is None:
            known = self._read(log)[1]
        return known

    def set_ledger(self, log: PartitionLog, ledger: TombstoneLedger) -> None:
        """Written down with the next write."""
        self.runs(log)
        self._ledgers[log.topic_partition] = ledger
        self._stale_histories[log.topic_partition] = log

    def note_removed(self, log: PartitionLog, removed_to: int, now_ms: int) -> None:
        """Written down at once, before files are swapped in that lack tombstones below: after a
        kill nothing else tells that they were ever there. OSError where the disk refuses."""
        ledger = self.ledger(log)
        if removed_to <= (ledger.removed_below_offset or 0):
            return
        after = replace(ledger, removed_below_offset=removed_to, removed_at_ms=now_ms)
        path = join(log.directory, CLEANING_HISTORY)
        write_atomically(log.fs, path, encode_runs(self.runs(log), after))
        self._ledgers[log.topic_partition] = after
        self._stale_histories.pop(log.topic_partition, None)

    def _read(self, log: PartitionLog) -> tuple[list[Run], TombstoneLedger]:
        runs, ledger = _read_history(log)
        # Still announced: the process died before the pass told what became of it.
        ledger = ledger.believed()
        tp = log.topic_partition
        self._runs[tp], self._ledgers[tp] = runs, ledger
        return runs, ledger

    def last_cleaned(self, log: PartitionLog) -> Run | None:
        return last_cleaned(self.runs(log))

    def add_run(self, log: PartitionLog, run: Run, *, keep: int) -> None:
        """The last pass that succeeded is kept whatever follows it: it knows the horizon."""
        runs = [*self.runs(log), run]
        kept = runs[-keep:] if keep else []
        cleaned = last_cleaned(runs)
        if cleaned is not None and cleaned not in kept:
            kept = [cleaned, *kept]
        self._runs[log.topic_partition] = kept
        self._stale_histories[log.topic_partition] = log


def _read_checkpoint(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    try:
        return checkpoint.read()
    except CorruptFile as error:
        _LOG.warning("cleaner checkpoint is not used reason=%s", error)
        return {}


def _read_history(log: PartitionLog) -> tuple[list[Run], TombstoneLedger]:
    path = join(log.directory, CLEANING_HISTORY)
    try:
        if not log.fs.exists(path) or log.fs.size_of(path) > MAX_BYTES:
            return [], TombstoneLedger()
        return decode_history(read_if_exists(log.fs, path) or b"")
    except (OSError, ValueError) as error:
        _LOG.warning("cleaning history is not used path=%s reason=%s", path, error)
        return [], TombstoneLedger()


def remove_cleaned(fs: Filesystem, directory: str) -> None:
    """What a pass left that did not come to its end."""
    if not fs.exists(directory):
        return
    for name in fs.list_dir(directory):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.suffix == CLEANED:
            fs.unlink(join(directory, name))
