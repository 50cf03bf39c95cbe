"""CreateAcls, api key 30. Pure.

Made from schemas/create_acls.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class CreateAclsCreation(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(ApiMessage):
    api_key: ClassVar[int] = 30
    name: ClassVar[str] = "CreateAcls"

    __slots__ = ("creations",)

    def __init__(
        self,
        creations: list[CreateAclsCreation] = ABSENT,
    ) -> None:
        self.creations = [] if creations is ABSENT else creations


class CreateAclsResult(Struct):
    __slots__ = (
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(ApiMessage):
    api_key: ClassVar[int] = 30
    name: ClassVar[str] = "CreateAcls"

    __slots__ = (
        "throttle_time_ms",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[CreateAclsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


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
