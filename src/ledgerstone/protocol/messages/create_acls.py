"""CreateAcls, api key 30. Pure.

Made from schemas/create_acls.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class CreateAclsCreation(Struct):
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class CreateAclsRequest(ApiMessage):
    api_key: ClassVar[int] = 30
    name: ClassVar[str] = "CreateAcls"

    creations: list[CreateAclsCreation] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class CreateAclsResult(Struct):
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class CreateAclsResponse(ApiMessage):
    api_key: ClassVar[int] = 30
    name: ClassVar[str] = "CreateAcls"

    throttle_time_ms: int = 0
    results: list[CreateAclsResult] = field(default_factory=list)


SCHEMA: Final = """\
api 30 CreateAcls
request v1-3 flexible 2+
    creations: [CreateAclsCreation]
        resource_type: i8
        resource_name: str
        resource_pattern_type: i8 = 3
        principal: str
        host: str
        operation: i8
        permission_type: i8
response v1-3 flexible 2+
    throttle_time_ms: i32
    results: [CreateAclsResult]
        error_code: i16
        error_message: str?
"""
