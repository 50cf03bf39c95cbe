"""BrokerRegistration, api key 62. Pure.

Made from schemas/broker_registration.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class BrokerRegistrationListener(Struct):
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


class BrokerRegistrationFeature(Struct):
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


class BrokerRegistrationRequest(ApiMessage):
    api_key: ClassVar[int] = 62
    name: ClassVar[str] = "BrokerRegistration"

    __slots__ = (
        "broker_id",
        "cluster_id",
        "incarnation_id",
        "listeners",
        "features",
        "rack",
        "is_migrating_zk_broker",
        "log_dirs",
        "previous_broker_epoch",
    )

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = ZERO_UUID,
        listeners: list[BrokerRegistrationListener] = ABSENT,
        features: list[BrokerRegistrationFeature] = ABSENT,
        rack: str | None = None,
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] = ABSENT,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is ABSENT else listeners
        self.features = [] if features is ABSENT else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is ABSENT else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class BrokerRegistrationResponse(ApiMessage):
    api_key: ClassVar[int] = 62
    name: ClassVar[str] = "BrokerRegistration"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "broker_epoch",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch


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
    log_dirs: [uuid] @2+
    previous_broker_epoch: i64 = -1 @3+
response v0-4 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    broker_epoch: i64 = -1
"""
