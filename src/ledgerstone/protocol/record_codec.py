"""Records of the metadata log and of the coordinator logs to bytes and back. Pure.

| record | bytes |
|---|---|
| metadata | uvarint 1 (frame version), uvarint type, uvarint version, body |
| coordinator key | i16 type, body; the type is the version of the key's schema |
| coordinator value | i16 version, body; a null value is a tombstone and never gets here |
"""

import struct
import sys
from functools import cache
from types import ModuleType
from typing import Final, TypeVar

from ledgerstone.errors import LedgerstoneError, UnsupportedVersion
from ledgerstone.protocol.codec import decode, encode, schema_of
from ledgerstone.protocol.message import Message, MetadataRecord
from ledgerstone.protocol.messages import metadata_records
from ledgerstone.protocol.wire import BrokenBytes, MalformedMessage, read_uvarint, uvarint
from ledgerstone.types import Buffer

METADATA_FRAME_VERSION: Final = 1
_PREFIX: Final = struct.Struct(">h")

V = TypeVar("V", bound=Message)


class UnknownRecord(LedgerstoneError):
    """A record that only a newer release can have written. The reader decides what to do."""


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    prefix = uvarint(METADATA_FRAME_VERSION) + uvarint(record.record_type) + uvarint(version)
    return prefix + _body(record, version)


def decode_metadata_record(data: Buffer) -> MetadataRecord:
    try:
        frame_version, position = read_uvarint(data, 0)
        record_type, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except (IndexError, BrokenBytes) as error:
        raise MalformedMessage("metadata record", 0, "frame", 0, str(error)) from None
    if frame_version != METADATA_FRAME_VERSION:
        raise UnknownRecord(f"metadata record of frame version {frame_version}")
    record_class = _metadata_classes().get(record_type)
    if record_class is None:
        raise UnknownRecord(f"metadata record of type {record_type} v{version}")
    return _decode_known(record_class, version, data, position)


def encode_record_key(key: Message, version: int) -> bytes:
    return _PREFIX.pack(version) + _body(key, version)


def decode_record_key(family: ModuleType, data: Buffer) -> Message:
    """The key, as one of the key classes of `family`: group_records or txn_records."""
    version = _prefix_of(data, "record key")
    key_class = _key_classes(family.__name__).get(version)
    if key_class is None:
        raise UnknownRecord(f"{family.__name__.rpartition('.')[2]} has no key of type {version}")
    return _decode_known(key_class, version, data, _PREFIX.size)


def encode_record_value(value: Message, version: int) -> bytes:
    return _PREFIX.pack(version) + _body(value, version)


def decode_record_value(value_class: type[V], data: Buffer) -> V:
    version = _prefix_of(data, value_class.__name__)
    return _decode_known(value_class, version, data, _PREFIX.size)


def _decode_known(message_class: type[V], version: int, data: Buffer, position: int) -> V:
    try:
        message, _ = decode(message_class, version, data, position)
    except UnsupportedVersion as error:
        raise UnknownRecord(str(error)) from None
    return message


def _body(message: Message, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]  # no record holds records


def _prefix_of(data: Buffer, name: str) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedMessage(name, 0, "version", 0, f"{len(data)} bytes")
    prefix: int = _PREFIX.unpack_from(data)[0]
    return prefix


@cache
def _metadata_classes() -> dict[int, type[MetadataRecord]]:
    classes = [
        getattr(metadata_records, spec.name)
        for spec in schema_of(metadata_records.__name__).messages
    ]
    return {each.record_type: each for each in classes}


@cache
def _key_classes(family_name: str) -> dict[int, type[Message]]:
    module = sys.modules[family_name]
    found: dict[int, type[Message]] = {}
    for spec in schema_of(family_name).messages:
        if spec.kind == "key":
            for record_type in range(spec.versions.first, spec.versions.last + 1):
                found[record_type] = getattr(module, spec.name)
    return found
