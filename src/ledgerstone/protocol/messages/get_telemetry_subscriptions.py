"""GetTelemetrySubscriptions, api key 71. Pure.

Made from schemas/get_telemetry_subscriptions.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage


class GetTelemetrySubscriptionsRequest(ApiMessage):
    api_key: ClassVar[int] = 71
    name: ClassVar[str] = "GetTelemetrySubscriptions"

    __slots__ = ("client_instance_id",)

    def __init__(
        self,
        client_instance_id: bytes = ZERO_UUID,
    ) -> None:
        self.client_instance_id = client_instance_id


class GetTelemetrySubscriptionsResponse(ApiMessage):
    api_key: ClassVar[int] = 71
    name: ClassVar[str] = "GetTelemetrySubscriptions"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = ABSENT,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = (
            [] if accepted_compression_types is ABSENT else accepted_compression_types
        )
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is ABSENT else requested_metrics


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
