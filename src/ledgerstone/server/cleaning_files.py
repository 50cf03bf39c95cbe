"""What cleaning writes beside the segments: the cleaner checkpoint and each partition's history.

Grade D. The checkpoint is Kafka's `cleaner-offset-checkpoint`, one for the log directory; it keeps
what it says of partitions that are not open. The history is ours and may be lost without harm.
"""

import logging
from dataclasses import dataclass, field
from typing import Final

from ledgerstone.cleaner.history import (
    HISTORY_FILE,
    MAX_BYTES,
    Run,
    decode_runs,
    encode_runs,
    last_cleaned,
)
from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.checkpoints import OffsetCheckpoint, read_if_exists, write_atomically
from ledgerstone.storage.filenames import CLEANED, CLEANER_OFFSET_CHECKPOINT, parse_file_name
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class CleaningFiles:
    checkpoint: OffsetCheckpoint
    first_dirty_offsets: dict[TopicPartition, int]
    _is_stale: bool = False  # the file still names a partition that is gone
    _runs: dict[TopicPartition, list[Run]] = field(default_factory=dict)

    @classmethod
    def open(cls, fs: Filesystem, log_dir: str) -> "CleaningFiles":
        """A broken checkpoint is read as if there were none: everything is dirty then."""
        checkpoint = OffsetCheckpoint(fs, join(log_dir, CLEANER_OFFSET_CHECKPOINT))
        try:
            offsets = checkpoint.read()
        except CorruptFile as error:
            _LOG.warning("cleaner checkpoint is not used reason=%s", error)
            offsets = {}
        return cls(checkpoint=checkpoint, first_dirty_offsets=offsets)

    def set_first_dirty_offset(self, tp: TopicPartition, offset: int) -> None:
        if self.first_dirty_offsets.get(tp) == offset:
            return
        written = {**self.first_dirty_offsets, tp: offset}
        self.checkpoint.write(written)
        self.first_dirty_offsets = written

    def forget(self, tp: TopicPartition) -> None:
        """The caller calls `write_forgotten` once it has forgotten all it wants to."""
        if self.first_dirty_offsets.pop(tp, None) is not None:
            self._is_stale = True
        self._runs.pop(tp, None)

    def write_forgotten(self) -> None:
        """Tried again until it works: a new partition of an old name must not inherit its entry."""
        if not self._is_stale:
            return
        try:
            self.checkpoint.write(self.first_dirty_offsets)
            self._is_stale = False
        except OSError as error:
            _LOG.warning("cleaner checkpoint not written reason=%s", error)

    # -- history ------------------------------------------------------------------------------

    def runs(self, log: PartitionLog) -> list[Run]:
        """The oldest first."""
        known = self._runs.get(log.topic_partition)
        if known is None:
            known = self._runs[log.topic_partition] = _read_runs(log)
        return known

    def last_cleaned(self, log: PartitionLog) -> Run | None:
        return last_cleaned(self.runs(log))

    def add_run(self, log: PartitionLog, run: Run, *, keep: int) -> None:
        """The last pass that succeeded is kept whatever follows it: it knows the horizon."""
        runs = [*self.runs(log), run]
        kept = runs[-keep:] if keep else []
        cleaned = last_cleaned(runs)
        if cleaned is not None and cleaned not in kept:
            kept = [cleaned, *kept]
        write_atomically(log.fs, join(log.directory, HISTORY_FILE), encode_runs(kept))
        self._runs[log.topic_partition] = kept


def _read_runs(log: PartitionLog) -> list[Run]:
    path = join(log.directory, HISTORY_FILE)
    try:
        if not log.fs.exists(path) or log.fs.size_of(path) > MAX_BYTES:
            return []
        return decode_runs(read_if_exists(log.fs, path) or b"")
    except (OSError, ValueError) as error:
        _LOG.warning("cleaning history is not used path=%s reason=%s", path, error)
        return []


def remove_cleaned(fs: Filesystem, directory: str) -> None:
    """What a pass left that did not come to its end."""
    if not fs.exists(directory):
        return
    for name in fs.list_dir(directory):
        parsed = parse_file_name(name)
        if parsed is not None and parsed.suffix == CLEANED:
            fs.unlink(join(directory, name))
