"""UpdateFeatures, api key 57. Pure.

Made from schemas/update_features.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class UpdateFeaturesFeatureUpdate(Struct):
    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1


@dataclass(slots=True, eq=False, repr=False)
class UpdateFeaturesRequest(ApiMessage):
    api_key: ClassVar[int] = 57
    name: ClassVar[str] = "UpdateFeatures"

    timeout_ms: int = 60000
    feature_updates: list[UpdateFeaturesFeatureUpdate] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class UpdateFeaturesResult(Struct):
    feature: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class UpdateFeaturesResponse(ApiMessage):
    api_key: ClassVar[int] = 57
    name: ClassVar[str] = "UpdateFeatures"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: list[UpdateFeaturesResult] = field(default_factory=list)


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
