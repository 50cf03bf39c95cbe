"""ListGroups, api key 16. Pure.

Made from schemas/list_groups.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class ListGroupsRequest(ApiMessage):
    api_key: ClassVar[int] = 16
    name: ClassVar[str] = "ListGroups"

    __slots__ = (
        "states_filter",
        "types_filter",
    )

    def __init__(
        self,
        states_filter: list[str] = ABSENT,
        types_filter: list[str] = ABSENT,
    ) -> None:
        self.states_filter = [] if states_filter is ABSENT else states_filter
        self.types_filter = [] if types_filter is ABSENT else types_filter


class ListGroupsGroup(Struct):
    __slots__ = (
        "group_id",
        "protocol_type",
        "group_state",
        "group_type",
    )

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(ApiMessage):
    api_key: ClassVar[int] = 16
    name: ClassVar[str] = "ListGroups"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "groups",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListGroupsGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is ABSENT else groups


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
