"""Refusals of requests about groups, in every version that is served."""

import pytest

from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.codec import encode_response
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest
from ledgerstone.protocol.messages.join_group import JoinGroupRequest
from ledgerstone.protocol.messages.leave_group import LeaveGroupRequest
from ledgerstone.protocol.messages.offset_commit import OffsetCommitRequest
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest
from ledgerstone.protocol.messages.sync_group import SyncGroupRequest
from ledgerstone.server.groups.no_coordinator import refusal_of

REQUESTS: list[ApiMessage] = [
    JoinGroupRequest(member_id="m"),
    SyncGroupRequest(),
    HeartbeatRequest(),
    LeaveGroupRequest(),
    OffsetCommitRequest(),
    OffsetDeleteRequest(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: each.name)
def test_refusal_can_be_sent_in_every_version(request_: ApiMessage) -> None:
    """JoinGroup knows a null protocol from version 7 on only. Found by wild requests."""
    versions = OFFERED[request_.api_key]

    for version in range(versions.first, versions.last + 1):
        refusal = refusal_of(request_, ErrorCode.NOT_COORDINATOR, version)

        assert refusal is not None
        assert encode_response(refusal, version)
