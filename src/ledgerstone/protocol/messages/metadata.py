"""Metadata, api key 3. Pure.

Made from schemas/metadata.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class MetadataRequestTopic(Struct):
    __slots__ = (
        "topic_id",
        "name",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        name: str | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(ApiMessage):
    api_key: ClassVar[int] = 3
    name: ClassVar[str] = "Metadata"

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )

    def __init__(
        self,
        topics: list[MetadataRequestTopic] | None = None,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataBroker(Struct):
    __slots__ = (
        "node_id",
        "host",
        "port",
        "rack",
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataPartition(Struct):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = ABSENT,
        isr_nodes: list[int] = ABSENT,
        offline_replicas: list[int] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is ABSENT else replica_nodes
        self.isr_nodes = [] if isr_nodes is ABSENT else isr_nodes
        self.offline_replicas = [] if offline_replicas is ABSENT else offline_replicas


class MetadataResponseTopic(Struct):
    __slots__ = (
        "error_code",
        "name",
        "topic_id",
        "is_internal",
        "partitions",
        "topic_authorized_operations",
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataPartition] = ABSENT,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is ABSENT else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(ApiMessage):
    api_key: ClassVar[int] = 3
    name: ClassVar[str] = "Metadata"

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: list[MetadataBroker] = ABSENT,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = ABSENT,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is ABSENT else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is ABSENT else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


SCHEMA: Final = """\
api 3 Metadata
request v0-13 flexible 9+
    topics: [MetadataRequestTopic]?1+
        topic_id: uuid @10+
        name: str?10+
    allow_auto_topic_creation: bool = true @4+
    include_cluster_authorized_operations: bool @8-10
    include_topic_authorized_operations: bool @8+
response v0-13 flexible 9+
    throttle_time_ms: i32 @3+
    brokers: [MetadataBroker]
        node_id: i32
        host: str
        port: i32
        rack: str? = null @1+
    cluster_id: str? = null @2+
    controller_id: i32 = -1 @1+
    topics: [MetadataResponseTopic]
        error_code: i16
        name: str?12+
        topic_id: uuid @10+
        is_internal: bool @1+
        partitions: [MetadataPartition]
            error_code: i16
            partition_index: i32
            leader_id: i32
            leader_epoch: i32 = -1 @7+
            replica_nodes: [i32]
            isr_nodes: [i32]
            offline_replicas: [i32] @5+
        topic_authorized_operations: i32 = -2147483648 @8+
    cluster_authorized_operations: i32 = -2147483648 @8-10
    error_code: i16 @13+
"""
