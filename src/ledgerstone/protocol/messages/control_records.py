"""Control records. Pure.

Made from schemas/control_records.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, Message, Struct


class ControlRecordType(Message):
    __slots__ = ("type",)

    def __init__(
        self,
        type: int = 0,
    ) -> None:
        self.type = type


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)

    def __init__(
        self,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch


class LeaderChangeMessageVoter(Struct):
    __slots__ = (
        "voter_id",
        "voter_directory_id",
    )

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessageGrantingVoter(Struct):
    __slots__ = (
        "voter_id",
        "voter_directory_id",
    )

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessage(Message):
    __slots__ = (
        "version",
        "leader_id",
        "voters",
        "granting_voters",
    )

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeMessageVoter] = ABSENT,
        granting_voters: list[LeaderChangeMessageGrantingVoter] = ABSENT,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is ABSENT else voters
        self.granting_voters = [] if granting_voters is ABSENT else granting_voters


class SnapshotHeaderRecord(Message):
    __slots__ = (
        "version",
        "last_contained_log_timestamp",
    )

    def __init__(
        self,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp


class SnapshotFooterRecord(Message):
    __slots__ = ("version",)

    def __init__(
        self,
        version: int = 0,
    ) -> None:
        self.version = version


class KRaftVersionRecord(Message):
    __slots__ = (
        "version",
        "kraft_version",
    )

    def __init__(
        self,
        version: int = 0,
        kraft_version: int = 0,
    ) -> None:
        self.version = version
        self.kraft_version = kraft_version


class VotersEndpoint(Struct):
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


class VotersKraftVersionFeature(Struct):
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


class VotersVoter(Struct):
    __slots__ = (
        "voter_id",
        "voter_directory_id",
        "endpoints",
        "kraft_version_feature",
    )

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        endpoints: list[VotersEndpoint] = ABSENT,
        kraft_version_feature: VotersKraftVersionFeature = ABSENT,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = [] if endpoints is ABSENT else endpoints
        self.kraft_version_feature = (
            VotersKraftVersionFeature()
            if kraft_version_feature is ABSENT
            else kraft_version_feature
        )


class VotersRecord(Message):
    __slots__ = (
        "version",
        "voters",
    )

    def __init__(
        self,
        version: int = 0,
        voters: list[VotersVoter] = ABSENT,
    ) -> None:
        self.version = version
        self.voters = [] if voters is ABSENT else voters


SCHEMA: Final = """\
data ControlRecordType v0-0 rigid
    type: i16
data EndTxnMarker v0-0 rigid
    coordinator_epoch: i32
data LeaderChangeMessage v0-1 flexible 0+
    version: i16
    leader_id: i32
    voters: [LeaderChangeMessageVoter]
        voter_id: i32
        voter_directory_id: uuid @1+
    granting_voters: [LeaderChangeMessageGrantingVoter]
        voter_id: i32
        voter_directory_id: uuid @1+
data SnapshotHeaderRecord v0-0 flexible 0+
    version: i16
    last_contained_log_timestamp: i64
data SnapshotFooterRecord v0-0 flexible 0+
    version: i16
data KRaftVersionRecord v0-0 flexible 0+
    version: i16
    kraft_version: i16
data VotersRecord v0-0 flexible 0+
    version: i16
    voters: [VotersVoter]
        voter_id: i32
        voter_directory_id: uuid
        endpoints: [VotersEndpoint]
            name: str
            host: str
            port: u16
        kraft_version_feature: VotersKraftVersionFeature
            min_supported_version: i16
            max_supported_version: i16
"""
