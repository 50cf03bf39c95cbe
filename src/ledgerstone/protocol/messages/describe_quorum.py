"""DescribeQuorum, api key 55. Pure.

Made from schemas/describe_quorum.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumRequestPartition(Struct):
    partition_index: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[DescribeQuorumRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumRequest(ApiMessage):
    api_key: ClassVar[int] = 55
    name: ClassVar[str] = "DescribeQuorum"

    topics: list[DescribeQuorumRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumReplica(Struct):
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[DescribeQuorumReplica] = field(default_factory=list)
    observers: list[DescribeQuorumReplica] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumResponseTopic(Struct):
    topic_name: str = ""
    partitions: list[DescribeQuorumResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumListener(Struct):
    name: str = ""
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumNode(Struct):
    node_id: int = 0
    listeners: list[DescribeQuorumListener] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeQuorumResponse(ApiMessage):
    api_key: ClassVar[int] = 55
    name: ClassVar[str] = "DescribeQuorum"

    error_code: int = 0
    error_message: str | None = None
    topics: list[DescribeQuorumResponseTopic] = field(default_factory=list)
    nodes: list[DescribeQuorumNode] = field(default_factory=list)


SCHEMA: Final = """\
api 55 DescribeQuorum
request v0-2 flexible 0+
    topics: [DescribeQuorumRequestTopic]
        topic_name: str
        partitions: [DescribeQuorumRequestPartition]
            partition_index: i32
response v0-2 flexible 0+
    error_code: i16
    error_message: str? @2+
    topics: [DescribeQuorumResponseTopic]
        topic_name: str
        partitions: [DescribeQuorumResponsePartition]
            partition_index: i32
            error_code: i16
            error_message: str? @2+
            leader_id: i32
            leader_epoch: i32
            high_watermark: i64
            current_voters: [DescribeQuorumReplica]
                replica_id: i32
                replica_directory_id: uuid @2+
                log_end_offset: i64
                last_fetch_timestamp: i64 = -1 @1+
                last_caught_up_timestamp: i64 = -1 @1+
            observers: [DescribeQuorumReplica]
    nodes: [DescribeQuorumNode] @2+
        node_id: i32
        listeners: [DescribeQuorumListener]
            name: str
            host: str
            port: u16
"""
