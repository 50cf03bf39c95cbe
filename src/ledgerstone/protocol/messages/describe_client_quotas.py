"""DescribeClientQuotas, api key 48. Pure.

Made from schemas/describe_client_quotas.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeClientQuotasComponent(Struct):
    __slots__ = (
        "entity_type",
        "match_type",
        "match",
    )

    def __init__(
        self,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(ApiMessage):
    api_key: ClassVar[int] = 48
    name: ClassVar[str] = "DescribeClientQuotas"

    __slots__ = (
        "components",
        "strict",
    )

    def __init__(
        self,
        components: list[DescribeClientQuotasComponent] = ABSENT,
        strict: bool = False,
    ) -> None:
        self.components = [] if components is ABSENT else components
        self.strict = strict


class DescribeClientQuotasEntity(Struct):
    __slots__ = (
        "entity_type",
        "entity_name",
    )

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class DescribeClientQuotasValue(Struct):
    __slots__ = (
        "key",
        "value",
    )

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value


class DescribeClientQuotasEntry(Struct):
    __slots__ = (
        "entity",
        "values",
    )

    def __init__(
        self,
        entity: list[DescribeClientQuotasEntity] = ABSENT,
        values: list[DescribeClientQuotasValue] = ABSENT,
    ) -> None:
        self.entity = [] if entity is ABSENT else entity
        self.values = [] if values is ABSENT else values


class DescribeClientQuotasResponse(ApiMessage):
    api_key: ClassVar[int] = 48
    name: ClassVar[str] = "DescribeClientQuotas"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "entries",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        entries: list[DescribeClientQuotasEntry] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries


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
