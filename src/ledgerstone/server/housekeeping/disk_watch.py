"""What the disk refuses, told once a minute and shown until it takes writes again. Grade D.

A full disk refuses every batch, and may do so for hours: a line each would fill what room is left.
"""

import logging
from contextlib import suppress
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError
from ledgerstone.fs import Filesystem, join
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
LINE_INTERVAL_MS: Final = 60_000
CHECK_MS: Final = 10_000
_PROBE: Final = "room.tmp"
_PROBE_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class Refusal:
    reason: str
    count: int = 0


@dataclass(slots=True)
class DiskWatch:
    """By what was refused: a partition's name, or a job's."""

    refusals: dict[str, Refusal] = field(default_factory=dict)
    _told: int = 0
    _next_line_ms: int = 0

    def refused(self, what: str, error: BaseException, now_ms: int) -> None:
        """`now_ms` is monotonic."""
        refusal = self.refusals.setdefault(what, Refusal(str(error)))
        refusal.reason = str(error)
        refusal.count += 1
        if now_ms >= self._next_line_ms:
            self._next_line_ms = now_ms + LINE_INTERVAL_MS
            count = sum(each.count for each in self.refusals.values())
            _LOG.error(
                "disk refuses writes what=%s refused=%d places=%d reason=%s",
                what,
                count,
                len(self.refusals),
                error,
            )

    def log_failed(
        self, topic_partition: TopicPartition | None, error: Exception, now_ms: int
    ) -> None:
        """A log refused a write, or a read. Reported once a minute where the disk is to blame."""
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            self.refused(str(topic_partition), error, now_ms)
        elif not isinstance(error, KafkaError):
            _LOG.error("log failed partition=%s reason=%s", topic_partition, error)

    def accepted(self, what: str) -> None:
        self.refusals.pop(what, None)

    def complaints(self) -> list[str]:
        return [
            f"{what}: the disk refused {refusal.count} writes: {refusal.reason}"
            for what, refusal in self.refusals.items()
        ]

    def look(self, fs: Filesystem, *directories: str) -> None:
        """Writes a small file to see whether there is room again: clients may have given up."""
        if not self.refusals:
            return
        try:
            for directory in directories:
                probe(fs, directory)
        except OSError:
            return
        _LOG.warning("disk takes writes again path=%s", ",".join(directories))
        self.refusals.clear()
        self._next_line_ms = 0


def probe(fs: Filesystem, directory: str) -> None:
    """OSError where the disk takes no writes."""
    path = join(directory, _PROBE)
    try:
        file = fs.open(path, create=True)
        try:
            file.pwrite(bytes(_PROBE_BYTES), 0)
            file.fsync()
        finally:
            file.close()
    finally:
        with suppress(OSError):
            if fs.exists(path):
                fs.unlink(path)
