"""DeleteAcls, api key 31. Pure.

Made from schemas/delete_acls.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DeleteAclsFilter(Struct):
    resource_type_filter: int = 0
    resource_name_filter: str | None = None
    pattern_type_filter: int = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteAclsRequest(ApiMessage):
    api_key: ClassVar[int] = 31
    name: ClassVar[str] = "DeleteAcls"

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteAclsMatchingAcl(Struct):
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DeleteAclsFilterResult(Struct):
    error_code: int = 0
    error_message: str | None = None
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DeleteAclsResponse(ApiMessage):
    api_key: ClassVar[int] = 31
    name: ClassVar[str] = "DeleteAcls"

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)


SCHEMA: Final = """\
api 31 DeleteAcls
request v1-3 flexible 2+
    filters: [DeleteAclsFilter]
        resource_type_filter: i8
        resource_name_filter: str?
        pattern_type_filter: i8 = 3
        principal_filter: str?
        host_filter: str?
        operation: i8
        permission_type: i8
response v1-3 flexible 2+
    throttle_time_ms: i32
    filter_results: [DeleteAclsFilterResult]
        error_code: i16
        error_message: str?
        matching_acls: [DeleteAclsMatchingAcl]
            error_code: i16
            error_message: str?
            resource_type: i8
            resource_name: str
            pattern_type: i8 = 3
            principal: str
            host: str
            operation: i8
            permission_type: i8
"""
