"""DescribeUserScramCredentials, api key 50. Pure.

Made from schemas/describe_user_scram_credentials.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class DescribeUserScramCredentialsUser(Struct):
    name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class DescribeUserScramCredentialsRequest(ApiMessage):
    api_key: ClassVar[int] = 50
    name: ClassVar[str] = "DescribeUserScramCredentials"

    users: list[DescribeUserScramCredentialsUser] | None = None


@dataclass(slots=True, eq=False, repr=False)
class DescribeUserScramCredentialsCredentialInfo(Struct):
    mechanism: int = 0
    iterations: int = 0


@dataclass(slots=True, eq=False, repr=False)
class DescribeUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: int = 0
    error_message: str | None = None
    credential_infos: list[DescribeUserScramCredentialsCredentialInfo] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class DescribeUserScramCredentialsResponse(ApiMessage):
    api_key: ClassVar[int] = 50
    name: ClassVar[str] = "DescribeUserScramCredentials"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


SCHEMA: Final = """\
api 50 DescribeUserScramCredentials
request v0-0 flexible 0+
    users: [DescribeUserScramCredentialsUser]?
        name: str
response v0-0 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    error_message: str?
    results: [DescribeUserScramCredentialsResult]
        user: str
        error_code: i16
        error_message: str?
        credential_infos: [DescribeUserScramCredentialsCredentialInfo]
            mechanism: i8
            iterations: i32
"""
