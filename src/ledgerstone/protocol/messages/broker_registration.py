"""BrokerRegistration, api key 62. Pure.

Made from schemas/broker_registration.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class BrokerRegistrationListener(Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BrokerRegistrationFeature(Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BrokerRegistrationRequest(ApiMessage):
    api_key: ClassVar[int] = 62
    name: ClassVar[str] = "BrokerRegistration"

    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: bytes = ZERO_UUID
    listeners: list[BrokerRegistrationListener] = field(default_factory=list)
    features: list[BrokerRegistrationFeature] = field(default_factory=list)
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: list[bytes] | None = None
    previous_broker_epoch: int = -1


@dataclass(slots=True, eq=False, repr=False)
class BrokerRegistrationResponse(ApiMessage):
    api_key: ClassVar[int] = 62
    name: ClassVar[str] = "BrokerRegistration"

    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1


SCHEMA: Final = """\
api 62 BrokerRegistration
request v0-4 flexible 0+
    broker_id: i32
    cluster_id: str
    incarnation_id: uuid
    listeners: [BrokerRegistrationListener]
        name: str
        host: str
        port: u16
        security_protocol: i16
    features: [BrokerRegistrationFeature]
        name: str
        min_supported_version: i16
        max_supported_version: i16
    rack: str?
    is_migrating_zk_broker: bool @1+
    log_dirs: [uuid]? @2+
    previous_broker_epoch: i64 = -1 @3+
response v0-4 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    broker_epoch: i64 = -1
"""
