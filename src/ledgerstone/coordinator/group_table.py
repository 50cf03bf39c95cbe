"""The groups and committed offsets of one shard, changed by replayed records. Pure.

A group is here as soon as it has a member, an id handed out, or an offset, and goes with its
tombstone. Rules are in README.md.
"""

from collections.abc import Container

from ledgerstone.coordinator.classic_group import ClassicGroup
from ledgerstone.coordinator.expiry import expired_offsets
from ledgerstone.coordinator.group_records import GroupEntry, OffsetEntry, offset_tombstone
from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.offsets import OffsetStore
from ledgerstone.coordinator.pending_offsets import PendingOffsets
from ledgerstone.coordinator.timers import Timers
from ledgerstone.coordinator.turn import GroupConfig, Turn
from ledgerstone.errors import GroupIdNotFound, InvalidGroupId, NonEmptyGroup, UnknownMemberId
from ledgerstone.types import NO_PRODUCER_ID, TopicPartition


class GroupTable:
    def __init__(self, config: GroupConfig, memory: GroupMemory) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.memory = memory
        self.offsets = OffsetStore(memory)
        self.pending = PendingOffsets(memory)
        self.timers = Timers()
        self.is_loaded = False
        self._config = config

    # -- finding ------------------------------------------------------------------------------

    def existing(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"{group_id!r} is not known")
        return group

    def with_members(self, group_id: str) -> ClassicGroup:
        check_group_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMemberId(f"{group_id!r} has no members")
        return group

    def for_join(self, group_id: str, member_id: str) -> ClassicGroup:
        """Perhaps a group that is not in the table yet: a refused join must leave none behind."""
        if member_id or group_id in self.groups:
            return self.with_members(group_id)
        return self._new(group_id)

    # -- replaying ----------------------------------------------------------------------------

    def replay_offset(self, entry: OffsetEntry, producer_id: int = NO_PRODUCER_ID) -> None:
        """`producer_id` is that of a transaction, which has to end before the offset counts."""
        group_id, topic_partition, committed = entry
        if committed is None:
            self.offsets.remove(group_id, topic_partition)
            self.pending.forget(group_id, topic_partition)
            return
        self._ensure(group_id)
        if producer_id != NO_PRODUCER_ID:
            self.pending.put(producer_id, group_id, topic_partition, committed)
            return
        if group_id in self.pending:
            self.pending.superseded(group_id, topic_partition)
        self.offsets.put(group_id, topic_partition, committed)

    def replay_marker(self, producer_id: int, *, commit: bool) -> list[TopicPartition]:
        """The partitions whose offsets it committed."""
        won = self.pending.end(producer_id, commit=commit)
        for group_id, topic_partition, committed in won:
            self.offsets.put(group_id, topic_partition, committed)
            self._ensure(group_id)
        return [topic_partition for _, topic_partition, _ in won]

    def replay_group(self, entry: GroupEntry) -> None:
        if entry.value is None:
            self._remove(entry.group_id)
        elif not self.is_loaded:
            self._ensure(entry.group_id).restore(entry.value)
        # Once loaded, memory is ahead of the log: the record is the echo of a generation that is
        # already here, and members may have joined or left since.

    def _ensure(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._new(group_id)
        return group

    def _new(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self._config, self.timers, self.memory)

    def _remove(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is None or (self.is_loaded and group.state is not GroupPhase.DEAD):
            return
        del self.groups[group_id]
        group.roster.release()
        if group_id in self.offsets or group_id in self.pending:
            # A commit came between the decision and the tombstone; offsets need a group.
            self._ensure(group_id)

    def release(self) -> None:
        """The table is of no use any more: nothing of it is counted."""
        for group in self.groups.values():
            group.roster.release()
        self.offsets.release()
        self.pending.release()

    # -- deleting -----------------------------------------------------------------------------

    def delete(self, group_id: str, turn: Turn) -> None:
        group = self.existing(group_id)
        if group.state is GroupPhase.DEAD:
            raise GroupIdNotFound(f"{group_id!r} is being deleted already")
        if group.state is not GroupPhase.EMPTY:
            raise NonEmptyGroup(f"{group_id!r} has {len(group.roster)} members")
        doomed = dict.fromkeys(each for each, _ in self.offsets.offsets_of(group_id))
        for topic_partition in doomed | dict.fromkeys(self.pending.partitions_of(group_id)):
            turn.write(offset_tombstone(group_id, topic_partition))
        group.bury(turn)

    def expire_offsets(self, turn: Turn, spared: Container[str] = ()) -> None:
        """Deletes what has outlived its retention, and groups that have nothing left. Groups to be
        spared are looked at the next time."""
        retention_ms = self._config.offsets_retention_ms
        for group in self.groups.values():
            if group.group_id in spared:
                continue
            expired = expired_offsets(
                group, self.offsets, now_ms=turn.now.wall_ms, retention_ms=retention_ms
            )
            if group.group_id in self.pending:
                # A transaction decides about these, not the clock.
                expired = [
                    each for each in expired if not self.pending.is_open(group.group_id, each)
                ]
            for topic_partition in expired:
                turn.write(offset_tombstone(group.group_id, topic_partition))
            is_unused = group.state is GroupPhase.EMPTY and not group.roster.pending_ids
            is_unused = is_unused and group.group_id not in self.pending
            if is_unused and len(expired) == self.offsets.count_of(group.group_id):
                group.bury(turn)


def check_group_id(group_id: str) -> None:
    # The empty id stays usable for offsets, because old clients without a group use it.
    if not group_id:
        raise InvalidGroupId("the group id is empty")
