"""Batches and logs for tests, on a simulated disk and a virtual clock unless told otherwise."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ledgerstone.fs import Filesystem
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import Record, iter_records
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.deleted_files import unlink_all
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.types import TopicPartition

TP = TopicPartition("topic", 0)
T0 = 1_700_000_000_000


def batch(
    *pairs: tuple[str | None, str | None], timestamp: int | None = T0, **kwargs: Any
) -> bytearray:
    """A batch of (key, value) pairs, all with one timestamp; a value of None is a tombstone."""
    return build_batch(
        [(timestamp, _encoded(key), _encoded(value), ()) for key, value in pairs],
        **kwargs,
    )


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@dataclass(slots=True)
class World:
    """A disk and a clock that outlive the logs opened on them."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(start_ms=T0))
    dice: SeededDice = field(default_factory=lambda: SeededDice(0))
    fs: Filesystem | None = None
    directory: str = "/data/topic-0"

    def __post_init__(self) -> None:
        if self.fs is None:
            self.fs = SimFilesystem(dice=self.dice, clock=self.clock)

    def open(self, config: LogConfig | None = None, **request: Any) -> PartitionLog:
        assert self.fs is not None
        opening = OpenLog(
            fs=self.fs,
            clock=self.clock,
            dice=self.dice,
            directory=self.directory,
            topic_partition=TP,
            config=config or LogConfig(),
        )
        log, _ = open_log(replace(opening, **request))
        return log


def all_records(log: PartitionLog) -> list[Record]:
    """Every data record in the segment files, control batches left out."""
    found: list[Record] = []
    for segment in log.segments:
        content = segment.file.pread(segment.size, 0)
        for position, header in iter_headers(content):
            if not header.is_control:
                found.extend(iter_records(content, position))
    return found


def offsets(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]


def unlink_due(log_dir: LogDir) -> int:
    """What the runtime does in a thread, at once; returns how many files and directories went."""
    plan = log_dir.plan_unlink()
    if plan is None:
        return 0
    gone, failure = unlink_all(log_dir.fs, plan)
    log_dir.unlink_done(gone)
    if failure is not None:
        raise failure
    return len(gone)
