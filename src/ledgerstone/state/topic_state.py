"""The state of a topic: the folds of its partitions, and what they add up to. Pure."""

from typing import NamedTuple

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import LedgerstoneError
from ledgerstone.state.content import CHECKSUM_BITS
from ledgerstone.state.fold import Fold, FoldCounts, FoundKey, KeyStatus
from ledgerstone.state.key_table import distinct_keys


class StateError(LedgerstoneError):
    """The requested state is unavailable; the message says why, and what to do."""


class StaleSnapshot(StateError):
    """Some records written since the snapshot are gone; rebuild."""


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """One partition, whose log was read in [start_offset, end_offset)."""

    partition: int
    fold: Fold
    start_offset: int
    end_offset: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    is_resumed: bool = False  # what lies before `start_offset` came from a snapshot
    missing_before: int = 0  # offsets without a record that the snapshot knew of

    @property
    def missing(self) -> int:
        """Offsets in [start_offset, end_offset) that no longer have a record."""
        return self.fold.counts.missing - self.missing_before

    def why_incomplete(self, readable_end_offset: int) -> str | None:
        """Why this may not be everything that was live when the log ended at `end_offset`."""
        if self.end_offset >= readable_end_offset:
            # The present: compacted records have a later one, and that was read.
            return None
        if not self.is_resumed and self.log_start_offset > 0 and self.end_offset > 0:
            return f"partition {self.partition} starts at offset {self.log_start_offset}"
        if self.missing > 0:
            return (
                f"{self.missing} offsets of partition {self.partition} below {self.end_offset} "
                "no longer have a record, and some may have been the latest of their key then"
            )
        return None


class Totals(NamedTuple):
    live_keys: int  # pairs of partition and key
    deleted_keys: int
    distinct_keys: int  # live ones, wherever they are
    keys_in_several_partitions: int


@dataclass(slots=True, kw_only=True)
class TopicState:
    topic: str
    topic_id: bytes
    cluster_id: str | None
    isolation: IsolationLevel
    created_ms: int
    partitions: list[PartitionState]
    because: str | None = None  # why it may be incomplete

    @property
    def is_complete(self) -> bool:
        return self.because is None

    @property
    def counts(self) -> FoldCounts:
        total = FoldCounts()
        for each in self.partitions:
            total.add(each.fold.counts)
        return total

    @property
    def checksum(self) -> int:
        """Independent of the partitions that keys are in."""
        return sum(each.fold.checksum for each in self.partitions) % (1 << CHECKSUM_BITS)

    def totals(self) -> Totals:
        folds = [each.fold for each in self.partitions]
        distinct, in_several = distinct_keys([fold.live_hashes() for fold in folds])
        return Totals(
            live_keys=sum(fold.live_keys for fold in folds),
            deleted_keys=sum(fold.deleted_keys for fold in folds),
            distinct_keys=distinct,
            keys_in_several_partitions=in_several,
        )

    def partition(self, number: int) -> PartitionState:
        return next(each for each in self.partitions if each.partition == number)

    def lookup(self, key: bytes) -> dict[int, FoundKey]:
        """Every partition with the key: its hash belongs to one, but it may be in any."""
        found = {each.partition: each.fold.lookup(key) for each in self.partitions}
        return {
            partition: each
            for partition, each in found.items()
            if each.status is not KeyStatus.NEVER_SEEN
        }
