"""DeleteShareGroupOffsets, api key 92. Pure.

Made from schemas/delete_share_group_offsets.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class DeleteShareGroupOffsetsTopic(Struct):
    __slots__ = ("topic_name",)

    def __init__(
        self,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 92
    name: ClassVar[str] = "DeleteShareGroupOffsets"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class DeleteShareGroupOffsetsTopicResult(Struct):
    __slots__ = (
        "topic_name",
        "topic_id",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 92
    name: ClassVar[str] = "DeleteShareGroupOffsets"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "responses",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is ABSENT else responses


SCHEMA: Final = """\
api 92 DeleteShareGroupOffsets
request v0-0 flexible 0+
    group_id: str
    topics: [DeleteShareGroupOffsetsTopic]
        topic_name: str
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str? = null
    responses: [DeleteShareGroupOffsetsTopicResult]
        topic_name: str
        topic_id: uuid
        error_code: i16
        error_message: str? = null
"""
