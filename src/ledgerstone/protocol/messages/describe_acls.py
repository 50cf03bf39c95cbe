"""DescribeAcls, api key 29. Pure.

Made from schemas/describe_acls.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeAclsRequest(ApiMessage):
    api_key: ClassVar[int] = 29
    name: ClassVar[str] = "DescribeAcls"

    resource_type_filter: int = 0
    resource_name_filter: str | None = None
    pattern_type_filter: int = 3
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeAclsAcl(Struct):
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeAclsResource(Struct):
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[DescribeAclsAcl] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeAclsResponse(ApiMessage):
    api_key: ClassVar[int] = 29
    name: ClassVar[str] = "DescribeAcls"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    resources: list[DescribeAclsResource] = field(default_factory=list)


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
