"""Ids of topics and directories: 16 bytes, written as 22 characters of URL-safe base64. Pure.

The bytes are what the wire carries, the text is what files hold.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from ledgerstone.clock import Dice

UUID_BYTES: Final = 16
ZERO_UUID: Final = bytes(UUID_BYTES)

# Sixteen bytes fill 21 characters and two bits: the last character has four free bits, all zero.
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")


def uuid_to_text(uuid: bytes) -> str:
    if len(uuid) != UUID_BYTES:
        raise ValueError(f"a uuid has {UUID_BYTES} bytes, not {len(uuid)}")
    return urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> bytes:
    if _UUID_TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a uuid of 22 base64url characters")
    return urlsafe_b64decode(text + "==")


def random_uuid(dice: Dice) -> bytes:
    """A version 4 uuid, hence never one of the small ones with a special meaning."""
    while True:
        drawn = bytearray(dice.random_bytes(UUID_BYTES))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        # A leading dash would look like an option on a command line.
        if not uuid_to_text(bytes(drawn)).startswith("-"):
            return bytes(drawn)
