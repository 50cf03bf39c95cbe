"""Control records. Pure.

Made from schemas/control_records.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import Final

from ledgerstone.protocol.message import ZERO_UUID, Message, Struct


@dataclass(slots=True, eq=False, repr=False)
class ControlRecordType(Message):
    type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class EndTxnMarker(Message):
    coordinator_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class LeaderChangeMessageVoter(Struct):
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class LeaderChangeMessageGrantingVoter(Struct):
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class LeaderChangeMessage(Message):
    version: int = 0
    leader_id: int = 0
    voters: list[LeaderChangeMessageVoter] = field(default_factory=list)
    granting_voters: list[LeaderChangeMessageGrantingVoter] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class SnapshotHeaderRecord(Message):
    version: int = 0
    last_contained_log_timestamp: int = 0


@dataclass(slots=True, eq=False, repr=False)
class SnapshotFooterRecord(Message):
    version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class KRaftVersionRecord(Message):
    version: int = 0
    kraft_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class VotersEndpoint(Struct):
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class VotersKraftVersionFeature(Struct):
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class VotersVoter(Struct):
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID
    endpoints: list[VotersEndpoint] = field(default_factory=list)
    kraft_version_feature: VotersKraftVersionFeature = field(
        default_factory=VotersKraftVersionFeature
    )


@dataclass(slots=True, eq=False, repr=False)
class VotersRecord(Message):
    version: int = 0
    voters: list[VotersVoter] = field(default_factory=list)


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
