"""DeleteShareGroupOffsets, api key 92. Pure.

Made from schemas/delete_share_group_offsets.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupOffsetsTopic(Struct):
    topic_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupOffsetsRequest(ApiMessage):
    api_key: ClassVar[int] = 92
    name: ClassVar[str] = "DeleteShareGroupOffsets"

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupOffsetsTopicResult(Struct):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DeleteShareGroupOffsetsResponse(ApiMessage):
    api_key: ClassVar[int] = 92
    name: ClassVar[str] = "DeleteShareGroupOffsets"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsTopicResult] = field(default_factory=list)


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
