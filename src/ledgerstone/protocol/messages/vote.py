"""Vote, api key 52. Pure.

Made from schemas/vote.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class VoteRequestPartition(Struct):
    partition_index: int = 0
    replica_epoch: int = 0
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    voter_directory_id: bytes = ZERO_UUID
    last_offset_epoch: int = 0
    last_offset: int = 0
    pre_vote: bool = False


@dataclass(slots=True, eq=False, repr=False)
class VoteRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[VoteRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class VoteRequest(ApiMessage):
    api_key: ClassVar[int] = 52
    name: ClassVar[str] = "Vote"

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[VoteRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class VoteResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    vote_granted: bool = False


@dataclass(slots=True, eq=False, repr=False)
class VoteResponseTopic(Struct):
    topic_name: str = ""
    partitions: list[VoteResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class VoteNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class VoteResponse(ApiMessage):
    api_key: ClassVar[int] = 52
    name: ClassVar[str] = "Vote"

    error_code: int = 0
    topics: list[VoteResponseTopic] = field(default_factory=list)
    node_endpoints: list[VoteNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 52 Vote
request v0-2 flexible 0+
    cluster_id: str? = null
    voter_id: i32 = -1 @1+
    topics: [VoteRequestTopic]
        topic_name: str
        partitions: [VoteRequestPartition]
            partition_index: i32
            replica_epoch: i32
            replica_id: i32
            replica_directory_id: uuid @1+
            voter_directory_id: uuid @1+
            last_offset_epoch: i32
            last_offset: i64
            pre_vote: bool @2+
response v0-2 flexible 0+
    error_code: i16
    topics: [VoteResponseTopic]
        topic_name: str
        partitions: [VoteResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
            vote_granted: bool
    node_endpoints: [VoteNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
