"""DescribeClientQuotas, api key 48. Pure.

Made from schemas/describe_client_quotas.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeClientQuotasComponent(Struct):
    entity_type: str = ""
    match_type: int = 0
    match: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeClientQuotasRequest(ApiMessage):
    api_key: ClassVar[int] = 48
    name: ClassVar[str] = "DescribeClientQuotas"

    components: list[DescribeClientQuotasComponent] = field(default_factory=list)
    strict: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeClientQuotasEntity(Struct):
    entity_type: str = ""
    entity_name: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeClientQuotasValue(Struct):
    key: str = ""
    value: float = 0.0


@dataclass(slots=True, eq=False, repr=False)
class DescribeClientQuotasEntry(Struct):
    entity: list[DescribeClientQuotasEntity] = field(default_factory=list)
    values: list[DescribeClientQuotasValue] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeClientQuotasResponse(ApiMessage):
    api_key: ClassVar[int] = 48
    name: ClassVar[str] = "DescribeClientQuotas"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    entries: list[DescribeClientQuotasEntry] | None = None


SCHEMA: Final = """\
api 48 DescribeClientQuotas
request v0-1 flexible 1+
    components: [DescribeClientQuotasComponent]
        entity_type: str
        match_type: i8
        match: str?
    strict: bool
response v0-1 flexible 1+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
    entries: [DescribeClientQuotasEntry]?
        entity: [DescribeClientQuotasEntity]
            entity_type: str
            entity_name: str?
        values: [DescribeClientQuotasValue]
            key: str
            value: f64
"""
