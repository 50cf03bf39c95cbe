"""The members of one classic group: who they are, who may speak for whom, what they vote for. Pure.

The roster knows neither states nor time; `classic_group` decides when something happens to it.
Rules are in README.md.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.coordinator.memory import (
    MEMBER_BYTES,
    NO_CONNECTION,
    PENDING_BYTES,
    PROTOCOL_BYTES,
    GroupMemory,
    text_bytes,
)
from ledgerstone.coordinator.turn import RequestContext, Token
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import FencedInstanceId, InvariantViolation, UnknownMemberId
from ledgerstone.protocol.messages.group_records import GroupMetadataMember
from ledgerstone.protocol.messages.join_group import JoinGroupRequest
from ledgerstone.uuid_text import random_uuid

# A client id may be as long as a string may be, and the member id made from it must still be one.
_LONGEST_PREFIX: Final = 1024


class GroupProtocol(NamedTuple):
    """One way of sharing out the work that a member can follow, with what it says about itself."""

    name: str
    metadata: bytes


class ParkedRequest(NamedTuple):
    token: Token
    api_version: int


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    # Until its first generation a member cannot heartbeat, so its silence has another limit.
    is_new: bool = True
    parked_join: ParkedRequest | None = None
    parked_sync: ParkedRequest | None = None
    # Through which connection it joined last.
    connection: int = NO_CONNECTION
    # What it is counted with, see `Roster`; its assignment aside, which somebody else sent.
    counted_bytes: int = 0

    @property
    def own_bytes(self) -> int:
        """What is kept of what it said."""
        texts = (self.member_id, self.group_instance_id, self.client_id, self.client_host)
        said = sum(
            PROTOCOL_BYTES + text_bytes(each.name) + len(each.metadata) for each in self.protocols
        )
        return MEMBER_BYTES + sum(map(text_bytes, texts)) + said

    @property
    def is_parked(self) -> bool:
        return self.parked_join is not None or self.parked_sync is not None

    def metadata(self, protocol_name: str | None) -> bytes | None:
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return None

    def adopt(self, fresh: "Member") -> None:
        """Takes over what a new JoinGroup says; who the member is and what it owns stays."""
        self.client_id = fresh.client_id
        self.client_host = fresh.client_host
        self.session_timeout_ms = fresh.session_timeout_ms
        self.rebalance_timeout_ms = fresh.rebalance_timeout_ms
        self.protocols = fresh.protocols
        self.connection = fresh.connection


def joining_member(request: JoinGroupRequest, context: RequestContext, member_id: str) -> Member:
    # Version 0 has one timeout for both.
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = request.session_timeout_ms
    return Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocols=tuple(GroupProtocol(each.name, each.metadata) for each in request.protocols),
        connection=context.connection,
    )


def member_record(member: Member, protocol_name: str | None) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name) or b"",
        assignment=member.assignment,
    )


def restored_member(record: GroupMetadataMember, protocol_name: str | None) -> Member:
    # Only the chosen protocol is in the log; the others come back when the member joins again.
    rebalance_timeout_ms = record.rebalance_timeout
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = record.session_timeout
    return Member(
        member_id=record.member_id,
        group_instance_id=record.group_instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        session_timeout_ms=record.session_timeout,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocols=(GroupProtocol(protocol_name or "", record.subscription),),
        assignment=record.assignment,
        is_new=False,
    )


def new_member_id(prefix: str, dice: Dice) -> str:
    """`<client or instance id>-<uuid>`, as Kafka's tools expect to see it."""
    digits = random_uuid(dice).hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return f"{prefix[:_LONGEST_PREFIX]}-{'-'.join(parts)}"


def pending_bytes(member_id: str) -> int:
    return PENDING_BYTES + text_bytes(member_id)


@dataclass(slots=True)
class Roster:
    """Members in the order in which they joined, which is the order in which they may lead.

    Invariants: the leader is a member, and there is one unless there are no members. `held_bytes`
    is what it has counted in the memory that all groups share.
    """

    memory: GroupMemory
    held_bytes: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    leader_id: str | None = None
    #: group instance id -> member id, for static members
    static_ids: dict[str, str] = field(default_factory=dict)
    #: member ids handed out with MEMBER_ID_REQUIRED and not used yet, with who was given them
    pending_ids: dict[str, int] = field(default_factory=dict)
    #: members of this generation that have not sent SyncGroup yet
    unsynced_ids: dict[str, None] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.member_id in self.pending_ids:
            self.forget_pending(member.member_id)
        self._count(len(member.assignment))
        self._count_own(member)

    def remove(self, member: Member) -> None:
        del self.members[member.member_id]
        self._count(-len(member.assignment))
        self._discount_own(member)
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        self.unsynced_ids.pop(member.member_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back: same place in the group, new id."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.unsynced_ids:
            del self.unsynced_ids[old_id]
            self.unsynced_ids[member_id] = None
        self._discount_own(member)
        self._count_own(member)

    def adopt(self, member: Member, fresh: Member) -> None:
        """A member has joined again, and may have something new to say."""
        self._discount_own(member)
        member.adopt(fresh)
        self._count_own(member)

    def assign(self, member: Member, assignment: bytes) -> None:
        self._count(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def hand_out(self, member_id: str, connection: int) -> None:
        self.pending_ids[member_id] = connection
        self._count(pending_bytes(member_id), connection)

    def forget_pending(self, member_id: str) -> None:
        self._count(-pending_bytes(member_id), self.pending_ids.pop(member_id))

    def release(self) -> None:
        """The roster is of no use any more: nothing of it is counted."""
        for member in self:
            self._discount_own(member)
        for member_id, connection in self.pending_ids.items():
            self._count(-pending_bytes(member_id), connection)
        self._count(-self.held_bytes)

    def count_base(self, size: int) -> None:
        """What the group costs by being there."""
        self._count(size)

    def _count_own(self, member: Member) -> None:
        member.counted_bytes = member.own_bytes
        self._count(member.counted_bytes, member.connection)

    def _discount_own(self, member: Member) -> None:
        self._count(-member.counted_bytes, member.connection)

    def _count(self, change: int, connection: int = NO_CONNECTION) -> None:
        self.held_bytes += change
        self.memory.count_members(change, connection)

    def known(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member that may use this id; otherwise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            current_id = self.static_ids.get(group_instance_id)
            if current_id is None:
                raise UnknownMemberId(f"instance {group_instance_id!r} is not in the group")
            if current_id != member_id:
                raise FencedInstanceId(
                    f"instance {group_instance_id!r} is now {current_id!r}, not {member_id!r}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id!r} is not in the group")
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    @property
    def joined_count(self) -> int:
        return sum(member.parked_join is not None for member in self)

    @property
    def all_joined(self) -> bool:
        return not self.pending_ids and all(member.parked_join is not None for member in self)

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader waits for this generation; False if nobody does."""
        if self.leader_id is None or self.members[self.leader_id].parked_join is None:
            joined = (member.member_id for member in self if member.parked_join is not None)
            joined_id = next(joined, None)
            if joined_id is None:
                return False
            self.leader_id = joined_id
        return True

    def common_protocols(self, names: Iterable[str]) -> dict[str, None]:
        """Those of the names that all members support, in their order. One look at each member:
        who joins may name very many."""
        common = dict.fromkeys(names)
        for member in self:
            own = {protocol.name for protocol in member.protocols}
            common = {name: None for name in common if name in own}
        return common

    def choose_protocol(self) -> str:
        """Every member votes for the first of its protocols that all support; most votes win."""
        first = next(iter(self))
        candidates = self.common_protocols(each.name for each in first.protocols)
        if not candidates:
            raise InvariantViolation(f"no protocol is common to {list(self.members)}")
        votes = dict.fromkeys(candidates, 0)
        for member in self:
            votes[next(each.name for each in member.protocols if each.name in votes)] += 1
        return max(votes, key=votes.__getitem__)

    def check_invariants(self) -> None:
        assert (self.leader_id in self.members) if self.members else self.leader_id is None
        assert not self.pending_ids.keys() & self.members.keys()
        assert self.unsynced_ids.keys() <= self.members.keys()
        assert self.static_ids == {
            member.group_instance_id: member.member_id
            for member in self
            if member.group_instance_id is not None
        }
        assert all(member.member_id == member_id for member_id, member in self.members.items())
        assert all(member.counted_bytes == member.own_bytes for member in self)

    def counted_sum(self) -> int:
        """What `held_bytes` has to be, but for what the group costs by being there."""
        members = sum(member.own_bytes + len(member.assignment) for member in self)
        return members + sum(map(pending_bytes, self.pending_ids))
