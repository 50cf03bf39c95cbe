"""StreamsGroupDescribe, api key 89. Pure.

Made from schemas/streams_group_describe.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeRequest(ApiMessage):
    api_key: ClassVar[int] = 89
    name: ClassVar[str] = "StreamsGroupDescribe"

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeTopicConfig(Struct):
    key: str = ""
    value: str = ""


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeStateChangelogTopic(Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupDescribeTopicConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeRepartitionSourceTopic(Struct):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[StreamsGroupDescribeTopicConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeSubtopology(Struct):
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    state_changelog_topics: list[StreamsGroupDescribeStateChangelogTopic] = field(
        default_factory=list
    )
    repartition_source_topics: list[StreamsGroupDescribeRepartitionSourceTopic] = field(
        default_factory=list
    )


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeTopology(Struct):
    epoch: int = 0
    subtopologies: list[StreamsGroupDescribeSubtopology] | None = None


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeUserEndpoint(Struct):
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeClientTag(Struct):
    key: str = ""
    value: str = ""


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeTaskOffset(Struct):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeTaskEndOffset(Struct):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeActiveTask(Struct):
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeStandbyTask(Struct):
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeWarmupTask(Struct):
    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeAssignment(Struct):
    active_tasks: list[StreamsGroupDescribeActiveTask] = field(default_factory=list)
    standby_tasks: list[StreamsGroupDescribeStandbyTask] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupDescribeWarmupTask] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeTargetAssignment(Struct):
    active_tasks: list[StreamsGroupDescribeActiveTask] = field(default_factory=list)
    standby_tasks: list[StreamsGroupDescribeStandbyTask] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupDescribeWarmupTask] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeMember(Struct):
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: StreamsGroupDescribeUserEndpoint | None = None
    client_tags: list[StreamsGroupDescribeClientTag] = field(default_factory=list)
    task_offsets: list[StreamsGroupDescribeTaskOffset] = field(default_factory=list)
    task_end_offsets: list[StreamsGroupDescribeTaskEndOffset] = field(default_factory=list)
    assignment: StreamsGroupDescribeAssignment = field(
        default_factory=StreamsGroupDescribeAssignment
    )
    target_assignment: StreamsGroupDescribeTargetAssignment = field(
        default_factory=StreamsGroupDescribeTargetAssignment
    )
    is_classic: bool = False


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: StreamsGroupDescribeTopology | None = None
    members: list[StreamsGroupDescribeMember] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False)
class StreamsGroupDescribeResponse(ApiMessage):
    api_key: ClassVar[int] = 89
    name: ClassVar[str] = "StreamsGroupDescribe"

    throttle_time_ms: int = 0
    groups: list[StreamsGroupDescribeGroup] = field(default_factory=list)


SCHEMA: Final = """\
api 89 StreamsGroupDescribe
request v0-0 flexible 0+
    group_ids: [str]
    include_authorized_operations: bool
response v0-0 flexible 0+
    throttle_time_ms: i32
    groups: [StreamsGroupDescribeGroup]
        error_code: i16
        error_message: str? = null
        group_id: str
        group_state: str
        group_epoch: i32
        assignment_epoch: i32
        topology: StreamsGroupDescribeTopology? = null
            epoch: i32
            subtopologies: [StreamsGroupDescribeSubtopology]?
                subtopology_id: str
                source_topics: [str]
                repartition_sink_topics: [str]
                state_changelog_topics: [StreamsGroupDescribeStateChangelogTopic]
                    name: str
                    partitions: i32
                    replication_factor: i16
                    topic_configs: [StreamsGroupDescribeTopicConfig]
                        key: str
                        value: str
                repartition_source_topics: [StreamsGroupDescribeRepartitionSourceTopic]
                    name: str
                    partitions: i32
                    replication_factor: i16
                    topic_configs: [StreamsGroupDescribeTopicConfig]
        members: [StreamsGroupDescribeMember]
            member_id: str
            member_epoch: i32
            instance_id: str? = null
            rack_id: str? = null
            client_id: str
            client_host: str
            topology_epoch: i32
            process_id: str
            user_endpoint: StreamsGroupDescribeUserEndpoint? = null
                host: str
                port: u16
            client_tags: [StreamsGroupDescribeClientTag]
                key: str
                value: str
            task_offsets: [StreamsGroupDescribeTaskOffset]
                subtopology_id: str
                partition: i32
                offset: i64
            task_end_offsets: [StreamsGroupDescribeTaskEndOffset]
                subtopology_id: str
                partition: i32
                offset: i64
            assignment: StreamsGroupDescribeAssignment
                active_tasks: [StreamsGroupDescribeActiveTask]
                    subtopology_id: str
                    partitions: [i32]
                standby_tasks: [StreamsGroupDescribeStandbyTask]
                    subtopology_id: str
                    partitions: [i32]
                warmup_tasks: [StreamsGroupDescribeWarmupTask]
                    subtopology_id: str
                    partitions: [i32]
            target_assignment: StreamsGroupDescribeTargetAssignment
                active_tasks: [StreamsGroupDescribeActiveTask]
                standby_tasks: [StreamsGroupDescribeStandbyTask]
                warmup_tasks: [StreamsGroupDescribeWarmupTask]
            is_classic: bool
        authorized_operations: i32 = -2147483648
"""
