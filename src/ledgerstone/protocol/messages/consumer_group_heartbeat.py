"""ConsumerGroupHeartbeat, api key 68. Pure.

Made from schemas/consumer_group_heartbeat.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ConsumerGroupHeartbeatTopicPartition(Struct):
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


class ConsumerGroupHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 68
    name: ClassVar[str] = "ConsumerGroupHeartbeat"

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatTopicPartition] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class ConsumerGroupHeartbeatAssignment(Struct):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ConsumerGroupHeartbeatTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ConsumerGroupHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 68
    name: ClassVar[str] = "ConsumerGroupHeartbeat"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatAssignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


SCHEMA: Final = """\
api 68 ConsumerGroupHeartbeat
request v0-1 flexible 0+
    group_id: str
    member_id: str
    member_epoch: i32
    instance_id: str? = null
    rack_id: str? = null
    rebalance_timeout_ms: i32 = -1
    subscribed_topic_names: [str]? = null
    subscribed_topic_regex: str? = null @1+
    server_assignor: str? = null
    topic_partitions: [ConsumerGroupHeartbeatTopicPartition]?
        topic_id: uuid
        partitions: [i32]
response v0-1 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    member_id: str? = null
    member_epoch: i32
    heartbeat_interval_ms: i32
    assignment: ConsumerGroupHeartbeatAssignment? = null
        topic_partitions: [ConsumerGroupHeartbeatTopicPartition]
"""
