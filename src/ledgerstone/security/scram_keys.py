"""What SCRAM keeps of a password, RFC 5802 section 3. Pure.

A broker stores a `ScramCredential` and never the password. Whoever has it can check logins, and
pretend to be the broker, but cannot log in.
"""

import enum
import hashlib
import hmac
import re
from typing import Final, NamedTuple

from ledgerstone.clock import Dice

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16_384
# Of users that are made without a number of their own. Kafka's tools take 4096.
DEFAULT_ITERATIONS: Final = 8192
SALT_BYTES: Final = 16
# Kafka's tools salt with the digits of a number of so many bits.
_KAFKAS_SALT_BITS: Final = 130
_KAFKAS_SALT: Final = re.compile(rb"[0-9a-z]{20,26}")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
# A client pays for iterations that a server names: no more than this (CVE-2026-10143).
MAX_ITERATIONS_OF_OTHERS: Final = 1_000_000


class ScramMechanism(enum.IntEnum):
    """The values are those of records and of the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def text(self) -> str:
        return _TEXTS[self]

    @property
    def hash_name(self) -> str:
        return _HASHES[self]

    @property
    def digest_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size


_TEXTS: Final = {
    ScramMechanism.SCRAM_SHA_256: "SCRAM-SHA-256",
    ScramMechanism.SCRAM_SHA_512: "SCRAM-SHA-512",
}
_HASHES: Final = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}
SCRAM_BY_TEXT: Final = {text: mechanism for mechanism, text in _TEXTS.items()}


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salt_password(
    mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int
) -> bytes:
    """Costly on purpose: a millisecond or more."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def client_key_of(mechanism: ScramMechanism, salted_password: bytes) -> bytes:
    return hmac.digest(salted_password, b"Client Key", mechanism.hash_name)


def server_key_of(mechanism: ScramMechanism, salted_password: bytes) -> bytes:
    return hmac.digest(salted_password, b"Server Key", mechanism.hash_name)


def stored_key_of(mechanism: ScramMechanism, client_key: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, client_key).digest()


def credential_of(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = client_key_of(mechanism, salted_password)
    return ScramCredential(
        salt,
        stored_key_of(mechanism, client_key),
        server_key_of(mechanism, salted_password),
        iterations,
    )


def new_credential(
    mechanism: ScramMechanism, password: str, dice: Dice, iterations: int = DEFAULT_ITERATIONS
) -> ScramCredential:
    salt = dice.random_bytes(SALT_BYTES)
    salted = salt_password(mechanism, password.encode(), salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


class ScramLooks(NamedTuple):
    """What a stranger sees of a credential, besides the salt itself. `salt_bytes` None: the salt is
    a text as Kafka's tools make it, 25 or 26 digits as a rule."""

    iterations: int
    salt_bytes: int | None = SALT_BYTES


def looks_of(salt: bytes, iterations: int) -> ScramLooks:
    return ScramLooks(iterations, None if _KAFKAS_SALT.fullmatch(salt) else len(salt))


def fake_credential(
    mechanism: ScramMechanism, name: str, secret: bytes, looks: ScramLooks
) -> ScramCredential:
    """Of a user that is not known: always the same, as a real one's, and no password fits it."""
    seed = f"{mechanism.text}\0{name}".encode()
    salt = hmac.digest(secret, seed, "sha512")
    if looks.salt_bytes is None:
        salt = _in_kafkas_digits(int.from_bytes(salt) >> (len(salt) * 8 - _KAFKAS_SALT_BITS))
    keys = hmac.digest(secret, b"\0keys" + seed, "sha512")
    size = mechanism.digest_bytes
    return ScramCredential(salt[: looks.salt_bytes], keys[:size], keys[:size], looks.iterations)


def _in_kafkas_digits(number: int) -> bytes:
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).encode()
