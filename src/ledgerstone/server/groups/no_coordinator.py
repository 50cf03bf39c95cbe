"""What a group's request is answered where this broker cannot serve its group. Pure.

COORDINATOR_NOT_AVAILABLE while the partition of __consumer_offsets is offline, NOT_COORDINATOR if
another broker leads it, COORDINATOR_LOAD_IN_PROGRESS while its shard loads; wherever the answer has
a place for it, as Kafka does. Clients look for the coordinator again, or try again.
"""

from typing import Final

from ledgerstone.coordinator.answers import join_refused
from ledgerstone.coordinator.txn_offset_requests import txn_commit_refused
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResult,
)
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupRequest
from ledgerstone.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)
from ledgerstone.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ledgerstone.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

NO_COORDINATOR: Final = (CoordinatorNotAvailable, NotCoordinator, CoordinatorLoadInProgress)


def refusal_of(message: ApiMessage, code: int, api_version: int) -> ApiMessage | None:
    """None where the request is none about groups."""
    match message:
        case JoinGroupRequest():
            return join_refused(code, api_version=api_version, member_id=message.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=code)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=code)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)
        case OffsetCommitRequest():
            return _commit_refused(message, code)
        case TxnOffsetCommitRequest():
            return txn_commit_refused(message, code)
        case OffsetFetchRequest():
            return _fetch_refused(message, code)
        case DescribeGroupsRequest():
            groups = [
                DescribeGroupsGroup(group_id=each, error_code=code) for each in message.groups
            ]
            return DescribeGroupsResponse(groups=groups)
        case DeleteGroupsRequest():
            names = message.groups_names
            results = [DeleteGroupsResult(group_id=each, error_code=code) for each in names]
            return DeleteGroupsResponse(results=results)
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=code)
        case _:
            return None


def _commit_refused(message: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _fetch_refused(message: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    """Version 1 has no place for it but the partitions."""
    return OffsetFetchResponse(
        error_code=code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchPartition(
                        partition_index=each,
                        committed_offset=-1,
                        committed_leader_epoch=-1,
                        metadata="",
                        error_code=code,
                    )
                    for each in topic.partition_indexes
                ],
            )
            for topic in message.topics or ()
        ],
        groups=[
            OffsetFetchResponseGroup(group_id=each.group_id, error_code=code)
            for each in message.groups
        ],
    )
