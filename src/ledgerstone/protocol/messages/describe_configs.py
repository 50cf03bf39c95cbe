"""DescribeConfigs, api key 32. Pure.

Made from schemas/describe_configs.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeConfigsResource(Struct):
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeConfigsRequest(ApiMessage):
    api_key: ClassVar[int] = 32
    name: ClassVar[str] = "DescribeConfigs"

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(slots=True, eq=False, repr=False)
class DescribeConfigsSynonym(Struct):
    name: str = ""
    value: str | None = None
    source: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeConfigsConfig(Struct):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int = 0
    documentation: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeConfigsResult(Struct):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsConfig] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeConfigsResponse(ApiMessage):
    api_key: ClassVar[int] = 32
    name: ClassVar[str] = "DescribeConfigs"

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)


SCHEMA: Final = """\
api 32 DescribeConfigs
request v1-4 flexible 4+
    resources: [DescribeConfigsResource]
        resource_type: i8
        resource_name: str
        configuration_keys: [str]?
    include_synonyms: bool
    include_documentation: bool @3+
response v1-4 flexible 4+
    throttle_time_ms: i32
    results: [DescribeConfigsResult]
        error_code: i16
        error_message: str?
        resource_type: i8
        resource_name: str
        configs: [DescribeConfigsConfig]
            name: str
            value: str?
            read_only: bool
            config_source: i8 = -1
            is_sensitive: bool
            synonyms: [DescribeConfigsSynonym]
                name: str
                value: str?
                source: i8
            config_type: i8 @3+
            documentation: str? @3+
"""
