"""CreatePartitions, api key 37. Pure.

Made from schemas/create_partitions.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class CreatePartitionsTopic(Struct):
    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = None


@dataclass(slots=True, eq=False, repr=False)
class CreatePartitionsRequest(ApiMessage):
    api_key: ClassVar[int] = 37
    name: ClassVar[str] = "CreatePartitions"

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class CreatePartitionsResult(Struct):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class CreatePartitionsResponse(ApiMessage):
    api_key: ClassVar[int] = 37
    name: ClassVar[str] = "CreatePartitions"

    throttle_time_ms: int = 0
    results: list[CreatePartitionsResult] = field(default_factory=list)


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
