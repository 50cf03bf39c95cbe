"""AlterUserScramCredentials and DescribeUserScramCredentials: the users of SCRAM. Pure.

One change of a user in one request, even where two are for different mechanisms. Each user has an
answer of its own; those that are taken are one batch. What a client sends is salted already: the
password never comes here, and what is stored cannot be used to log in.
"""

from typing import Final

from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.features import SCRAM_FROM
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.scram_users import scram_credential, scram_record, scram_records
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsDeletion,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    AlterUserScramCredentialsUpsertion,
)
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsCredentialInfo as CredentialInfo,
)
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ledgerstone.protocol.messages.metadata_records import RemoveUserScramCredentialRecord
from ledgerstone.security.scram_keys import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
)

# Clients choose their salts: tools of several use four bytes.
_SALT_BYTES: Final = range(1, 257)
_MAX_NAME_BYTES: Final = 1024
_Change = AlterUserScramCredentialsDeletion | AlterUserScramCredentialsUpsertion
_Refusal = tuple[ErrorCode, str]

_TWICE: Final = "A user credential cannot be altered twice in the same request"
_UNSUPPORTED: Final = "The current metadata version does not support SCRAM"


def alter_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    changes: dict[str, _Change] = {}
    refused: dict[str, _Refusal] = {}
    asked: list[_Change] = [*request.deletions, *request.upsertions]
    for change in asked:
        name = change.name
        if name in refused:
            continue
        if changes.pop(name, None) is not None:
            refused[name] = (ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        elif (refusal := _refusal(image, change)) is not None:
            refused[name] = refusal
        else:
            changes[name] = change
    results = [AlterUserScramCredentialsResult(name, ErrorCode.NONE) for name in changes]
    results += [
        AlterUserScramCredentialsResult(name, code, text) for name, (code, text) in refused.items()
    ]
    records = [_record(change) for change in changes.values()]
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


def _refusal(image: MetadataImage, change: _Change) -> _Refusal | None:
    bad = ErrorCode.UNACCEPTABLE_CREDENTIAL
    if image.metadata_version < SCRAM_FROM:
        return ErrorCode.UNSUPPORTED_VERSION, _UNSUPPORTED
    if not change.name:
        return bad, "Username must not be empty"
    if len(change.name.encode()) > _MAX_NAME_BYTES:
        return bad, f"Username must not be longer than {_MAX_NAME_BYTES} bytes"
    mechanism = _mechanism(change.mechanism)
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, AlterUserScramCredentialsDeletion):
        if scram_credential(image, mechanism, change.name) is None:
            text = "Attempt to delete a user credential that does not exist"
            return ErrorCode.RESOURCE_NOT_FOUND, text
        return None
    if change.iterations > MAX_ITERATIONS:
        return bad, "Too many iterations"
    if change.iterations < MIN_ITERATIONS:
        return bad, "Too few iterations"
    # Differs from Kafka, which stores what nobody could log in with.
    if len(change.salt) not in _SALT_BYTES:
        return bad, f"The salt has {len(change.salt)} bytes, not 1 to 256"
    if len(change.salted_password) != mechanism.digest_bytes:
        size = len(change.salted_password)
        return bad, f"The salted password has {size} bytes, not {mechanism.digest_bytes}"
    return None


def _record(change: _Change) -> MetadataRecord:
    mechanism = ScramMechanism(change.mechanism)
    if isinstance(change, AlterUserScramCredentialsDeletion):
        return RemoveUserScramCredentialRecord(change.name, mechanism)
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    credential = credential_of(mechanism, salted, salt, change.iterations)
    return scram_record(change.name, mechanism, credential)


def _mechanism(number: int) -> ScramMechanism | None:
    try:
        return ScramMechanism(number)
    except ValueError:
        return None


def describe_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of the users that are named, else of all. No salt and no key."""
    known: dict[str, list[CredentialInfo]] = {}
    for record in scram_records(image):
        known.setdefault(record.name, []).append(
            CredentialInfo(record.mechanism, record.iterations)
        )
    times: dict[str, int] = {}
    for user in request.users or ():
        times[user.name] = times.get(user.name, 0) + 1
    if not times:
        times = dict.fromkeys(sorted(known), 1)
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[_described(name, count, known.get(name)) for name, count in times.items()],
    )


def _described(
    name: str, count: int, credentials: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    if count > 1:
        text = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        code = ErrorCode.DUPLICATE_RESOURCE
        return DescribeUserScramCredentialsResult(name, code, text + name)
    if credentials is None:
        text = "Attempt to describe a user credential that does not exist: "
        code = ErrorCode.RESOURCE_NOT_FOUND
        return DescribeUserScramCredentialsResult(name, code, text + name)
    in_order = sorted(credentials, key=lambda each: each.mechanism)
    return DescribeUserScramCredentialsResult(name, credential_infos=in_order)
