"""ApiVersions, api key 18. Pure.

Made from schemas/api_versions.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ApiVersionsRequest(ApiMessage):
    api_key: ClassVar[int] = 18
    name: ClassVar[str] = "ApiVersions"

    __slots__ = (
        "client_software_name",
        "client_software_version",
    )

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class ApiVersion(Struct):
    __slots__ = (
        "api_key",
        "min_version",
        "max_version",
    )

    def __init__(
        self,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeature(Struct):
    __slots__ = (
        "name",
        "min_version",
        "max_version",
    )

    def __init__(
        self,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeature(Struct):
    __slots__ = (
        "name",
        "max_version_level",
        "min_version_level",
    )

    def __init__(
        self,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(ApiMessage):
    api_key: ClassVar[int] = 18
    name: ClassVar[str] = "ApiVersions"

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )

    def __init__(
        self,
        error_code: int = 0,
        api_keys: list[ApiVersion] = ABSENT,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeature] = ABSENT,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeature] = ABSENT,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is ABSENT else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is ABSENT else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is ABSENT else finalized_features
        self.zk_migration_ready = zk_migration_ready


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
