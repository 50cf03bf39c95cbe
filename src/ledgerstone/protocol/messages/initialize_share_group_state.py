"""InitializeShareGroupState, api key 83. Pure.

Made from schemas/initialize_share_group_state.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class InitializeShareGroupStateRequestPartition(Struct):
    __slots__ = (
        "partition",
        "state_epoch",
        "start_offset",
    )

    def __init__(
        self,
        partition: int = 0,
        state_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeShareGroupStateTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[InitializeShareGroupStateRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class InitializeShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 83
    name: ClassVar[str] = "InitializeShareGroupState"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[InitializeShareGroupStateTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class InitializeShareGroupStateResponsePartition(Struct):
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


class InitializeShareGroupStateResult(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[InitializeShareGroupStateResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class InitializeShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 83
    name: ClassVar[str] = "InitializeShareGroupState"

    __slots__ = ("results",)

    def __init__(
        self,
        results: list[InitializeShareGroupStateResult] = ABSENT,
    ) -> None:
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 83 InitializeShareGroupState
request v0-0 flexible 0+
    group_id: str
    topics: [InitializeShareGroupStateTopic]
        topic_id: uuid
        partitions: [InitializeShareGroupStateRequestPartition]
            partition: i32
            state_epoch: i32
            start_offset: i64
response v0-0 flexible 0+
    results: [InitializeShareGroupStateResult]
        topic_id: uuid
        partitions: [InitializeShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
"""
