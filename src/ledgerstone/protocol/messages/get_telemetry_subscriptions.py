"""GetTelemetrySubscriptions, api key 71. Pure.

Made from schemas/get_telemetry_subscriptions.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class GetTelemetrySubscriptionsRequest(ApiMessage):
    api_key: ClassVar[int] = 71
    name: ClassVar[str] = "GetTelemetrySubscriptions"

    client_instance_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class GetTelemetrySubscriptionsResponse(ApiMessage):
    api_key: ClassVar[int] = 71
    name: ClassVar[str] = "GetTelemetrySubscriptions"

    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: bytes = ZERO_UUID
    subscription_id: int = 0
    accepted_compression_types: list[int] = field(default_factory=list)
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)


SCHEMA: Final = """\
api 71 GetTelemetrySubscriptions
request v0-0 flexible 0+
    client_instance_id: uuid
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    client_instance_id: uuid
    subscription_id: i32
    accepted_compression_types: [i8]
    push_interval_ms: i32
    telemetry_max_bytes: i32
    delta_temporality: bool
    requested_metrics: [str]
"""
