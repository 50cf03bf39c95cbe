"""IncrementalAlterConfigs, api key 44. Pure.

Made from schemas/incremental_alter_configs.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class IncrementalAlterConfigsConfig(Struct):
    name: str = ""
    config_operation: int = 0
    value: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class IncrementalAlterConfigsResource(Struct):
    resource_type: int = 0
    resource_name: str = ""
    configs: list[IncrementalAlterConfigsConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class IncrementalAlterConfigsRequest(ApiMessage):
    api_key: ClassVar[int] = 44
    name: ClassVar[str] = "IncrementalAlterConfigs"

    resources: list[IncrementalAlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class IncrementalAlterConfigsResult(Struct):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class IncrementalAlterConfigsResponse(ApiMessage):
    api_key: ClassVar[int] = 44
    name: ClassVar[str] = "IncrementalAlterConfigs"

    throttle_time_ms: int = 0
    responses: list[IncrementalAlterConfigsResult] = field(default_factory=list)


SCHEMA: Final = """\
api 44 IncrementalAlterConfigs
request v0-1 flexible 1+
    resources: [IncrementalAlterConfigsResource]
        resource_type: i8
        resource_name: str
        configs: [IncrementalAlterConfigsConfig]
            name: str
            config_operation: i8
            value: str?
    validate_only: bool
response v0-1 flexible 1+
    throttle_time_ms: i32
    responses: [IncrementalAlterConfigsResult]
        error_code: i16
        error_message: str?
        resource_type: i8
        resource_name: str
"""
