"""ShareGroupHeartbeat, api key 76. Pure.

Made from schemas/share_group_heartbeat.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ShareGroupHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 76
    name: ClassVar[str] = "ShareGroupHeartbeat"

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "rack_id",
        "subscribed_topic_names",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


class ShareGroupHeartbeatTopicPartition(Struct):
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


class ShareGroupHeartbeatAssignment(Struct):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[ShareGroupHeartbeatTopicPartition] = ABSENT,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions


class ShareGroupHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 76
    name: ClassVar[str] = "ShareGroupHeartbeat"

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
        assignment: ShareGroupHeartbeatAssignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


SCHEMA: Final = """\
api 76 ShareGroupHeartbeat
request v1-1 flexible 1+
    group_id: str
    member_id: str
    member_epoch: i32
    rack_id: str? = null
    subscribed_topic_names: [str]? = null
response v1-1 flexible 1+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    member_id: str? = null
    member_epoch: i32
    heartbeat_interval_ms: i32
    assignment: ShareGroupHeartbeatAssignment? = null
        topic_partitions: [ShareGroupHeartbeatTopicPartition]
            topic_id: uuid
            partitions: [i32]
"""
