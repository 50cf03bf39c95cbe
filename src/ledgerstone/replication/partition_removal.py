"""Coordinated removal for one hosted partition: its marks on disk, and the words that travel.

Grade D. What is decided is in `removal`. Partitions of a broker without a cluster have none of
this; a partition with one replica, or one that is not compacted, is not coordinated.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import CorruptFile, LogStorageError
from ledgerstone.fs import join
from ledgerstone.replication.follower import Follower
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.removal import Holder, LeaderRemoval, LeaderWord, ReplicaRemoval
from ledgerstone.storage.checkpoints import read_if_exists, write_atomically
from ledgerstone.storage.filenames import REMOVAL_MARKS
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.removal_marks import decode_marks, encode_marks
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)


class CleaningKnowledge(NamedTuple):
    """What the cleaner knows, for all partitions of a broker."""

    clean_to: Callable[[TopicPartition], int]
    held_from_offset: Callable[[PartitionLog], int | None]


class FollowerReport(NamedTuple):
    clean_to: int
    removed_to: int


class RemovalStanding(NamedTuple):
    """How far removal may go here, and who is waited for."""

    removable_to: int
    holder: str
    ends_at_ms: int | None = None  # by the wall clock, if a silent replica holds
    given_up: tuple[Holder, ...] = ()


@dataclass(slots=True, kw_only=True)
class PartitionRemoval:
    log: PartitionLog
    knowledge: CleaningKnowledge
    role: Leader | Follower = field(default_factory=Follower)
    rebuilds: int = 0
    _replica: ReplicaRemoval | None = None
    _leader: LeaderRemoval | None = None
    _leader_epoch: int = -1

    @property
    def is_coordinated(self) -> bool:
        return len(self.role.replicas) > 1 and self.log.config.compacts

    @property
    def clean_to(self) -> int:
        log = self.log
        return min(self.knowledge.clean_to(log.topic_partition), log.log_end_offset)

    @property
    def removed_to(self) -> int:
        return self._own.removed_to

    # -- roles --------------------------------------------------------------------------------

    def assume(self, role: Leader | Follower) -> None:
        """Of a new log the marks are written here, while there is nothing that it could lack."""
        self.role = role
        own = self._own if self.is_coordinated else None
        if own is not None and isinstance(role, Leader):
            self._leading(role).assume(role.replicas, now_ms=self._now_ms())
            return
        self._leader = None
        if own is not None:
            own.follow(role.leader_epoch, is_empty=self._is_empty)

    def _leading(self, role: Leader) -> LeaderRemoval:
        now_ms = self._now_ms()
        if self._leader is None or self._leader_epoch != role.leader_epoch:
            self._leader = LeaderRemoval(leader_id=role.leader_id, began_ms=now_ms)
            self._leader.assume(role.replicas, now_ms=now_ms)
            self._leader_epoch = role.leader_epoch
        return self._leader

    # -- as a leader --------------------------------------------------------------------------

    def reported(self, replica_id: int, report: FollowerReport) -> None:
        if self.is_coordinated and isinstance(self.role, Leader):
            self._leading(self.role).reported(
                replica_id,
                clean_to=report.clean_to,
                removed_to=report.removed_to,
                now_ms=self._now_ms(),
            )

    def word(self) -> LeaderWord | None:
        """For a follower, after its records were read: nothing that they lack lies above."""
        role = self.role
        if not self.is_coordinated or not isinstance(role, Leader):
            return None
        return LeaderWord(
            self._removable_to(role),
            self._own.removed_to,
            self.clean_to,
            self.knowledge.held_from_offset(self.log),
        )

    def _removable_to(self, role: Leader) -> int:
        return self._leading(role).removable_to(
            self.clean_to, hold_max_ms=self._hold_max_ms, now_ms=self._now_ms()
        )

    # -- as a follower ------------------------------------------------------------------------

    def report(self) -> FollowerReport | None:
        if not self.is_coordinated or isinstance(self.role, Leader):
            return None
        own = self._own
        return FollowerReport(own.claim(self.clean_to), own.removed_to)

    def must_rebuild(self, word: LeaderWord | None) -> bool:
        if word is None or not self.is_coordinated:
            return False
        return self._own.must_rebuild(word, end_offset=self.log.log_end_offset)

    def hear(self, word: LeaderWord | None, *, has_records: bool) -> None:
        """Before what came with it is appended."""
        if not self.is_coordinated:
            return
        own = self._own
        own.heard(word, now_ms=self._now_ms())
        if has_records:
            before = own.removed_to
            self._write(before, own.before_append(word, end_offset=self.log.log_end_offset))

    def wiped(self) -> None:
        """After everything is gone. Crash before it is written: wiped once more."""
        if self._replica is not None or self.is_coordinated:
            before = self._own.removed_to
            self._write(before, self._own.wiped())

    @property
    def told_held_from_offset(self) -> int | None:
        """The first tombstone that groups have not read, as the leader tells it."""
        word = None if self._replica is None else self._replica.word
        return None if word is None else word.held_from_offset

    @property
    def has_word(self) -> bool:
        """Whether the leader tells what is held. A leader knows it by itself, whatever it was told
        when it followed."""
        is_told = self._replica is not None and self._replica.word is not None
        return is_told and not isinstance(self.role, Leader)

    # -- cleaning -----------------------------------------------------------------------------

    def standing(self) -> RemovalStanding | None:
        """None: there is nothing to wait for."""
        role = self.role
        if not self.is_coordinated:
            return None
        if isinstance(role, Leader):
            return self._standing_as_leader(role)
        limit = self._own.limit_as_follower(
            self.clean_to, hold_max_ms=self._hold_max_ms, now_ms=self._now_ms()
        )
        word = self._own.word
        if word is None:
            return RemovalStanding(limit, f"leader {role.leader_id} has not said how far")
        return RemovalStanding(
            limit, f"leader {role.leader_id} allows it below {word.removable_to}"
        )

    def _standing_as_leader(self, role: Leader) -> RemovalStanding:
        leading, own, now_ms = self._leading(role), self.clean_to, self._now_ms()
        hold_max_ms = self._hold_max_ms
        slowest = leading.slowest(own, hold_max_ms=hold_max_ms, now_ms=now_ms)
        given_up = tuple(leading.given_up(own, hold_max_ms=hold_max_ms, now_ms=now_ms))
        limit = self._removable_to(role)
        if slowest is None:
            text = f"the next pass here goes beyond offset {own}"
            return RemovalStanding(limit, text, given_up=given_up)
        ends_at_ms = self.log.clock.now_ms() + hold_max_ms - slowest.silent_ms
        return RemovalStanding(limit, str(slowest), ends_at_ms, given_up)

    def before_removal(self, removed_to: int) -> None:
        """Before files are swapped in that lack tombstones or markers below `removed_to`. A log
        that has been replicated remembers it even while it has no other replica: an old directory
        may come back."""
        if self._replica is not None or self.is_coordinated or self._exists():
            before = self._own.removed_to
            self._write(before, self._own.before_removal(removed_to))

    # -- the file -----------------------------------------------------------------------------

    @property
    def _own(self) -> ReplicaRemoval:
        if self._replica is None:
            self._replica = ReplicaRemoval(removed_to=self._load())
            if not isinstance(self.role, Leader):
                self._replica.follow(self.role.leader_epoch, is_empty=self._is_empty)
        return self._replica

    @property
    def _is_empty(self) -> bool:
        return self.log.log_start_offset == self.log.log_end_offset

    def _load(self) -> int:
        log = self.log
        try:
            data = read_if_exists(log.fs, self._path)
            if data is not None:
                return decode_marks(data, self._path)
        except (CorruptFile, OSError) as error:
            _LOG.warning("removal marks are not used path=%s reason=%s", self._path, error)
            # Anything may have been removed.
            return log.log_end_offset
        # Passes of the time when the log had one replica removed below the first dirty offset.
        removed_to = 0 if self._is_empty else self.clean_to
        try:
            self._write(None, removed_to)
        except LogStorageError as error:
            # The next start finds none, and believes at least as much.
            _LOG.warning("%s", error)
        return removed_to

    def _write(self, before: int | None, removed_to: int) -> None:
        if removed_to == before:
            return
        try:
            write_atomically(self.log.fs, self._path, encode_marks(removed_to))
        except OSError as error:
            if self._replica is not None and before is not None:
                self._replica.removed_to = before
            raise LogStorageError(
                f"{self.log.topic_partition}: removal marks were not written: {error}"
            ) from error

    def _exists(self) -> bool:
        return self.log.fs.exists(self._path)

    @property
    def _path(self) -> str:
        return join(self.log.directory, REMOVAL_MARKS)

    @property
    def _hold_max_ms(self) -> int:
        return self.log.config.ledgerstone_tombstone_replica_hold_max_ms

    def _now_ms(self) -> int:
        return self.log.clock.monotonic_ms()
