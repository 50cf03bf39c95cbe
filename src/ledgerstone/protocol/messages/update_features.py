"""UpdateFeatures, api key 57. Pure.

Made from schemas/update_features.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class UpdateFeaturesFeatureUpdate(Struct):
    __slots__ = (
        "feature",
        "max_version_level",
        "allow_downgrade",
        "upgrade_type",
    )

    def __init__(
        self,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(ApiMessage):
    api_key: ClassVar[int] = 57
    name: ClassVar[str] = "UpdateFeatures"

    __slots__ = (
        "timeout_ms",
        "feature_updates",
        "validate_only",
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        feature_updates: list[UpdateFeaturesFeatureUpdate] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is ABSENT else feature_updates
        self.validate_only = validate_only


class UpdateFeaturesResult(Struct):
    __slots__ = (
        "feature",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(ApiMessage):
    api_key: ClassVar[int] = 57
    name: ClassVar[str] = "UpdateFeatures"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: list[UpdateFeaturesResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 57 UpdateFeatures
request v0-2 flexible 0+
    timeout_ms: i32 = 60000
    feature_updates: [UpdateFeaturesFeatureUpdate]
        feature: str
        max_version_level: i16
        allow_downgrade: bool @0
        upgrade_type: i8 = 1 @1+
    validate_only: bool @1+
response v0-2 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
    results: [UpdateFeaturesResult] @0-1
        feature: str
        error_code: i16
        error_message: str?
"""
