"""StreamsGroupDescribe, api key 89. Pure.

Made from schemas/streams_group_describe.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class StreamsGroupDescribeRequest(ApiMessage):
    api_key: ClassVar[int] = 89
    name: ClassVar[str] = "StreamsGroupDescribe"

    __slots__ = (
        "group_ids",
        "include_authorized_operations",
    )

    def __init__(
        self,
        group_ids: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is ABSENT else group_ids
        self.include_authorized_operations = include_authorized_operations


class StreamsGroupDescribeTopicConfig(Struct):
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


class StreamsGroupDescribeStateChangelogTopic(Struct):
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
        topic_configs: list[StreamsGroupDescribeTopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is ABSENT else topic_configs


class StreamsGroupDescribeRepartitionSourceTopic(Struct):
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
        topic_configs: list[StreamsGroupDescribeTopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is ABSENT else topic_configs


class StreamsGroupDescribeSubtopology(Struct):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "repartition_sink_topics",
        "state_changelog_topics",
        "repartition_source_topics",
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] = ABSENT,
        repartition_sink_topics: list[str] = ABSENT,
        state_changelog_topics: list[StreamsGroupDescribeStateChangelogTopic] = ABSENT,
        repartition_source_topics: list[StreamsGroupDescribeRepartitionSourceTopic] = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is ABSENT else source_topics
        self.repartition_sink_topics = (
            [] if repartition_sink_topics is ABSENT else repartition_sink_topics
        )
        self.state_changelog_topics = (
            [] if state_changelog_topics is ABSENT else state_changelog_topics
        )
        self.repartition_source_topics = (
            [] if repartition_source_topics is ABSENT else repartition_source_topics
        )


class StreamsGroupDescribeTopology(Struct):
    __slots__ = (
        "epoch",
        "subtopologies",
    )

    def __init__(
        self,
        epoch: int = 0,
        subtopologies: list[StreamsGroupDescribeSubtopology] | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class StreamsGroupDescribeUserEndpoint(Struct):
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


class StreamsGroupDescribeClientTag(Struct):
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


class StreamsGroupDescribeTaskOffset(Struct):
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


class StreamsGroupDescribeTaskEndOffset(Struct):
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


class StreamsGroupDescribeActiveTask(Struct):
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


class StreamsGroupDescribeStandbyTask(Struct):
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


class StreamsGroupDescribeWarmupTask(Struct):
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


class StreamsGroupDescribeAssignment(Struct):
    __slots__ = (
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
    )

    def __init__(
        self,
        active_tasks: list[StreamsGroupDescribeActiveTask] = ABSENT,
        standby_tasks: list[StreamsGroupDescribeStandbyTask] = ABSENT,
        warmup_tasks: list[StreamsGroupDescribeWarmupTask] = ABSENT,
    ) -> None:
        self.active_tasks = [] if active_tasks is ABSENT else active_tasks
        self.standby_tasks = [] if standby_tasks is ABSENT else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is ABSENT else warmup_tasks


class StreamsGroupDescribeTargetAssignment(Struct):
    __slots__ = (
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
    )

    def __init__(
        self,
        active_tasks: list[StreamsGroupDescribeActiveTask] = ABSENT,
        standby_tasks: list[StreamsGroupDescribeStandbyTask] = ABSENT,
        warmup_tasks: list[StreamsGroupDescribeWarmupTask] = ABSENT,
    ) -> None:
        self.active_tasks = [] if active_tasks is ABSENT else active_tasks
        self.standby_tasks = [] if standby_tasks is ABSENT else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is ABSENT else warmup_tasks


class StreamsGroupDescribeMember(Struct):
    __slots__ = (
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "assignment",
        "target_assignment",
        "is_classic",
    )

    def __init__(
        self,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: StreamsGroupDescribeUserEndpoint | None = None,
        client_tags: list[StreamsGroupDescribeClientTag] = ABSENT,
        task_offsets: list[StreamsGroupDescribeTaskOffset] = ABSENT,
        task_end_offsets: list[StreamsGroupDescribeTaskEndOffset] = ABSENT,
        assignment: StreamsGroupDescribeAssignment = ABSENT,
        target_assignment: StreamsGroupDescribeTargetAssignment = ABSENT,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is ABSENT else client_tags
        self.task_offsets = [] if task_offsets is ABSENT else task_offsets
        self.task_end_offsets = [] if task_end_offsets is ABSENT else task_end_offsets
        self.assignment = StreamsGroupDescribeAssignment() if assignment is ABSENT else assignment
        self.target_assignment = (
            StreamsGroupDescribeTargetAssignment()
            if target_assignment is ABSENT
            else target_assignment
        )
        self.is_classic = is_classic


class StreamsGroupDescribeGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "topology",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: StreamsGroupDescribeTopology | None = None,
        members: list[StreamsGroupDescribeMember] = ABSENT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = [] if members is ABSENT else members
        self.authorized_operations = authorized_operations


class StreamsGroupDescribeResponse(ApiMessage):
    api_key: ClassVar[int] = 89
    name: ClassVar[str] = "StreamsGroupDescribe"

    __slots__ = (
        "throttle_time_ms",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[StreamsGroupDescribeGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is ABSENT else groups


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
