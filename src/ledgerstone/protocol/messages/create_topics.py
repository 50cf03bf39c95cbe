"""CreateTopics, api key 19. Pure.

Made from schemas/create_topics.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsAssignment(Struct):
    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsRequestConfig(Struct):
    name: str = ""
    value: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsRequestTopic(Struct):
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreateTopicsAssignment] = field(default_factory=list)
    configs: list[CreateTopicsRequestConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsRequest(ApiMessage):
    api_key: ClassVar[int] = 19
    name: ClassVar[str] = "CreateTopics"

    topics: list[CreateTopicsRequestTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsResponseConfig(Struct):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsResponseTopic(Struct):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreateTopicsResponseConfig] | None = None


@dataclass(slots=True, eq=False, repr=False)
class CreateTopicsResponse(ApiMessage):
    api_key: ClassVar[int] = 19
    name: ClassVar[str] = "CreateTopics"

    throttle_time_ms: int = 0
    topics: list[CreateTopicsResponseTopic] = field(default_factory=list)


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
