"""ListGroups, api key 16. Pure.

Made from schemas/list_groups.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ListGroupsRequest(ApiMessage):
    api_key: ClassVar[int] = 16
    name: ClassVar[str] = "ListGroups"

    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ListGroupsGroup(Struct):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


@dataclass(slots=True, eq=False, repr=False)
class ListGroupsResponse(ApiMessage):
    api_key: ClassVar[int] = 16
    name: ClassVar[str] = "ListGroups"

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListGroupsGroup] = field(default_factory=list)


SCHEMA: Final = """\
api 16 ListGroups
request v0-5 flexible 3+
    states_filter: [str] @4+
    types_filter: [str] @5+
response v0-5 flexible 3+
    throttle_time_ms: i32 @1+
    error_code: i16
    groups: [ListGroupsGroup]
        group_id: str
        protocol_type: str
        group_state: str @4+
        group_type: str @5+
"""
