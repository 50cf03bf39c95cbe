"""PushTelemetry, api key 72. Pure.

Made from schemas/push_telemetry.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage


class PushTelemetryRequest(ApiMessage):
    api_key: ClassVar[int] = 72
    name: ClassVar[str] = "PushTelemetry"

    __slots__ = (
        "client_instance_id",
        "subscription_id",
        "terminating",
        "compression_type",
        "metrics",
    )

    def __init__(
        self,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(ApiMessage):
    api_key: ClassVar[int] = 72
    name: ClassVar[str] = "PushTelemetry"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


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
