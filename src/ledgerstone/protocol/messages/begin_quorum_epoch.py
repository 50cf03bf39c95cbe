"""BeginQuorumEpoch, api key 53. Pure.

Made from schemas/begin_quorum_epoch.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochRequestPartition(Struct):
    partition_index: int = 0
    voter_directory_id: bytes = ZERO_UUID
    leader_id: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[BeginQuorumEpochRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochLeaderEndpoint(Struct):
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochRequest(ApiMessage):
    api_key: ClassVar[int] = 53
    name: ClassVar[str] = "BeginQuorumEpoch"

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[BeginQuorumEpochRequestTopic] = field(default_factory=list)
    leader_endpoints: list[BeginQuorumEpochLeaderEndpoint] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochResponseTopic(Struct):
    topic_name: str = ""
    partitions: list[BeginQuorumEpochResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BeginQuorumEpochResponse(ApiMessage):
    api_key: ClassVar[int] = 53
    name: ClassVar[str] = "BeginQuorumEpoch"

    error_code: int = 0
    topics: list[BeginQuorumEpochResponseTopic] = field(default_factory=list)
    node_endpoints: list[BeginQuorumEpochNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 53 BeginQuorumEpoch
request v0-1 flexible 1+
    cluster_id: str? = null
    voter_id: i32 = -1 @1+
    topics: [BeginQuorumEpochRequestTopic]
        topic_name: str
        partitions: [BeginQuorumEpochRequestPartition]
            partition_index: i32
            voter_directory_id: uuid @1+
            leader_id: i32
            leader_epoch: i32
    leader_endpoints: [BeginQuorumEpochLeaderEndpoint] @1+
        name: str
        host: str
        port: u16
response v0-1 flexible 1+
    error_code: i16
    topics: [BeginQuorumEpochResponseTopic]
        topic_name: str
        partitions: [BeginQuorumEpochResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
    node_endpoints: [BeginQuorumEpochNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
