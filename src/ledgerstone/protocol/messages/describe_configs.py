"""DescribeConfigs, api key 32. Pure.

Made from schemas/describe_configs.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeConfigsResource(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "configuration_keys",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(ApiMessage):
    api_key: ClassVar[int] = 32
    name: ClassVar[str] = "DescribeConfigs"

    __slots__ = (
        "resources",
        "include_synonyms",
        "include_documentation",
    )

    def __init__(
        self,
        resources: list[DescribeConfigsResource] = ABSENT,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is ABSENT else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(Struct):
    __slots__ = (
        "name",
        "value",
        "source",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsConfig(Struct):
    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = ABSENT,
        config_type: int = 0,
        documentation: str | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is ABSENT else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "configs",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsConfig] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is ABSENT else configs


class DescribeConfigsResponse(ApiMessage):
    api_key: ClassVar[int] = 32
    name: ClassVar[str] = "DescribeConfigs"

    __slots__ = (
        "throttle_time_ms",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


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
