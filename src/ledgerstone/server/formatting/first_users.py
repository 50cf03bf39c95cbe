"""`--add-scram`: users that a cluster begins with, written as `kafka-storage` takes them. Pure.

`SCRAM-SHA-256=[name=alice,password=secret]`, with `iterations`, `salt` and, instead of the
password, `saltedpassword`; values may stand in double quotes, salts are base64. Errors do not
repeat what was given: it holds a password.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.errors import FormatRefused
from ledgerstone.metadata.features import SCRAM_FROM
from ledgerstone.metadata.scram_users import scram_record
from ledgerstone.protocol.messages.metadata_records import UserScramCredentialRecord
from ledgerstone.security.scram_keys import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BYTES,
    SCRAM_BY_TEXT,
    ScramMechanism,
    credential_of,
    salt_password,
)

_OPTION: Final = "--add-scram"
_WHOLE: Final = re.compile(r"\s*([A-Z0-9-]+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_PAIR: Final = re.compile(r'\s*([a-z]+)\s*=\s*(?:"([^"]*)"|([^,"\s\]]*))\s*(?:,|$)')
_KEYS: Final = ("name", "password", "salt", "iterations", "saltedpassword")
# As in Kafka's tool, so that the same line makes a user with the same cost.
_DEFAULT_ITERATIONS: Final = 4096


def parse_first_users(
    given: Sequence[str], metadata_version: int, dice: Dice
) -> tuple[UserScramCredentialRecord, ...]:
    if given and metadata_version < SCRAM_FROM:
        raise FormatRefused(f"{_OPTION} needs metadata.version {SCRAM_FROM} or newer")
    records = tuple(_record(text, dice) for text in given)
    named = [(record.name, record.mechanism) for record in records]
    if len(dict.fromkeys(named)) != len(named):
        raise FormatRefused(f"{_OPTION}: a user is named twice for one mechanism")
    return records


def _record(text: str, dice: Dice) -> UserScramCredentialRecord:
    whole = _WHOLE.fullmatch(text)
    mechanism = None if whole is None else SCRAM_BY_TEXT.get(whole[1])
    if whole is None or mechanism is None:
        raise FormatRefused(f"{_OPTION}: must be MECHANISM=[name=…,password=…]")
    options = _options(whole[2])
    name = options.get("name")
    if not name:
        raise FormatRefused(f"{_OPTION}: must have a name")
    if ("password" in options) == ("saltedpassword" in options):
        raise FormatRefused(f"{_OPTION}: must have one of password and saltedpassword")
    iterations = _iterations(options.get("iterations", str(_DEFAULT_ITERATIONS)))
    salt = _decoded(options["salt"]) if "salt" in options else dice.random_bytes(SALT_BYTES)
    salted = _salted(options, mechanism, salt, iterations)
    credential = credential_of(mechanism, salted, salt, iterations)
    return scram_record(name, mechanism, credential)


def _salted(
    options: dict[str, str], mechanism: ScramMechanism, salt: bytes, iterations: int
) -> bytes:
    if "password" in options:
        if not options["password"]:
            raise FormatRefused(f"{_OPTION}: the password is empty")
        return salt_password(mechanism, options["password"].encode(), salt, iterations)
    if "salt" not in options:
        raise FormatRefused(f"{_OPTION}: saltedpassword needs the salt that it was made with")
    salted = _decoded(options["saltedpassword"])
    if len(salted) != mechanism.digest_bytes:
        raise FormatRefused(f"{_OPTION}: saltedpassword must have {mechanism.digest_bytes} bytes")
    return salted


def _options(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None or pair[1] not in _KEYS or pair[1] in found:
            keys = ", ".join(_KEYS)
            raise FormatRefused(f"{_OPTION}: must have key=value pairs of {keys}, each once")
        found[pair[1]] = pair[3] if pair[2] is None else pair[2]
        position = pair.end()
    return found


def _iterations(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        reason = f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        raise FormatRefused(f"{_OPTION}: {reason}")
    return int(text)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FormatRefused(f"{_OPTION}: salts and salted passwords must be base64") from None
