"""StreamsGroupHeartbeat, api key 88. Pure.

Made from schemas/streams_group_heartbeat.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class StreamsGroupHeartbeatTopicConfig(Struct):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(
        self,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class StreamsGroupHeartbeatStateChangelogTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
        "replication_factor",
        "topic_configs",
    )

    def __init__(
        self,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[StreamsGroupHeartbeatTopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is ABSENT else topic_configs


class StreamsGroupHeartbeatRepartitionSourceTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
        "replication_factor",
        "topic_configs",
    )

    def __init__(
        self,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[StreamsGroupHeartbeatTopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is ABSENT else topic_configs


class StreamsGroupHeartbeatCopartitionGroup(Struct):
    __slots__ = (
        "source_topics",
        "source_topic_regex",
        "repartition_source_topics",
    )

    def __init__(
        self,
        source_topics: list[int] = ABSENT,
        source_topic_regex: list[int] = ABSENT,
        repartition_source_topics: list[int] = ABSENT,
    ) -> None:
        self.source_topics = [] if source_topics is ABSENT else source_topics
        self.source_topic_regex = [] if source_topic_regex is ABSENT else source_topic_regex
        self.repartition_source_topics = (
            [] if repartition_source_topics is ABSENT else repartition_source_topics
        )


class StreamsGroupHeartbeatSubtopology(Struct):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] = ABSENT,
        source_topic_regex: list[str] = ABSENT,
        state_changelog_topics: list[StreamsGroupHeartbeatStateChangelogTopic] = ABSENT,
        repartition_sink_topics: list[str] = ABSENT,
        repartition_source_topics: list[StreamsGroupHeartbeatRepartitionSourceTopic] = ABSENT,
        copartition_groups: list[StreamsGroupHeartbeatCopartitionGroup] = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is ABSENT else source_topics
        self.source_topic_regex = [] if source_topic_regex is ABSENT else source_topic_regex
        self.state_changelog_topics = (
            [] if state_changelog_topics is ABSENT else state_changelog_topics
        )
        self.repartition_sink_topics = (
            [] if repartition_sink_topics is ABSENT else repartition_sink_topics
        )
        self.repartition_source_topics = (
            [] if repartition_source_topics is ABSENT else repartition_source_topics
        )
        self.copartition_groups = [] if copartition_groups is ABSENT else copartition_groups


class StreamsGroupHeartbeatTopology(Struct):
    __slots__ = (
        "epoch",
        "subtopologies",
    )

    def __init__(
        self,
        epoch: int = 0,
        subtopologies: list[StreamsGroupHeartbeatSubtopology] = ABSENT,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is ABSENT else subtopologies


class StreamsGroupHeartbeatActiveTask(Struct):
    __slots__ = (
        "subtopology_id",
        "partitions",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is ABSENT else partitions


class StreamsGroupHeartbeatStandbyTask(Struct):
    __slots__ = (
        "subtopology_id",
        "partitions",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is ABSENT else partitions


class StreamsGroupHeartbeatWarmupTask(Struct):
    __slots__ = (
        "subtopology_id",
        "partitions",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is ABSENT else partitions


class StreamsGroupHeartbeatUserEndpoint(Struct):
    __slots__ = (
        "host",
        "port",
    )

    def __init__(
        self,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class StreamsGroupHeartbeatClientTag(Struct):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(
        self,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class StreamsGroupHeartbeatTaskOffset(Struct):
    __slots__ = (
        "subtopology_id",
        "partition",
        "offset",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class StreamsGroupHeartbeatTaskEndOffset(Struct):
    __slots__ = (
        "subtopology_id",
        "partition",
        "offset",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class StreamsGroupHeartbeatRequest(ApiMessage):
    api_key: ClassVar[int] = 88
    name: ClassVar[str] = "StreamsGroupHeartbeat"

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "endpoint_information_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "shutdown_application",
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: StreamsGroupHeartbeatTopology | None = None,
        active_tasks: list[StreamsGroupHeartbeatActiveTask] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatStandbyTask] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatWarmupTask] | None = None,
        process_id: str | None = None,
        user_endpoint: StreamsGroupHeartbeatUserEndpoint | None = None,
        client_tags: list[StreamsGroupHeartbeatClientTag] | None = None,
        task_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = None,
        task_end_offsets: list[StreamsGroupHeartbeatTaskEndOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class StreamsGroupHeartbeatStatus(Struct):
    __slots__ = (
        "status_code",
        "status_detail",
    )

    def __init__(
        self,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class StreamsGroupHeartbeatActivePartition(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class StreamsGroupHeartbeatStandbyPartition(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class StreamsGroupHeartbeatPartitionsByUserEndpoint(Struct):
    __slots__ = (
        "user_endpoint",
        "active_partitions",
        "standby_partitions",
    )

    def __init__(
        self,
        user_endpoint: StreamsGroupHeartbeatUserEndpoint = ABSENT,
        active_partitions: list[StreamsGroupHeartbeatActivePartition] = ABSENT,
        standby_partitions: list[StreamsGroupHeartbeatStandbyPartition] = ABSENT,
    ) -> None:
        self.user_endpoint = (
            StreamsGroupHeartbeatUserEndpoint() if user_endpoint is ABSENT else user_endpoint
        )
        self.active_partitions = [] if active_partitions is ABSENT else active_partitions
        self.standby_partitions = [] if standby_partitions is ABSENT else standby_partitions


class StreamsGroupHeartbeatResponse(ApiMessage):
    api_key: ClassVar[int] = 88
    name: ClassVar[str] = "StreamsGroupHeartbeat"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "acceptable_recovery_lag",
        "task_offset_interval_ms",
        "status",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "endpoint_information_epoch",
        "partitions_by_user_endpoint",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: list[StreamsGroupHeartbeatStatus] | None = None,
        active_tasks: list[StreamsGroupHeartbeatActiveTask] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatStandbyTask] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatWarmupTask] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[StreamsGroupHeartbeatPartitionsByUserEndpoint]
        | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.task_offset_interval_ms = task_offset_interval_ms
        self.status = status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint


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
