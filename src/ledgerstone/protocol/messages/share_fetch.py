"""ShareFetch, api key 78. Pure.

Made from schemas/share_fetch.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


class ShareFetchAcknowledgementBatch(Struct):
    __slots__ = (
        "first_offset",
        "last_offset",
        "acknowledge_types",
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] = ABSENT,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is ABSENT else acknowledge_types


class ShareFetchPartition(Struct):
    __slots__ = (
        "partition_index",
        "acknowledgement_batches",
    )

    def __init__(
        self,
        partition_index: int = 0,
        acknowledgement_batches: list[ShareFetchAcknowledgementBatch] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = (
            [] if acknowledgement_batches is ABSENT else acknowledgement_batches
        )


class ShareFetchTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ShareFetchPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareFetchForgottenTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareFetchRequest(ApiMessage):
    api_key: ClassVar[int] = 78
    name: ClassVar[str] = "ShareFetch"

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "max_records",
        "batch_size",
        "share_acquire_mode",
        "is_renew_ack",
        "topics",
        "forgotten_topics_data",
    )

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[ShareFetchTopic] = ABSENT,
        forgotten_topics_data: list[ShareFetchForgottenTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is ABSENT else topics
        self.forgotten_topics_data = (
            [] if forgotten_topics_data is ABSENT else forgotten_topics_data
        )


class ShareFetchCurrentLeader(Struct):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )

    def __init__(
        self,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ShareFetchAcquiredRecord(Struct):
    __slots__ = (
        "first_offset",
        "last_offset",
        "delivery_count",
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class ShareFetchPartitionResponse(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "acknowledge_error_code",
        "acknowledge_error_message",
        "current_leader",
        "records",
        "acquired_records",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: ShareFetchCurrentLeader = ABSENT,
        records: Records = None,
        acquired_records: list[ShareFetchAcquiredRecord] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = (
            ShareFetchCurrentLeader() if current_leader is ABSENT else current_leader
        )
        self.records = records
        self.acquired_records = [] if acquired_records is ABSENT else acquired_records


class ShareFetchTopicResponse(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ShareFetchPartitionResponse] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareFetchNodeEndpoint(Struct):
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


class ShareFetchResponse(ApiMessage):
    api_key: ClassVar[int] = 78
    name: ClassVar[str] = "ShareFetch"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchTopicResponse] = ABSENT,
        node_endpoints: list[ShareFetchNodeEndpoint] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is ABSENT else responses
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


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
