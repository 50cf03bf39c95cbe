"""DeleteTopics, api key 20. Pure.

Made from schemas/delete_topics.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DeleteTopicsTopic(Struct):
    name: str | None = None
    topic_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class DeleteTopicsRequest(ApiMessage):
    api_key: ClassVar[int] = 20
    name: ClassVar[str] = "DeleteTopics"

    topic_names: list[str] = field(default_factory=list)
    topics: list[DeleteTopicsTopic] = field(default_factory=list)
    timeout_ms: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteTopicsResult(Struct):
    name: str | None = None
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DeleteTopicsResponse(ApiMessage):
    api_key: ClassVar[int] = 20
    name: ClassVar[str] = "DeleteTopics"

    throttle_time_ms: int = 0
    responses: list[DeleteTopicsResult] = field(default_factory=list)


SCHEMA: Final = """\
api 20 DeleteTopics
request v1-6 flexible 4+
    topic_names: [str] @1-5
    topics: [DeleteTopicsTopic] @6+
        name: str? = null
        topic_id: uuid
    timeout_ms: i32
response v1-6 flexible 4+
    throttle_time_ms: i32
    responses: [DeleteTopicsResult]
        name: str?6+
        topic_id: uuid @6+
        error_code: i16
        error_message: str? = null @5+
"""
