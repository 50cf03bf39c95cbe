"""Metadata, api key 3. Pure.

Made from schemas/metadata.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class MetadataRequestTopic(Struct):
    topic_id: bytes = ZERO_UUID
    name: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class MetadataRequest(ApiMessage):
    api_key: ClassVar[int] = 3
    name: ClassVar[str] = "Metadata"

    topics: list[MetadataRequestTopic] | None = None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@dataclass(slots=True, eq=False, repr=False)
class MetadataBroker(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class MetadataPartition(Struct):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class MetadataResponseTopic(Struct):
    error_code: int = 0
    name: str | None = None
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: list[MetadataPartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False)
class MetadataResponse(ApiMessage):
    api_key: ClassVar[int] = 3
    name: ClassVar[str] = "Metadata"

    throttle_time_ms: int = 0
    brokers: list[MetadataBroker] = field(default_factory=list)
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0


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
