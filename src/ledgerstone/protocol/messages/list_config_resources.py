"""ListConfigResources, api key 74. Pure.

Made from schemas/list_config_resources.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ListConfigResourcesRequest(ApiMessage):
    api_key: ClassVar[int] = 74
    name: ClassVar[str] = "ListConfigResources"

    resource_types: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListConfigResourcesConfigResource(Struct):
    resource_name: str = ""
    resource_type: int = 16


@dataclass(slots=True, eq=False, repr=False)
class ListConfigResourcesResponse(ApiMessage):
    api_key: ClassVar[int] = 74
    name: ClassVar[str] = "ListConfigResources"

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ListConfigResourcesConfigResource] = field(default_factory=list)


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
