"""AlterClientQuotas, api key 49. Pure.

Made from schemas/alter_client_quotas.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterClientQuotasEntity(Struct):
    entity_type: str = ""
    entity_name: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class AlterClientQuotasOp(Struct):
    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(slots=True, eq=False, repr=False)
class AlterClientQuotasRequestEntry(Struct):
    entity: list[AlterClientQuotasEntity] = field(default_factory=list)
    ops: list[AlterClientQuotasOp] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterClientQuotasRequest(ApiMessage):
    api_key: ClassVar[int] = 49
    name: ClassVar[str] = "AlterClientQuotas"

    entries: list[AlterClientQuotasRequestEntry] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class AlterClientQuotasResponseEntry(Struct):
    error_code: int = 0
    error_message: str | None = None
    entity: list[AlterClientQuotasEntity] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterClientQuotasResponse(ApiMessage):
    api_key: ClassVar[int] = 49
    name: ClassVar[str] = "AlterClientQuotas"

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponseEntry] = field(default_factory=list)


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
