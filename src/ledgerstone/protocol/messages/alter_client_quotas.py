"""AlterClientQuotas, api key 49. Pure.

Made from schemas/alter_client_quotas.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class AlterClientQuotasEntity(Struct):
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


class AlterClientQuotasOp(Struct):
    __slots__ = (
        "key",
        "value",
        "remove",
    )

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class AlterClientQuotasRequestEntry(Struct):
    __slots__ = (
        "entity",
        "ops",
    )

    def __init__(
        self,
        entity: list[AlterClientQuotasEntity] = ABSENT,
        ops: list[AlterClientQuotasOp] = ABSENT,
    ) -> None:
        self.entity = [] if entity is ABSENT else entity
        self.ops = [] if ops is ABSENT else ops


class AlterClientQuotasRequest(ApiMessage):
    api_key: ClassVar[int] = 49
    name: ClassVar[str] = "AlterClientQuotas"

    __slots__ = (
        "entries",
        "validate_only",
    )

    def __init__(
        self,
        entries: list[AlterClientQuotasRequestEntry] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.entries = [] if entries is ABSENT else entries
        self.validate_only = validate_only


class AlterClientQuotasResponseEntry(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "entity",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        entity: list[AlterClientQuotasEntity] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is ABSENT else entity


class AlterClientQuotasResponse(ApiMessage):
    api_key: ClassVar[int] = 49
    name: ClassVar[str] = "AlterClientQuotas"

    __slots__ = (
        "throttle_time_ms",
        "entries",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        entries: list[AlterClientQuotasResponseEntry] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is ABSENT else entries


SCHEMA: Final = """\
api 49 AlterClientQuotas
request v0-1 flexible 1+
    entries: [AlterClientQuotasRequestEntry]
        entity: [AlterClientQuotasEntity]
            entity_type: str
            entity_name: str?
        ops: [AlterClientQuotasOp]
            key: str
            value: f64
            remove: bool
    validate_only: bool
response v0-1 flexible 1+
    throttle_time_ms: i32
    entries: [AlterClientQuotasResponseEntry]
        error_code: i16
        error_message: str?
        entity: [AlterClientQuotasEntity]
"""
