"""What clients are told when the records behind their answers could not be appended. Pure.

Clients know coordinator errors, not the errors of the log behind it, so these are translated.
"""

from typing import Final

from ledgerstone.coordinator.answers import sync_refused
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsResponse
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.leave_group import LeaveGroupResponse
from ledgerstone.protocol.messages.offset_commit import OffsetCommitResponse
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteResponse
from ledgerstone.protocol.messages.sync_group import SyncGroupResponse

_NOT_NOW: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_NOT_HERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
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
        case OffsetCommitResponse():
            _refuse_commits(response, append_error_code)
        case OffsetDeleteResponse(error_code=ErrorCode.NONE):
            return OffsetDeleteResponse(error_code=error_code)
        case DeleteGroupsResponse():
            for result in response.results:
                if result.error_code == ErrorCode.NONE:
                    result.error_code = error_code
        case _:
            pass
    return response


def _refuse_commits(response: OffsetCommitResponse, append_error_code: int) -> None:
    error_code = coordinator_error(append_error_code)
    if append_error_code in _TOO_LARGE:
        error_code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code = error_code
