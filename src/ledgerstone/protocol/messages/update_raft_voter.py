"""UpdateRaftVoter, api key 82. Pure.

Made from schemas/update_raft_voter.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class UpdateRaftVoterListener(Struct):
    __slots__ = (
        "name",
        "host",
        "port",
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class UpdateRaftVoterKraftVersionFeature(Struct):
    __slots__ = (
        "min_supported_version",
        "max_supported_version",
    )

    def __init__(
        self,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class UpdateRaftVoterRequest(ApiMessage):
    api_key: ClassVar[int] = 82
    name: ClassVar[str] = "UpdateRaftVoter"

    __slots__ = (
        "cluster_id",
        "current_leader_epoch",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "kraft_version_feature",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[UpdateRaftVoterListener] = ABSENT,
        kraft_version_feature: UpdateRaftVoterKraftVersionFeature = ABSENT,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is ABSENT else listeners
        self.kraft_version_feature = (
            UpdateRaftVoterKraftVersionFeature()
            if kraft_version_feature is ABSENT
            else kraft_version_feature
        )


class UpdateRaftVoterCurrentLeader(Struct):
    __slots__ = (
        "leader_id",
        "leader_epoch",
        "host",
        "port",
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(ApiMessage):
    api_key: ClassVar[int] = 82
    name: ClassVar[str] = "UpdateRaftVoter"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "current_leader",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: UpdateRaftVoterCurrentLeader | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = current_leader


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
