"""ConsumerGroupHeartbeat, api key 68. Pure.

Made from schemas/consumer_group_heartbeat.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupHeartbeatTopicPartition(Struct):
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 68
    name: ClassVar[str] = "ConsumerGroupHeartbeat"

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartition] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroupHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 68
    name: ClassVar[str] = "ConsumerGroupHeartbeat"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ConsumerGroupHeartbeatAssignment | None = None


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
