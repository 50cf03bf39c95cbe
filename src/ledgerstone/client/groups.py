"""Groups, their members and their lag. Shell over a `Client`."""

from collections.abc import Iterator
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import NO_NODE, ask_about
from ledgerstone.client.errors import check
from ledgerstone.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from ledgerstone.client.routing import ToBroker
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import GroupIdNotFound, UnsupportedVersion
from ledgerstone.protocol.codec import decode
from ledgerstone.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ledgerstone.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.metadata import MetadataResponse
from ledgerstone.protocol.wire import MalformedMessage
from ledgerstone.types import TopicPartition

_DEAD: Final = "Dead"
_NEWEST_ASSIGNMENT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str  # empty if the broker does not say
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    state: str
    type: str
    assignor: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group's progress in one partition. The lag is None without a committed offset, and where
    nobody can say where the log begins and ends."""

    partition: TopicPartition
    committed_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None

    @property
    def lag(self) -> int | None:
        if self.committed_offset is None or self.log_end_offset is None:
            return None
        return max(self.log_end_offset - self.committed_offset, 0)

    @property
    def missed_records(self) -> bool:
        """Whether the next record the group wants is gone; a delete may have gone with it."""
        if self.committed_offset is None or self.log_start_offset is None:
            return False
        return self.committed_offset < self.log_start_offset


def list_groups(client: Client) -> list[ListedGroup]:
    client.call(ask_about([]), MetadataResponse)
    found: dict[str, ListedGroup] = {}
    for broker_id in sorted(client.session.cluster.brokers):
        # A broker knows only the groups it coordinates.
        response = client.call(ListGroupsRequest(), ListGroupsResponse, to=ToBroker(broker_id))
        check(response.error_code, f"groups of broker {broker_id}")
        for each in response.groups:
            found[each.group_id] = ListedGroup(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                state=each.group_state,
                type=each.group_type,
            )
    return [found[group_id] for group_id in sorted(found)]


def describe_group(client: Client, group_id: str) -> GroupDescription:
    described = _describe_consumer_group(client, group_id)
    if described is not None:
        return described
    response = client.call(DescribeGroupsRequest(groups=[group_id]), DescribeGroupsResponse)
    for group in response.groups:
        check(group.error_code, f"group {group_id}", group.error_message)
        if group.group_state == _DEAD:
            raise GroupIdNotFound(f"group {group_id} does not exist")
        return _classic(group)
    raise GroupIdNotFound(f"group {group_id} does not exist")


def _describe_consumer_group(client: Client, group_id: str) -> GroupDescription | None:
    """None if the broker does not support such groups, or this is not one."""
    try:
        response = client.call(
            ConsumerGroupDescribeRequest(group_ids=[group_id]), ConsumerGroupDescribeResponse
        )
    except UnsupportedVersion:
        return None
    for group in response.groups:
        if group.error_code == GroupIdNotFound.code:
            return None
        check(group.error_code, f"group {group_id}", group.error_message)
        return _consumer(group)
    return None


def _consumer(group: ConsumerGroupDescribeGroup) -> GroupDescription:
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host,
            partitions=tuple(
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ),
        )
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        type="consumer",
        assignor=group.assignor_name,
        members=members,
    )


def _classic(group: DescribeGroupsGroup) -> GroupDescription:
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host,
            partitions=tuple(_assigned(member.member_assignment)),
        )
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        type="classic",
        assignor=group.protocol_data,
        members=members,
    )


def _assigned(assignment: bytes) -> Iterator[TopicPartition]:
    """A consumer's assignment; empty for members of other kinds."""
    if len(assignment) < 2:
        return
    version = min(int.from_bytes(assignment[:2], "big", signed=True), _NEWEST_ASSIGNMENT)
    if version < 0:
        return
    try:
        decoded, _ = decode(ConsumerProtocolAssignment, version, assignment, 2)
    except MalformedMessage:
        return
    for topic in decoded.assigned_partitions:
        for number in topic.partitions:
            yield TopicPartition(topic.topic, number)


def group_lags(client: Client, group: GroupDescription) -> list[GroupLag]:
    """One entry per partition with a committed offset or an assigned member."""
    committed = committed_offsets(client, group.group_id)
    assigned = [each for member in group.members for each in member.partitions]
    wanted = sorted({**committed, **dict.fromkeys(assigned)})
    client.call(ask_about(dict.fromkeys(each.topic for each in wanted)), MetadataResponse)
    # A partition without a leader, or one that is gone, must not hide the others.
    led = [each for each in wanted if client.session.cluster.leader_of(each) != NO_NODE]
    starts = list_offsets(client, dict.fromkeys(led, EARLIEST))
    ends = list_offsets(client, dict.fromkeys(led, LATEST))
    return [
        GroupLag(
            partition=each,
            committed_offset=committed[each].offset if each in committed else None,
            log_start_offset=starts[each].offset if each in starts else None,
            log_end_offset=ends[each].offset if each in ends else None,
        )
        for each in wanted
    ]


def delete_group(client: Client, group_id: str) -> None:
    request = DeleteGroupsRequest(groups_names=[group_id])
    for result in client.call(request, DeleteGroupsResponse).results:
        check(result.error_code, f"group {result.group_id}")
