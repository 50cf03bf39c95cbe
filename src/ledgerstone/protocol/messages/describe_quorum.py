"""DescribeQuorum, api key 55. Pure.

Made from schemas/describe_quorum.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class DescribeQuorumRequestPartition(Struct):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class DescribeQuorumRequestTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[DescribeQuorumRequestPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeQuorumRequest(ApiMessage):
    api_key: ClassVar[int] = 55
    name: ClassVar[str] = "DescribeQuorum"

    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[DescribeQuorumRequestTopic] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class DescribeQuorumReplica(Struct):
    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class DescribeQuorumResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[DescribeQuorumReplica] = ABSENT,
        observers: list[DescribeQuorumReplica] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is ABSENT else current_voters
        self.observers = [] if observers is ABSENT else observers


class DescribeQuorumResponseTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[DescribeQuorumResponsePartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class DescribeQuorumListener(Struct):
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


class DescribeQuorumNode(Struct):
    __slots__ = (
        "node_id",
        "listeners",
    )

    def __init__(
        self,
        node_id: int = 0,
        listeners: list[DescribeQuorumListener] = ABSENT,
    ) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is ABSENT else listeners


class DescribeQuorumResponse(ApiMessage):
    api_key: ClassVar[int] = 55
    name: ClassVar[str] = "DescribeQuorum"

    __slots__ = (
        "error_code",
        "error_message",
        "topics",
        "nodes",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        topics: list[DescribeQuorumResponseTopic] = ABSENT,
        nodes: list[DescribeQuorumNode] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is ABSENT else topics
        self.nodes = [] if nodes is ABSENT else nodes


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
