"""DeleteGroups, api key 42. Pure.

Made from schemas/delete_groups.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DeleteGroupsRequest(ApiMessage):
    api_key: ClassVar[int] = 42
    name: ClassVar[str] = "DeleteGroups"

    groups_names: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteGroupsResult(Struct):
    group_id: str = ""
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteGroupsResponse(ApiMessage):
    api_key: ClassVar[int] = 42
    name: ClassVar[str] = "DeleteGroups"

    throttle_time_ms: int = 0
    results: list[DeleteGroupsResult] = field(default_factory=list)


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
