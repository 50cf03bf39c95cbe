"""DescribeAcls, api key 29. Pure.

Made from schemas/describe_acls.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeAclsRequest(ApiMessage):
    api_key: ClassVar[int] = 29
    name: ClassVar[str] = "DescribeAcls"

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


class DescribeAclsAcl(Struct):
    __slots__ = (
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "pattern_type",
        "acls",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[DescribeAclsAcl] = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is ABSENT else acls


class DescribeAclsResponse(ApiMessage):
    api_key: ClassVar[int] = 29
    name: ClassVar[str] = "DescribeAcls"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "resources",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        resources: list[DescribeAclsResource] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is ABSENT else resources


SCHEMA: Final = """\
api 29 DescribeAcls
request v1-3 flexible 2+
    resource_type_filter: i8
    resource_name_filter: str?
    pattern_type_filter: i8 = 3
    principal_filter: str?
    host_filter: str?
    operation: i8
    permission_type: i8
response v1-3 flexible 2+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
    resources: [DescribeAclsResource]
        resource_type: i8
        resource_name: str
        pattern_type: i8 = 3
        acls: [DescribeAclsAcl]
            principal: str
            host: str
            operation: i8
            permission_type: i8
"""
