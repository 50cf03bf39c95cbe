"""DeleteTopics, api key 20. Pure.

Made from schemas/delete_topics.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class DeleteTopicsTopic(Struct):
    __slots__ = (
        "name",
        "topic_id",
    )

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(ApiMessage):
    api_key: ClassVar[int] = 20
    name: ClassVar[str] = "DeleteTopics"

    __slots__ = (
        "topic_names",
        "topics",
        "timeout_ms",
    )

    def __init__(
        self,
        topic_names: list[str] = ABSENT,
        topics: list[DeleteTopicsTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.topic_names = [] if topic_names is ABSENT else topic_names
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms


class DeleteTopicsResult(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(ApiMessage):
    api_key: ClassVar[int] = 20
    name: ClassVar[str] = "DeleteTopics"

    __slots__ = (
        "throttle_time_ms",
        "responses",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[DeleteTopicsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is ABSENT else responses


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
