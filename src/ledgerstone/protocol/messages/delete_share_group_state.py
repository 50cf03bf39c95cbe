"""DeleteShareGroupState, api key 86. Pure.

Made from schemas/delete_share_group_state.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class DeleteShareGroupStateRequestPartition(Struct):
    __slots__ = ("partition",)

    def __init__(
        self,
        partition: int = 0,
    ) -> None:
        self.partition = partition


class DeleteShareGroupStateTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[DeleteShareGroupStateRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class DeleteShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 86
    name: ClassVar[str] = "DeleteShareGroupState"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[DeleteShareGroupStateTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class DeleteShareGroupStateResponsePartition(Struct):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupStateResult(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[DeleteShareGroupStateResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class DeleteShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 86
    name: ClassVar[str] = "DeleteShareGroupState"

    __slots__ = ("results",)

    def __init__(
        self,
        results: list[DeleteShareGroupStateResult] = ABSENT,
    ) -> None:
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 86 DeleteShareGroupState
request v0-0 flexible 0+
    group_id: str
    topics: [DeleteShareGroupStateTopic]
        topic_id: uuid
        partitions: [DeleteShareGroupStateRequestPartition]
            partition: i32
response v0-0 flexible 0+
    results: [DeleteShareGroupStateResult]
        topic_id: uuid
        partitions: [DeleteShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
"""
