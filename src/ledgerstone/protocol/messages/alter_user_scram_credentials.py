"""AlterUserScramCredentials, api key 51. Pure.

Made from schemas/alter_user_scram_credentials.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AlterUserScramCredentialsDeletion(Struct):
    name: str = ""
    mechanism: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AlterUserScramCredentialsUpsertion(Struct):
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


@dataclass(slots=True, eq=False, repr=False)
class AlterUserScramCredentialsRequest(ApiMessage):
    api_key: ClassVar[int] = 51
    name: ClassVar[str] = "AlterUserScramCredentials"

    deletions: list[AlterUserScramCredentialsDeletion] = field(default_factory=list)
    upsertions: list[AlterUserScramCredentialsUpsertion] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AlterUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class AlterUserScramCredentialsResponse(ApiMessage):
    api_key: ClassVar[int] = 51
    name: ClassVar[str] = "AlterUserScramCredentials"

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)


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
