"""UpdateRaftVoter, api key 82. Pure.

Made from schemas/update_raft_voter.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class UpdateRaftVoterListener(Struct):
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class UpdateRaftVoterKraftVersionFeature(Struct):
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class UpdateRaftVoterRequest(ApiMessage):
    api_key: ClassVar[int] = 82
    name: ClassVar[str] = "UpdateRaftVoter"

    cluster_id: str | None = None
    current_leader_epoch: int = 0
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID
    listeners: list[UpdateRaftVoterListener] = field(default_factory=list)
    kraft_version_feature: UpdateRaftVoterKraftVersionFeature = field(
        default_factory=UpdateRaftVoterKraftVersionFeature
    )


@dataclass(slots=True, eq=False, repr=False)
class UpdateRaftVoterCurrentLeader(Struct):
    leader_id: int = -1
    leader_epoch: int = -1
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class UpdateRaftVoterResponse(ApiMessage):
    api_key: ClassVar[int] = 82
    name: ClassVar[str] = "UpdateRaftVoter"

    throttle_time_ms: int = 0
    error_code: int = 0
    current_leader: UpdateRaftVoterCurrentLeader | None = None


SCHEMA: Final = """\
api 82 UpdateRaftVoter
request v0-0 flexible 0+
    cluster_id: str?
    current_leader_epoch: i32
    voter_id: i32
    voter_directory_id: uuid
    listeners: [UpdateRaftVoterListener]
        name: str
        host: str
        port: u16
    kraft_version_feature: UpdateRaftVoterKraftVersionFeature
        min_supported_version: i16
        max_supported_version: i16
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    current_leader: UpdateRaftVoterCurrentLeader #0
        leader_id: i32 = -1
        leader_epoch: i32 = -1
        host: str
        port: i32
"""
