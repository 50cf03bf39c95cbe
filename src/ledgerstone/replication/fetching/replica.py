"""The replica that a fetcher feeds, as far as the fetcher needs it. Pure.

`replication.partition.Partition` is one; tests have a smaller one.
"""

from typing import NamedTuple, Protocol

from ledgerstone.replication.removal import LeaderWord
from ledgerstone.storage.leader_epochs import LeaderEpochs
from ledgerstone.types import Buffer


class FollowerAppend(NamedTuple):
    """What an answer of the leader changed."""

    has_grown: bool
    has_committed: bool  # the high watermark moved
    has_new_start: bool


class Removals(Protocol):
    """What a follower tells of its tombstones."""

    @property
    def clean_to(self) -> int: ...
    @property
    def removed_to(self) -> int: ...


class FollowingLog(Protocol):
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def epochs(self) -> LeaderEpochs: ...
    @property
    def failure(self) -> str | None:
        """Why the log takes no writes at all."""
        ...


class Replica(Protocol):
    @property
    def log(self) -> FollowingLog: ...

    @property
    def is_in_sync(self) -> bool:
        """Whether the metadata counts this broker among the in-sync replicas."""
        ...

    def append_as_follower(
        self, records: Buffer, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> FollowerAppend: ...

    def removal_report(self) -> Removals | None:
        """None: the leader need not know when tombstones may go."""
        ...

    def must_rebuild(self, word: LeaderWord | None) -> bool:
        """Whether the leader may lack a tombstone that deletes something here."""
        ...

    def hear(self, word: LeaderWord | None, *, has_records: bool) -> None:
        """Before what came with it is appended."""
        ...

    def truncate_to(self, offset: int) -> None: ...

    def restart_at(self, offset: int) -> None:
        """Drops everything; the log begins again at `offset`, empty."""
        ...

    def rebuild_at(self, offset: int) -> None:
        """The same, because the leader may lack deletes that this log needs."""
        ...
