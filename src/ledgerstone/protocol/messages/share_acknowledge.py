"""ShareAcknowledge, api key 79. Pure.

Made from schemas/share_acknowledge.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ShareAcknowledgeAcknowledgementBatch(Struct):
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


class ShareAcknowledgePartition(Struct):
    __slots__ = (
        "partition_index",
        "acknowledgement_batches",
    )

    def __init__(
        self,
        partition_index: int = 0,
        acknowledgement_batches: list[ShareAcknowledgeAcknowledgementBatch] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = (
            [] if acknowledgement_batches is ABSENT else acknowledgement_batches
        )


class ShareAcknowledgeTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ShareAcknowledgePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareAcknowledgeRequest(ApiMessage):
    api_key: ClassVar[int] = 79
    name: ClassVar[str] = "ShareAcknowledge"

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "is_renew_ack",
        "topics",
    )

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[ShareAcknowledgeTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is ABSENT else topics


class ShareAcknowledgeCurrentLeader(Struct):
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


class ShareAcknowledgePartitionResponse(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "current_leader",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: ShareAcknowledgeCurrentLeader = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = (
            ShareAcknowledgeCurrentLeader() if current_leader is ABSENT else current_leader
        )


class ShareAcknowledgeTopicResponse(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ShareAcknowledgePartitionResponse] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ShareAcknowledgeNodeEndpoint(Struct):
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


class ShareAcknowledgeResponse(ApiMessage):
    api_key: ClassVar[int] = 79
    name: ClassVar[str] = "ShareAcknowledge"

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
        responses: list[ShareAcknowledgeTopicResponse] = ABSENT,
        node_endpoints: list[ShareAcknowledgeNodeEndpoint] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is ABSENT else responses
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


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
