"""ReadShareGroupState, api key 84. Pure.

Made from schemas/read_share_group_state.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ReadShareGroupStateRequestPartition(Struct):
    __slots__ = (
        "partition",
        "leader_epoch",
    )

    def __init__(
        self,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadShareGroupStateTopic(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ReadShareGroupStateRequestPartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ReadShareGroupStateRequest(ApiMessage):
    api_key: ClassVar[int] = 84
    name: ClassVar[str] = "ReadShareGroupState"

    __slots__ = (
        "group_id",
        "topics",
    )

    def __init__(
        self,
        group_id: str = "",
        topics: list[ReadShareGroupStateTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class ReadShareGroupStateStateBatch(Struct):
    __slots__ = (
        "first_offset",
        "last_offset",
        "delivery_state",
        "delivery_count",
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ReadShareGroupStateResponsePartition(Struct):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "start_offset",
        "state_batches",
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[ReadShareGroupStateStateBatch] = ABSENT,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is ABSENT else state_batches


class ReadShareGroupStateResult(Struct):
    __slots__ = (
        "topic_id",
        "partitions",
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ReadShareGroupStateResponsePartition] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class ReadShareGroupStateResponse(ApiMessage):
    api_key: ClassVar[int] = 84
    name: ClassVar[str] = "ReadShareGroupState"

    __slots__ = ("results",)

    def __init__(
        self,
        results: list[ReadShareGroupStateResult] = ABSENT,
    ) -> None:
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 84 ReadShareGroupState
request v0-0 flexible 0+
    group_id: str
    topics: [ReadShareGroupStateTopic]
        topic_id: uuid
        partitions: [ReadShareGroupStateRequestPartition]
            partition: i32
            leader_epoch: i32
response v0-0 flexible 0+
    results: [ReadShareGroupStateResult]
        topic_id: uuid
        partitions: [ReadShareGroupStateResponsePartition]
            partition: i32
            error_code: i16
            error_message: str? = null
            state_epoch: i32
            start_offset: i64
            state_batches: [ReadShareGroupStateStateBatch]
                first_offset: i64
                last_offset: i64
                delivery_state: i8
                delivery_count: i16
"""
