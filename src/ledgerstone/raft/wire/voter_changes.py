"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, and the ApiVersions of a voter to be. Pure."""

from typing import Final

from ledgerstone.protocol.messages.add_raft_voter import (
    AddRaftVoterListener,
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ledgerstone.protocol.messages.update_raft_voter import (
    UpdateRaftVoterCurrentLeader,
    UpdateRaftVoterKraftVersionFeature,
    UpdateRaftVoterListener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ledgerstone.raft.messages import (
    AddVoter,
    AskVersions,
    RemoveVoter,
    UpdateVoter,
    VersionsAnswer,
    VoterChangeAnswer,
)
from ledgerstone.raft.replica import NO_NODE, Peer, ReplicaKey
from ledgerstone.raft.voters import Voter
from ledgerstone.raft.wire.partition import error_of, listeners_in

FEATURE: Final = "kraft.version"


# -- add ------------------------------------------------------------------------------------------


def add_to_wire(add: AddVoter) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=add.cluster_id,
        timeout_ms=add.timeout_ms,
        voter_id=add.voter.key.id,
        voter_directory_id=add.voter.key.directory_id,
        listeners=[
            AddRaftVoterListener(name=at.name, host=at.host, port=at.port)
            for at in add.voter.listeners
        ],
        ack_when_committed=add.waits_for_commit,
    )


def add_from_wire(request: AddRaftVoterRequest) -> AddVoter:
    """Its range of kraft.versions is asked of the voter itself."""
    return AddVoter(
        cluster_id=request.cluster_id,
        voter=Voter(
            key=ReplicaKey(request.voter_id, request.voter_directory_id),
            listeners=listeners_in(request.listeners),
        ),
        timeout_ms=request.timeout_ms,
        waits_for_commit=request.ack_when_committed,
    )


def add_answer_to_wire(answer: VoterChangeAnswer) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=answer.error, error_message=answer.message)


def add_answer_from_wire(response: AddRaftVoterResponse) -> VoterChangeAnswer:
    return VoterChangeAnswer(error=error_of(response.error_code), message=response.error_message)


# -- remove ---------------------------------------------------------------------------------------


def remove_to_wire(remove: RemoveVoter) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=remove.cluster_id,
        voter_id=remove.key.id,
        voter_directory_id=remove.key.directory_id,
    )


def remove_from_wire(request: RemoveRaftVoterRequest) -> RemoveVoter:
    return RemoveVoter(
        cluster_id=request.cluster_id,
        key=ReplicaKey(request.voter_id, request.voter_directory_id),
    )


def remove_answer_to_wire(answer: VoterChangeAnswer) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.message)


def remove_answer_from_wire(response: RemoveRaftVoterResponse) -> VoterChangeAnswer:
    return VoterChangeAnswer(error=error_of(response.error_code), message=response.error_message)


# -- update ---------------------------------------------------------------------------------------


def update_to_wire(update: UpdateVoter) -> UpdateRaftVoterRequest:
    voter = update.voter
    return UpdateRaftVoterRequest(
        cluster_id=update.cluster_id,
        current_leader_epoch=update.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            UpdateRaftVoterListener(name=at.name, host=at.host, port=at.port)
            for at in voter.listeners
        ],
        kraft_version_feature=UpdateRaftVoterKraftVersionFeature(
            min_supported_version=voter.min_version, max_supported_version=voter.max_version
        ),
    )


def update_from_wire(request: UpdateRaftVoterRequest) -> UpdateVoter:
    feature = request.kraft_version_feature
    return UpdateVoter(
        cluster_id=request.cluster_id,
        epoch=request.current_leader_epoch,
        voter=Voter(
            key=ReplicaKey(request.voter_id, request.voter_directory_id),
            listeners=listeners_in(request.listeners),
            min_version=feature.min_supported_version,
            max_version=feature.max_supported_version,
        ),
    )


def update_answer_to_wire(answer: VoterChangeAnswer) -> UpdateRaftVoterResponse:
    leader = answer.leader or Peer(NO_NODE, "", 0)
    return UpdateRaftVoterResponse(
        error_code=answer.error,
        current_leader=UpdateRaftVoterCurrentLeader(
            leader_id=answer.leader_id,
            leader_epoch=answer.epoch,
            host=leader.host,
            port=leader.port,
        ),
    )


def update_answer_from_wire(response: UpdateRaftVoterResponse) -> VoterChangeAnswer:
    said = response.current_leader or UpdateRaftVoterCurrentLeader()
    is_known = said.leader_id != NO_NODE and said.host
    return VoterChangeAnswer(
        error=error_of(response.error_code),
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        leader=Peer(said.leader_id, said.host, said.port) if is_known else None,
    )


# -- versions -------------------------------------------------------------------------------------


def versions_to_wire(_: AskVersions) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="ledgerstone", client_software_version="0")


def versions_answer_from_wire(response: ApiVersionsResponse) -> VersionsAnswer:
    """A node that does not name the feature has version 0 only."""
    ranges = {each.name: each for each in response.supported_features}
    found = ranges.get(FEATURE)
    return VersionsAnswer(
        error=error_of(response.error_code),
        min_version=0 if found is None else found.min_version,
        max_version=0 if found is None else found.max_version,
    )
