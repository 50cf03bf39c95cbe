"""DeleteGroups, api key 42. Pure.

Made from schemas/delete_groups.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DeleteGroupsRequest(ApiMessage):
    api_key: ClassVar[int] = 42
    name: ClassVar[str] = "DeleteGroups"

    __slots__ = ("groups_names",)

    def __init__(
        self,
        groups_names: list[str] = ABSENT,
    ) -> None:
        self.groups_names = [] if groups_names is ABSENT else groups_names


class DeleteGroupsResult(Struct):
    __slots__ = (
        "group_id",
        "error_code",
    )

    def __init__(
        self,
        group_id: str = "",
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(ApiMessage):
    api_key: ClassVar[int] = 42
    name: ClassVar[str] = "DeleteGroups"

    __slots__ = (
        "throttle_time_ms",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[DeleteGroupsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 42 DeleteGroups
request v0-2 flexible 2+
    groups_names: [str]
response v0-2 flexible 2+
    throttle_time_ms: i32
    results: [DeleteGroupsResult]
        group_id: str
        error_code: i16
"""
