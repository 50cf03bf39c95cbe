"""PushTelemetry, api key 72. Pure.

Made from schemas/push_telemetry.txt by tools/codegen.py.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage


@dataclass(slots=True, eq=False, repr=False)
class PushTelemetryRequest(ApiMessage):
    api_key: ClassVar[int] = 72
    name: ClassVar[str] = "PushTelemetry"

    client_instance_id: bytes = ZERO_UUID
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class PushTelemetryResponse(ApiMessage):
    api_key: ClassVar[int] = 72
    name: ClassVar[str] = "PushTelemetry"

    throttle_time_ms: int = 0
    error_code: int = 0


SCHEMA: Final = """\
api 72 PushTelemetry
request v0-0 flexible 0+
    client_instance_id: uuid
    subscription_id: i32
    terminating: bool
    compression_type: i8
    metrics: bytes
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
"""
