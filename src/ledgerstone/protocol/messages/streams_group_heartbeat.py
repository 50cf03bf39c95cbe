"""StreamsGroupHeartbeat, api key 88. Pure.

Made from schemas/streams_group_heartbeat.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatTopicConfig(Struct):
    key: str = ""
    value: str = ""


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatStateChangelogTopic(Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupHeartbeatTopicConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatRepartitionSourceTopic(Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupHeartbeatTopicConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatCopartitionGroup(Struct):
    source_topics: list[int] = field(default_factory=list)
    source_topic_regex: list[int] = field(default_factory=list)
    repartition_source_topics: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatSubtopology(Struct):
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[StreamsGroupHeartbeatStateChangelogTopic] = field(
        default_factory=list
    )
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[StreamsGroupHeartbeatRepartitionSourceTopic] = field(
        default_factory=list
    )
    copartition_groups: list[StreamsGroupHeartbeatCopartitionGroup] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatTopology(Struct):
    epoch: int = 0
    subtopologies: list[StreamsGroupHeartbeatSubtopology] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatActiveTask(Struct):
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatStandbyTask(Struct):
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatWarmupTask(Struct):
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatUserEndpoint(Struct):
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatClientTag(Struct):
    key: str = ""
    value: str = ""


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatTaskOffset(Struct):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatTaskEndOffset(Struct):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 88
    name: ClassVar[str] = "StreamsGroupHeartbeat"

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: StreamsGroupHeartbeatTopology | None = None
    active_tasks: list[StreamsGroupHeartbeatActiveTask] | None = None
    standby_tasks: list[StreamsGroupHeartbeatStandbyTask] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatWarmupTask] | None = None
    process_id: str | None = None
    user_endpoint: StreamsGroupHeartbeatUserEndpoint | None = None
    client_tags: list[StreamsGroupHeartbeatClientTag] | None = None
    task_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = None
    task_end_offsets: list[StreamsGroupHeartbeatTaskEndOffset] | None = None
    shutdown_application: bool = False


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatStatus(Struct):
    status_code: int = 0
    status_detail: str = ""


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatActivePartition(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatStandbyPartition(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatPartitionsByUserEndpoint(Struct):
    user_endpoint: StreamsGroupHeartbeatUserEndpoint = field(
        default_factory=StreamsGroupHeartbeatUserEndpoint
    )
    active_partitions: list[StreamsGroupHeartbeatActivePartition] = field(default_factory=list)
    standby_partitions: list[StreamsGroupHeartbeatStandbyPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 88
    name: ClassVar[str] = "StreamsGroupHeartbeat"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: list[StreamsGroupHeartbeatStatus] | None = None
    active_tasks: list[StreamsGroupHeartbeatActiveTask] | None = None
    standby_tasks: list[StreamsGroupHeartbeatStandbyTask] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatWarmupTask] | None = None
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatPartitionsByUserEndpoint] | None = None


SCHEMA: Final = """\
api 88 StreamsGroupHeartbeat
request v0-0 flexible 0+
    group_id: str
    member_id: str
    member_epoch: i32
    endpoint_information_epoch: i32
    instance_id: str? = null
    rack_id: str? = null
    rebalance_timeout_ms: i32 = -1
    topology: StreamsGroupHeartbeatTopology? = null
        epoch: i32
        subtopologies: [StreamsGroupHeartbeatSubtopology]
            subtopology_id: str
            source_topics: [str]
            source_topic_regex: [str]
            state_changelog_topics: [StreamsGroupHeartbeatStateChangelogTopic]
                name: str
                partitions: i32
                replication_factor: i16
                topic_configs: [StreamsGroupHeartbeatTopicConfig]
                    key: str
                    value: str
            repartition_sink_topics: [str]
            repartition_source_topics: [StreamsGroupHeartbeatRepartitionSourceTopic]
                name: str
                partitions: i32
                replication_factor: i16
                topic_configs: [StreamsGroupHeartbeatTopicConfig]
            copartition_groups: [StreamsGroupHeartbeatCopartitionGroup]
                source_topics: [i16]
                source_topic_regex: [i16]
                repartition_source_topics: [i16]
    active_tasks: [StreamsGroupHeartbeatActiveTask]?
        subtopology_id: str
        partitions: [i32]
    standby_tasks: [StreamsGroupHeartbeatStandbyTask]?
        subtopology_id: str
        partitions: [i32]
    warmup_tasks: [StreamsGroupHeartbeatWarmupTask]?
        subtopology_id: str
        partitions: [i32]
    process_id: str? = null
    user_endpoint: StreamsGroupHeartbeatUserEndpoint? = null
        host: str
        port: u16
    client_tags: [StreamsGroupHeartbeatClientTag]?
        key: str
        value: str
    task_offsets: [StreamsGroupHeartbeatTaskOffset]?
        subtopology_id: str
        partition: i32
        offset: i64
    task_end_offsets: [StreamsGroupHeartbeatTaskEndOffset]?
        subtopology_id: str
        partition: i32
        offset: i64
    shutdown_application: bool
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    member_id: str
    member_epoch: i32
    heartbeat_interval_ms: i32
    acceptable_recovery_lag: i32
    task_offset_interval_ms: i32
    status: [StreamsGroupHeartbeatStatus]?
        status_code: i8
        status_detail: str
    active_tasks: [StreamsGroupHeartbeatActiveTask]?
    standby_tasks: [StreamsGroupHeartbeatStandbyTask]?
    warmup_tasks: [StreamsGroupHeartbeatWarmupTask]?
    endpoint_information_epoch: i32
    partitions_by_user_endpoint: [StreamsGroupHeartbeatPartitionsByUserEndpoint]?
        user_endpoint: StreamsGroupHeartbeatUserEndpoint
        active_partitions: [StreamsGroupHeartbeatActivePartition]
            topic: str
            partitions: [i32]
        standby_partitions: [StreamsGroupHeartbeatStandbyPartition]
            topic: str
            partitions: [i32]
"""
