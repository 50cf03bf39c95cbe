"""What a classic group is at one moment: state, generation, protocol, members. Pure.

No time and no answers here: `classic_group` moves it along the table below, records restore it.
"""

import enum
from typing import Final

from ledgerstone.coordinator.group_records import subscribed_topics
from ledgerstone.coordinator.members import Roster, member_record, restored_member
from ledgerstone.coordinator.memory import GROUP_BYTES, GroupMemory, text_bytes
from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.messages.group_records import GroupMetadataValue
from ledgerstone.types import NO_TIMESTAMP

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class GroupPhase(enum.Enum):
    """The value is the name that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[dict[GroupPhase, tuple[GroupPhase, ...]]] = {
    # The first member joined; or the group is being deleted.
    GroupPhase.EMPTY: (GroupPhase.PREPARING_REBALANCE, GroupPhase.DEAD),
    # Everybody joined, or time was up; or nobody is left.
    GroupPhase.PREPARING_REBALANCE: (GroupPhase.COMPLETING_REBALANCE, GroupPhase.EMPTY),
    # The leader brought the assignment; or the membership changed before it could.
    GroupPhase.COMPLETING_REBALANCE: (GroupPhase.STABLE, GroupPhase.PREPARING_REBALANCE),
    # The membership, or what a member says about itself, changed.
    GroupPhase.STABLE: (GroupPhase.PREPARING_REBALANCE,),
    # The tombstones of a deletion could not be written.
    GroupPhase.DEAD: (GroupPhase.EMPTY,),
}


class GroupState:
    """One group's facts. Groups of another type (KIP-848) will have a class beside this one."""

    group_type: Final = "classic"

    def __init__(self, group_id: str, memory: GroupMemory) -> None:
        self.group_id = group_id
        self.state = GroupPhase.EMPTY
        # Wall time; the retention of an empty group's offsets starts here.
        self.state_since_ms = NO_TIMESTAMP
        self.generation_id = 0
        # None for a group that only ever kept offsets.
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.roster = Roster(memory)
        # Whether the group itself is counted with its members: from its first one on. A group that
        # only keeps offsets is counted with these.
        self.is_counted = False

    @property
    def base_bytes(self) -> int:
        return GROUP_BYTES + text_bytes(self.group_id)

    @property
    def uncounted_bytes(self) -> int:
        """What the first member brings in beside itself."""
        return 0 if self.is_counted else self.base_bytes

    def count(self) -> None:
        if not self.is_counted:
            self.is_counted = True
            self.roster.count_base(self.base_bytes)

    def move_to(self, state: GroupPhase) -> None:
        if state not in TRANSITIONS[self.state]:
            raise InvariantViolation(f"{self.group_id!r}: {self.state} -> {state}")
        self.state = state

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def subscribed_topics(self) -> dict[str, None] | None:
        """Topics the members consume; None if that cannot be known."""
        if not self.uses_consumer_protocol:
            return None
        topics: dict[str, None] = {}
        for member in self.roster:
            subscription = subscribed_topics(member.metadata(self.protocol_name) or b"")
            if subscription is None:
                return None
            topics.update(dict.fromkeys(subscription))
        return topics

    def metadata_value(self) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.roster.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=[member_record(member, self.protocol_name) for member in self.roster],
        )

    def restore(self, value: GroupMetadataValue) -> None:
        self.state = GroupPhase.STABLE if value.members else GroupPhase.EMPTY
        self.state_since_ms = value.current_state_timestamp
        self.generation_id = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = (value.protocol or "") if value.members else None
        self.roster.release()
        self.roster, self.is_counted = Roster(self.roster.memory), False
        self.count()
        for record in value.members:
            self.roster.add(restored_member(record, value.protocol))
        if value.leader in self.roster.members:
            self.roster.leader_id = value.leader
