"""AlterUserScramCredentials, api key 51. Pure.

Made from schemas/alter_user_scram_credentials.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class AlterUserScramCredentialsDeletion(Struct):
    __slots__ = (
        "name",
        "mechanism",
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class AlterUserScramCredentialsUpsertion(Struct):
    __slots__ = (
        "name",
        "mechanism",
        "iterations",
        "salt",
        "salted_password",
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(ApiMessage):
    api_key: ClassVar[int] = 51
    name: ClassVar[str] = "AlterUserScramCredentials"

    __slots__ = (
        "deletions",
        "upsertions",
    )

    def __init__(
        self,
        deletions: list[AlterUserScramCredentialsDeletion] = ABSENT,
        upsertions: list[AlterUserScramCredentialsUpsertion] = ABSENT,
    ) -> None:
        self.deletions = [] if deletions is ABSENT else deletions
        self.upsertions = [] if upsertions is ABSENT else upsertions


class AlterUserScramCredentialsResult(Struct):
    __slots__ = (
        "user",
        "error_code",
        "error_message",
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(ApiMessage):
    api_key: ClassVar[int] = 51
    name: ClassVar[str] = "AlterUserScramCredentials"

    __slots__ = (
        "throttle_time_ms",
        "results",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


SCHEMA: Final = """\
api 51 AlterUserScramCredentials
request v0-0 flexible 0+
    deletions: [AlterUserScramCredentialsDeletion]
        name: str
        mechanism: i8
    upsertions: [AlterUserScramCredentialsUpsertion]
        name: str
        mechanism: i8
        iterations: i32
        salt: bytes
        salted_password: bytes
response v0-0 flexible 0+
    throttle_time_ms: i32
    results: [AlterUserScramCredentialsResult]
        user: str
        error_code: i16
        error_message: str?
"""
