"""ShareGroupHeartbeat, api key 76. Pure.

Made from schemas/share_group_heartbeat.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 76
    name: ClassVar[str] = "ShareGroupHeartbeat"

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupHeartbeatTopicPartition(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ShareGroupHeartbeatTopicPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 76
    name: ClassVar[str] = "ShareGroupHeartbeat"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupHeartbeatAssignment | None = None


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
