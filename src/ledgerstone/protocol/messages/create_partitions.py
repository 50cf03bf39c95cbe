"""CreatePartitions, api key 37. Pure.

Made from schemas/create_partitions.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids",)

    def __init__(
        self,
        broker_ids: list[int] = ABSENT,
    ) -> None:
        self.broker_ids = [] if broker_ids is ABSENT else broker_ids


class CreatePartitionsTopic(Struct):
    __slots__ = (
        "name",
        "count",
        "assignments",
    )

    def __init__(
        self,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = None,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(ApiMessage):
    api_key: ClassVar[int] = 37
    name: ClassVar[str] = "CreatePartitions"

    __slots__ = (
        "topics",
        "timeout_ms",
        "validate_only",
    )

    def __init__(
        self,
        topics: list[CreatePartitionsTopic] = ABSENT,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsResult(Struct):
    __slots__ = (
        "name",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(ApiMessage):
    api_key: ClassVar[int] = 37
    name: ClassVar[str] = "CreatePartitions"

    __slots__ = (
        "throttle_time_ms",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 37 CreatePartitions
request v0-3 flexible 2+
    topics: [CreatePartitionsTopic]
        name: str
        count: i32
        assignments: [CreatePartitionsAssignment]?
            broker_ids: [i32]
    timeout_ms: i32
    validate_only: bool
response v0-3 flexible 2+
    throttle_time_ms: i32
    results: [CreatePartitionsResult]
        name: str
        error_code: i16
        error_message: str? = null
"""
