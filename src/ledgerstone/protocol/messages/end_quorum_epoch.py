"""EndQuorumEpoch, api key 54. Pure.

Made from schemas/end_quorum_epoch.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochPreferredCandidate(Struct):
    candidate_id: int = 0
    candidate_directory_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochRequestPartition(Struct):
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    preferred_successors: list[int] = field(default_factory=list)
    preferred_candidates: list[EndQuorumEpochPreferredCandidate] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[EndQuorumEpochRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochLeaderEndpoint(Struct):
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochRequest(ApiMessage):
    api_key: ClassVar[int] = 54
    name: ClassVar[str] = "EndQuorumEpoch"

    cluster_id: str | None = None
    topics: list[EndQuorumEpochRequestTopic] = field(default_factory=list)
    leader_endpoints: list[EndQuorumEpochLeaderEndpoint] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochResponseTopic(Struct):
    topic_name: str = ""
    partitions: list[EndQuorumEpochResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class EndQuorumEpochResponse(ApiMessage):
    api_key: ClassVar[int] = 54
    name: ClassVar[str] = "EndQuorumEpoch"

    error_code: int = 0
    topics: list[EndQuorumEpochResponseTopic] = field(default_factory=list)
    node_endpoints: list[EndQuorumEpochNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 54 EndQuorumEpoch
request v0-1 flexible 1+
    cluster_id: str? = null
    topics: [EndQuorumEpochRequestTopic]
        topic_name: str
        partitions: [EndQuorumEpochRequestPartition]
            partition_index: i32
            leader_id: i32
            leader_epoch: i32
            preferred_successors: [i32] @0
            preferred_candidates: [EndQuorumEpochPreferredCandidate] @1+
                candidate_id: i32
                candidate_directory_id: uuid
    leader_endpoints: [EndQuorumEpochLeaderEndpoint] @1+
        name: str
        host: str
        port: u16
response v0-1 flexible 1+
    error_code: i16
    topics: [EndQuorumEpochResponseTopic]
        topic_name: str
        partitions: [EndQuorumEpochResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
    node_endpoints: [EndQuorumEpochNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
