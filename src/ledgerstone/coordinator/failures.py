"""What clients are told when the records behind their answers are not in the log. Pure.

They could not be appended, or leadership was lost before they were committed. Clients know
coordinator errors, not the errors of the log behind it, so these are translated.
"""

from typing import Final

from ledgerstone.coordinator.answers import sync_refused
from ledgerstone.coordinator.txn_offset_requests import error_of_marker, marker_written
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsResponse
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.heartbeat import HeartbeatResponse
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.leave_group import LeaveGroupResponse
from ledgerstone.protocol.messages.list_groups import ListGroupsResponse
from ledgerstone.protocol.messages.offset_commit import OffsetCommitResponse
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteResponse
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchResponse
from ledgerstone.protocol.messages.sync_group import SyncGroupResponse
from ledgerstone.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from ledgerstone.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from ledgerstone.types import NO_OFFSET

_NOT_NOW: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_NOT_HERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_NO_COORDINATOR: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
_TOO_LARGE: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def coordinator_error(append_error_code: int) -> ErrorCode:
    if append_error_code in _NOT_NOW:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if append_error_code in _NOT_HERE:
        return ErrorCode.NOT_COORDINATOR
    if append_error_code in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode(append_error_code)


def refused_after_append(response: ApiMessage, append_error_code: int) -> ApiMessage:
    """The same answer without its success. An answer that is already a refusal stays as it is."""
    error_code = coordinator_error(append_error_code)
    match response:
        case JoinGroupResponse(error_code=ErrorCode.NONE):
            return JoinGroupResponse(
                error_code=error_code,
                member_id=response.member_id,
                protocol_name=response.protocol_name,
            )
        case SyncGroupResponse(error_code=ErrorCode.NONE):
            return sync_refused(error_code)
        case LeaveGroupResponse(error_code=ErrorCode.NONE):
            return LeaveGroupResponse(error_code=error_code)
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            _refuse_commits(response, append_error_code)
        case WriteTxnMarkersResponse() if not error_of_marker(response):
            return marker_written(response.markers[0].producer_id, marker_error(error_code))
        case OffsetDeleteResponse(error_code=ErrorCode.NONE):
            return OffsetDeleteResponse(error_code=error_code)
        case DeleteGroupsResponse():
            for result in response.results:
                if result.error_code == ErrorCode.NONE:
                    result.error_code = error_code
        case HeartbeatResponse(error_code=ErrorCode.NONE):
            return HeartbeatResponse(error_code=error_code)
        case OffsetFetchResponse():
            _refuse_fetches(response, error_code)
        case DescribeGroupsResponse():
            for group in response.groups:
                _refuse_description(group, error_code)
        case ListGroupsResponse():
            return ListGroupsResponse(error_code=error_code)
        case _:
            pass
    return response


def marker_error(error_code: int) -> int:
    """As the coordinator of a transaction is told about a group shard: it knows leaders only."""
    if error_code in _NO_COORDINATOR:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error_code


def _refuse_fetches(response: OffsetFetchResponse, error_code: ErrorCode) -> None:
    """Version 1 has no place for it but the partitions."""
    response.error_code = error_code
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = error_code
            partition.committed_offset = NO_OFFSET
    for group in response.groups:
        group.error_code, group.topics = error_code, []


def _refuse_description(group: DescribeGroupsGroup, error_code: ErrorCode) -> None:
    group.error_code, group.error_message = error_code, None
    group.group_state, group.protocol_type, group.protocol_data = "", "", ""
    group.members = []


def _refuse_commits(
    response: OffsetCommitResponse | TxnOffsetCommitResponse, append_error_code: int
) -> None:
    error_code = coordinator_error(append_error_code)
    if append_error_code in _TOO_LARGE:
        error_code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code = error_code
