"""IncrementalAlterConfigs, api key 44. Pure.

Made from schemas/incremental_alter_configs.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class IncrementalAlterConfigsConfig(Struct):
    __slots__ = (
        "name",
        "config_operation",
        "value",
    )

    def __init__(
        self,
        name: str = "",
        config_operation: int = 0,
        value: str | None = None,
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class IncrementalAlterConfigsResource(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "configs",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[IncrementalAlterConfigsConfig] = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is ABSENT else configs


class IncrementalAlterConfigsRequest(ApiMessage):
    api_key: ClassVar[int] = 44
    name: ClassVar[str] = "IncrementalAlterConfigs"

    __slots__ = (
        "resources",
        "validate_only",
    )

    def __init__(
        self,
        resources: list[IncrementalAlterConfigsResource] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is ABSENT else resources
        self.validate_only = validate_only


class IncrementalAlterConfigsResult(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(ApiMessage):
    api_key: ClassVar[int] = 44
    name: ClassVar[str] = "IncrementalAlterConfigs"

    __slots__ = (
        "throttle_time_ms",
        "responses",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[IncrementalAlterConfigsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is ABSENT else responses


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
