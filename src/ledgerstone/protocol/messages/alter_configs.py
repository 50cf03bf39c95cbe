"""AlterConfigs, api key 33. Pure.

Made from schemas/alter_configs.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterConfigsConfig(Struct):
    name: str = ""
    value: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class AlterConfigsResource(Struct):
    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterConfigsConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterConfigsRequest(ApiMessage):
    api_key: ClassVar[int] = 33
    name: ClassVar[str] = "AlterConfigs"

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@dataclass(slots=True, eq=False, repr=False)
class AlterConfigsResult(Struct):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class AlterConfigsResponse(ApiMessage):
    api_key: ClassVar[int] = 33
    name: ClassVar[str] = "AlterConfigs"

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResult] = field(default_factory=list)


SCHEMA: Final = """\
api 33 AlterConfigs
request v0-2 flexible 2+
    resources: [AlterConfigsResource]
        resource_type: i8
        resource_name: str
        configs: [AlterConfigsConfig]
            name: str
            value: str?
    validate_only: bool
response v0-2 flexible 2+
    throttle_time_ms: i32
    responses: [AlterConfigsResult]
        error_code: i16
        error_message: str?
        resource_type: i8
        resource_name: str
"""
