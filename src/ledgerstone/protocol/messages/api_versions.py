"""ApiVersions, api key 18. Pure.

Made from schemas/api_versions.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ApiVersionsRequest(ApiMessage):
    api_key: ClassVar[int] = 18
    name: ClassVar[str] = "ApiVersions"

    client_software_name: str = ""
    client_software_version: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ApiVersion(Struct):
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class SupportedFeature(Struct):
    name: str = ""
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class FinalizedFeature(Struct):
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ApiVersionsResponse(ApiMessage):
    api_key: ClassVar[int] = 18
    name: ClassVar[str] = "ApiVersions"

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeature] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeature] = field(default_factory=list)
    zk_migration_ready: bool = False


SCHEMA: Final = """\
api 18 ApiVersions
request v0-4 flexible 3+
    client_software_name: str @3+
    client_software_version: str @3+
response v0-4 flexible 3+
    error_code: i16
    api_keys: [ApiVersion]
        api_key: i16
        min_version: i16
        max_version: i16
    throttle_time_ms: i32 @1+
    supported_features: [SupportedFeature] #0 @3+
        name: str
        min_version: i16
        max_version: i16
    finalized_features_epoch: i64 #1 = -1 @3+
    finalized_features: [FinalizedFeature] #2 @3+
        name: str
        max_version_level: i16
        min_version_level: i16
    zk_migration_ready: bool #3 @3+
"""
