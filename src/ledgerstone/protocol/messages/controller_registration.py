"""ControllerRegistration, api key 70. Pure.

Made from schemas/controller_registration.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class ControllerRegistrationListener(Struct):
    __slots__ = (
        "name",
        "host",
        "port",
        "security_protocol",
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerRegistrationFeature(Struct):
    __slots__ = (
        "name",
        "min_supported_version",
        "max_supported_version",
    )

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class ControllerRegistrationRequest(ApiMessage):
    api_key: ClassVar[int] = 70
    name: ClassVar[str] = "ControllerRegistration"

    __slots__ = (
        "controller_id",
        "incarnation_id",
        "zk_migration_ready",
        "listeners",
        "features",
    )

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: list[ControllerRegistrationListener] = ABSENT,
        features: list[ControllerRegistrationFeature] = ABSENT,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is ABSENT else listeners
        self.features = [] if features is ABSENT else features


class ControllerRegistrationResponse(ApiMessage):
    api_key: ClassVar[int] = 70
    name: ClassVar[str] = "ControllerRegistration"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


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
