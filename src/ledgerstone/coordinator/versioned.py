"""Keys and values of a coordinator's records: two bytes for the version, then the message. Pure."""

import struct
from typing import Final, TypeVar

from ledgerstone.errors import CorruptRecord, UnsupportedVersion
from ledgerstone.protocol.codec import decode, encode
from ledgerstone.protocol.message import Message
from ledgerstone.protocol.wire import MalformedMessage

_VERSION: Final = struct.Struct(">h")
VERSION_BYTES: Final = _VERSION.size

M = TypeVar("M", bound=Message)


def versioned(message: Message, version: int) -> bytes:
    (body,) = encode(message, version)
    assert isinstance(body, bytes), "no record has records in it"
    return _VERSION.pack(version) + body


def version_of(data: bytes, what: str) -> int:
    if len(data) < _VERSION.size:
        raise CorruptRecord(f"a {what} of {len(data)} bytes has no version: {data.hex()}")
    version: int
    (version,) = _VERSION.unpack_from(data)
    return version


def body_of(message_class: type[M], data: bytes) -> M:
    try:
        message, _ = decode(
            message_class, version_of(data, message_class.__name__), data, _VERSION.size
        )
    except (MalformedMessage, UnsupportedVersion) as error:
        raise CorruptRecord(f"{error}: {data[:64].hex()}") from error
    return message
