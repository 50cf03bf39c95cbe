"""DescribeUserScramCredentials, api key 50. Pure.

Made from schemas/describe_user_scram_credentials.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class DescribeUserScramCredentialsUser(Struct):
    __slots__ = ("name",)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(ApiMessage):
    api_key: ClassVar[int] = 50
    name: ClassVar[str] = "DescribeUserScramCredentials"

    __slots__ = ("users",)

    def __init__(
        self,
        users: list[DescribeUserScramCredentialsUser] | None = None,
    ) -> None:
        self.users = users


class DescribeUserScramCredentialsCredentialInfo(Struct):
    __slots__ = (
        "mechanism",
        "iterations",
    )

    def __init__(
        self,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Struct):
    __slots__ = (
        "user",
        "error_code",
        "error_message",
        "credential_infos",
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        credential_infos: list[DescribeUserScramCredentialsCredentialInfo] = ABSENT,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is ABSENT else credential_infos


class DescribeUserScramCredentialsResponse(ApiMessage):
    api_key: ClassVar[int] = 50
    name: ClassVar[str] = "DescribeUserScramCredentials"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: list[DescribeUserScramCredentialsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is ABSENT else results


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
