"""ShareFetch, api key 78. Pure.

Made from schemas/share_fetch.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchAcknowledgementBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchPartition(Struct):
    partition_index: int = 0
    acknowledgement_batches: list[ShareFetchAcknowledgementBatch] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ShareFetchPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchForgottenTopic(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchRequest(ApiMessage):
    api_key: ClassVar[int] = 78
    name: ClassVar[str] = "ShareFetch"

    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: list[ShareFetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ShareFetchForgottenTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchCurrentLeader(Struct):
    leader_id: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchAcquiredRecord(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchPartitionResponse(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareFetchCurrentLeader = field(default_factory=ShareFetchCurrentLeader)
    records: Records = None
    acquired_records: list[ShareFetchAcquiredRecord] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchTopicResponse(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[ShareFetchPartitionResponse] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ShareFetchResponse(ApiMessage):
    api_key: ClassVar[int] = 78
    name: ClassVar[str] = "ShareFetch"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchTopicResponse] = field(default_factory=list)
    node_endpoints: list[ShareFetchNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 78 ShareFetch
request v1-2 flexible 1+
    group_id: str? = null
    member_id: str?
    share_session_epoch: i32
    max_wait_ms: i32
    min_bytes: i32
    max_bytes: i32 = 2147483647
    max_records: i32
    batch_size: i32
    share_acquire_mode: i8 @2+
    is_renew_ack: bool @2+
    topics: [ShareFetchTopic]
        topic_id: uuid
        partitions: [ShareFetchPartition]
            partition_index: i32
            acknowledgement_batches: [ShareFetchAcknowledgementBatch]
                first_offset: i64
                last_offset: i64
                acknowledge_types: [i8]
    forgotten_topics_data: [ShareFetchForgottenTopic]
        topic_id: uuid
        partitions: [i32]
response v1-2 flexible 1+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    acquisition_lock_timeout_ms: i32
    responses: [ShareFetchTopicResponse]
        topic_id: uuid
        partitions: [ShareFetchPartitionResponse]
            partition_index: i32
            error_code: i16
            error_message: str? = null
            acknowledge_error_code: i16
            acknowledge_error_message: str? = null
            current_leader: ShareFetchCurrentLeader
                leader_id: i32
                leader_epoch: i32
            records: records
            acquired_records: [ShareFetchAcquiredRecord]
                first_offset: i64
                last_offset: i64
                delivery_count: i16
    node_endpoints: [ShareFetchNodeEndpoint]
        node_id: i32
        host: str
        port: i32
        rack: str? = null
"""
