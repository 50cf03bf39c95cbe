"""ControllerRegistration, api key 70. Pure.

Made from schemas/controller_registration.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ControllerRegistrationListener(Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ControllerRegistrationFeature(Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ControllerRegistrationRequest(ApiMessage):
    api_key: ClassVar[int] = 70
    name: ClassVar[str] = "ControllerRegistration"

    controller_id: int = 0
    incarnation_id: bytes = ZERO_UUID
    zk_migration_ready: bool = False
    listeners: list[ControllerRegistrationListener] = field(default_factory=list)
    features: list[ControllerRegistrationFeature] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ControllerRegistrationResponse(ApiMessage):
    api_key: ClassVar[int] = 70
    name: ClassVar[str] = "ControllerRegistration"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


SCHEMA: Final = """\
api 70 ControllerRegistration
request v0-0 flexible 0+
    controller_id: i32
    incarnation_id: uuid
    zk_migration_ready: bool
    listeners: [ControllerRegistrationListener]
        name: str
        host: str
        port: u16
        security_protocol: i16
    features: [ControllerRegistrationFeature]
        name: str
        min_supported_version: i16
        max_supported_version: i16
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
"""
