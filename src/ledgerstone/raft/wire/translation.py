"""Every message of the quorum by its class: to Kafka's, and back. Pure. The door for the wiring."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.codec import api_class
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ledgerstone.protocol.messages.describe_quorum import DescribeQuorumRequest
from ledgerstone.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from ledgerstone.protocol.messages.fetch import FetchRequest
from ledgerstone.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ledgerstone.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ledgerstone.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ledgerstone.protocol.messages.vote import VoteRequest
from ledgerstone.raft import messages
from ledgerstone.raft.wire import (
    begin_epoch,
    describe,
    end_epoch,
    fetch,
    fetch_snapshot,
    vote,
    voter_changes,
)


class _Pair(NamedTuple):
    """Four functions. ApiVersions is served by the broker itself, so two of its are missing."""

    ours: type
    theirs: type[ApiMessage]
    to_wire: Callable[[Any], ApiMessage]
    from_wire: Callable[[Any], messages.Request] | None
    answer_to_wire: Callable[[Any], ApiMessage] | None
    answer_from_wire: Callable[[Any], messages.Answer]


_PAIRS: Final = (
    _Pair(
        messages.Vote,
        VoteRequest,
        vote.request_to_wire,
        vote.request_from_wire,
        vote.answer_to_wire,
        vote.answer_from_wire,
    ),
    _Pair(
        messages.BeginEpoch,
        BeginQuorumEpochRequest,
        begin_epoch.request_to_wire,
        begin_epoch.request_from_wire,
        begin_epoch.answer_to_wire,
        begin_epoch.answer_from_wire,
    ),
    _Pair(
        messages.EndEpoch,
        EndQuorumEpochRequest,
        end_epoch.request_to_wire,
        end_epoch.request_from_wire,
        end_epoch.answer_to_wire,
        end_epoch.answer_from_wire,
    ),
    _Pair(
        messages.Fetch,
        FetchRequest,
        fetch.request_to_wire,
        fetch.request_from_wire,
        fetch.answer_to_wire,
        fetch.answer_from_wire,
    ),
    _Pair(
        messages.FetchSnapshot,
        FetchSnapshotRequest,
        fetch_snapshot.request_to_wire,
        fetch_snapshot.request_from_wire,
        fetch_snapshot.answer_to_wire,
        fetch_snapshot.answer_from_wire,
    ),
    _Pair(
        messages.DescribeQuorum,
        DescribeQuorumRequest,
        describe.request_to_wire,
        describe.request_from_wire,
        describe.answer_to_wire,
        describe.answer_from_wire,
    ),
    _Pair(
        messages.AddVoter,
        AddRaftVoterRequest,
        voter_changes.add_to_wire,
        voter_changes.add_from_wire,
        voter_changes.add_answer_to_wire,
        voter_changes.add_answer_from_wire,
    ),
    _Pair(
        messages.RemoveVoter,
        RemoveRaftVoterRequest,
        voter_changes.remove_to_wire,
        voter_changes.remove_from_wire,
        voter_changes.remove_answer_to_wire,
        voter_changes.remove_answer_from_wire,
    ),
    _Pair(
        messages.UpdateVoter,
        UpdateRaftVoterRequest,
        voter_changes.update_to_wire,
        voter_changes.update_from_wire,
        voter_changes.update_answer_to_wire,
        voter_changes.update_answer_from_wire,
    ),
    _Pair(
        messages.AskVersions,
        ApiVersionsRequest,
        voter_changes.versions_to_wire,
        None,
        None,
        voter_changes.versions_answer_from_wire,
    ),
)
_BY_CLASS: Final = {pair.ours: pair for pair in _PAIRS}
_BY_KEY: Final = {pair.theirs.api_key: pair for pair in _PAIRS}
# Vote versions below this know no pre-vote: such a request fails as unsupported.
PRE_VOTE_VERSION: Final = 2


def request_to_wire(request: messages.Request) -> ApiMessage:
    return _BY_CLASS[type(request)].to_wire(request)


def request_from_wire(request: ApiMessage) -> messages.Request:
    """InvalidRequest for any other topic or partition."""
    pair = _BY_KEY[request.api_key]
    if pair.from_wire is None:
        raise InvariantViolation(f"{request.name} is not the quorum's to answer")
    return pair.from_wire(request)


def refusal(request: ApiMessage) -> ApiMessage:
    """For a request that is about any other topic or partition, as Kafka refuses it."""
    if isinstance(request, DescribeQuorumRequest):
        return describe.refusal(request)
    answer: Any = api_class(request.api_key, "Response")()
    answer.error_code = ErrorCode.INVALID_REQUEST
    assert isinstance(answer, ApiMessage)
    return answer


def answer_to_wire(request: ApiMessage, answer: messages.Answer) -> ApiMessage:
    """To the request this answers."""
    pair = _BY_KEY[request.api_key]
    if pair.answer_to_wire is None:
        raise InvariantViolation(f"{request.name} is not the quorum's to answer")
    return pair.answer_to_wire(answer)


def answer_from_wire(response: ApiMessage) -> messages.Answer:
    return _BY_KEY[response.api_key].answer_from_wire(response)


def least_version(request: messages.Request) -> int:
    """Of the API, for a peer to understand this request as it is meant."""
    if isinstance(request, messages.Vote) and request.is_pre_vote:
        return PRE_VOTE_VERSION
    return 0
