"""AlterConfigs, api key 33. Pure.

Made from schemas/alter_configs.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class AlterConfigsConfig(Struct):
    __slots__ = (
        "name",
        "value",
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.name = name
        self.value = value


class AlterConfigsResource(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "configs",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterConfigsConfig] = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is ABSENT else configs


class AlterConfigsRequest(ApiMessage):
    api_key: ClassVar[int] = 33
    name: ClassVar[str] = "AlterConfigs"

    __slots__ = (
        "resources",
        "validate_only",
    )

    def __init__(
        self,
        resources: list[AlterConfigsResource] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is ABSENT else resources
        self.validate_only = validate_only


class AlterConfigsResult(Struct):
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


class AlterConfigsResponse(ApiMessage):
    api_key: ClassVar[int] = 33
    name: ClassVar[str] = "AlterConfigs"

    __slots__ = (
        "throttle_time_ms",
        "responses",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is ABSENT else responses


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
