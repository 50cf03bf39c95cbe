"""ListConfigResources, api key 74. Pure.

Made from schemas/list_config_resources.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ListConfigResourcesRequest(ApiMessage):
    api_key: ClassVar[int] = 74
    name: ClassVar[str] = "ListConfigResources"

    __slots__ = ("resource_types",)

    def __init__(
        self,
        resource_types: list[int] = ABSENT,
    ) -> None:
        self.resource_types = [] if resource_types is ABSENT else resource_types


class ListConfigResourcesConfigResource(Struct):
    __slots__ = (
        "resource_name",
        "resource_type",
    )

    def __init__(
        self,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(ApiMessage):
    api_key: ClassVar[int] = 74
    name: ClassVar[str] = "ListConfigResources"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "config_resources",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ListConfigResourcesConfigResource] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is ABSENT else config_resources


SCHEMA: Final = """\
api 74 ListConfigResources
request v0-1 flexible 0+
    resource_types: [i8] @1+
response v0-1 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    config_resources: [ListConfigResourcesConfigResource]
        resource_name: str
        resource_type: i8 = 16 @1+
"""
