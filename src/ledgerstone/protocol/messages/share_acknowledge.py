"""ShareAcknowledge, api key 79. Pure.

Made from schemas/share_acknowledge.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeAcknowledgementBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgePartition(Struct):
    partition_index: int = 0
    acknowledgement_batches: list[ShareAcknowledgeAcknowledgementBatch] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ShareAcknowledgePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeRequest(ApiMessage):
    api_key: ClassVar[int] = 79
    name: ClassVar[str] = "ShareAcknowledge"

    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: list[ShareAcknowledgeTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeCurrentLeader(Struct):
    leader_id: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgePartitionResponse(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: ShareAcknowledgeCurrentLeader = field(
        default_factory=ShareAcknowledgeCurrentLeader
    )


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ShareAcknowledgePartitionResponse] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ShareAcknowledgeResponse(ApiMessage):
    api_key: ClassVar[int] = 79
    name: ClassVar[str] = "ShareAcknowledge"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[ShareAcknowledgeNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 79 ShareAcknowledge
request v1-2 flexible 1+
    group_id: str? = null
    member_id: str?
    share_session_epoch: i32
    is_renew_ack: bool @2+
    topics: [ShareAcknowledgeTopic]
        topic_id: uuid
        partitions: [ShareAcknowledgePartition]
            partition_index: i32
            acknowledgement_batches: [ShareAcknowledgeAcknowledgementBatch]
                first_offset: i64
                last_offset: i64
                acknowledge_types: [i8]
response v1-2 flexible 1+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    acquisition_lock_timeout_ms: i32 @2+
    responses: [ShareAcknowledgeTopicResponse]
        topic_id: uuid
        partitions: [ShareAcknowledgePartitionResponse]
            partition_index: i32
            error_code: i16
            error_message: str? = null
            current_leader: ShareAcknowledgeCurrentLeader
                leader_id: i32
                leader_epoch: i32
    node_endpoints: [ShareAcknowledgeNodeEndpoint]
        node_id: i32
        host: str
        port: i32
        rack: str? = null
"""
