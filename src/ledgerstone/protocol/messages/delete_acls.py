"""DeleteAcls, api key 31. Pure.

Made from schemas/delete_acls.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DeleteAclsFilter(Struct):
    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = None,
        pattern_type_filter: int = 3,
        principal_filter: str | None = None,
        host_filter: str | None = None,
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(ApiMessage):
    api_key: ClassVar[int] = 31
    name: ClassVar[str] = "DeleteAcls"

    __slots__ = ("filters",)

    def __init__(
        self,
        filters: list[DeleteAclsFilter] = ABSENT,
    ) -> None:
        self.filters = [] if filters is ABSENT else filters


class DeleteAclsMatchingAcl(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "matching_acls",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        matching_acls: list[DeleteAclsMatchingAcl] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is ABSENT else matching_acls


class DeleteAclsResponse(ApiMessage):
    api_key: ClassVar[int] = 31
    name: ClassVar[str] = "DeleteAcls"

    __slots__ = (
        "throttle_time_ms",
        "filter_results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is ABSENT else filter_results


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
