"""CreateTopics, api key 19. Pure.

Made from schemas/create_topics.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class CreateTopicsAssignment(Struct):
    __slots__ = (
        "partition_index",
        "broker_ids",
    )

    def __init__(
        self,
        partition_index: int = 0,
        broker_ids: list[int] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is ABSENT else broker_ids


class CreateTopicsRequestConfig(Struct):
    __slots__ = (
        "name",
        "value",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.name = name
        self.value = value


class CreateTopicsRequestTopic(Struct):
    __slots__ = (
        "name",
        "num_partitions",
        "replication_factor",
        "assignments",
        "configs",
    )

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreateTopicsAssignment] = ABSENT,
        configs: list[CreateTopicsRequestConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is ABSENT else assignments
        self.configs = [] if configs is ABSENT else configs


class CreateTopicsRequest(ApiMessage):
    api_key: ClassVar[int] = 19
    name: ClassVar[str] = "CreateTopics"

    __slots__ = (
        "topics",
        "timeout_ms",
        "validate_only",
    )

    def __init__(
        self,
        topics: list[CreateTopicsRequestTopic] = ABSENT,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreateTopicsResponseConfig(Struct):
    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreateTopicsResponseTopic(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreateTopicsResponseConfig] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(ApiMessage):
    api_key: ClassVar[int] = 19
    name: ClassVar[str] = "CreateTopics"

    __slots__ = (
        "throttle_time_ms",
        "topics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[CreateTopicsResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


SCHEMA: Final = """\
api 19 CreateTopics
request v2-7 flexible 5+
    topics: [CreateTopicsRequestTopic]
        name: str
        num_partitions: i32
        replication_factor: i16
        assignments: [CreateTopicsAssignment]
            partition_index: i32
            broker_ids: [i32]
        configs: [CreateTopicsRequestConfig]
            name: str
            value: str?
    timeout_ms: i32 = 60000
    validate_only: bool
response v2-7 flexible 5+
    throttle_time_ms: i32
    topics: [CreateTopicsResponseTopic]
        name: str
        topic_id: uuid @7+
        error_code: i16
        error_message: str?
        topic_config_error_code: i16 #0 @5+
        num_partitions: i32 = -1 @5+
        replication_factor: i16 = -1 @5+
        configs: [CreateTopicsResponseConfig]? @5+
            name: str
            value: str?
            read_only: bool
            config_source: i8 = -1
            is_sensitive: bool
"""
