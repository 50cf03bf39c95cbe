"""Protobuf values: with a set of descriptors, or with the schema a registry has for each. Pure.

With a registry, a value begins as Confluent's serializers write it: a zero byte, the id of its
schema in four bytes, and which message of the file it is. Fields that the schema lacks are left
out. A field without presence that is not there has its default, as Protobuf defines it; a field
with presence, and everything in a message that is not there, is null.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ledgerstone.pipeline.codecs_avro import SchemaOf
from ledgerstone.pipeline.converting import Unfit
from ledgerstone.pipeline.definition import ColumnCodec
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.protobuf_schema import TIMESTAMP, is_wrapper, message_of_set

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PREFIX_BYTES: Final = 5
_MAX_NESTING: Final = 20
_MAX_VARINT: Final = 10


class RegisteredFile(NamedTuple):
    """A schema of a registry: a file, whose messages are named by their place in it."""

    pool: Any
    file: Any  # its FileDescriptorProto
    # Whether the entries of maps are messages of its text. They are where a serializer registered
    # its own descriptors, and are not where somebody registered what they wrote.
    names_entries: bool

    def message(self, indexes: list[int]) -> Any:  # noqa: ANN401 - a class of the library
        messages, name = self.file.message_type, self.file.package
        for index in indexes:
            if not 0 <= index < len(messages):
                raise Unfit(f"the schema has no message {indexes}")
            name = f"{name}.{messages[index].name}".lstrip(".")
            inner = messages[index].nested_type
            messages = [each for each in inner if self.names_entries or not each.options.map_entry]
        return GetMessageClass(self.pool.FindMessageTypeByName(name))


def protobuf_parser(codec: ColumnCodec, schema_of: SchemaOf | None) -> Callable[[bytes], object]:
    if codec.descriptors is not None:
        assert codec.message is not None, "descriptors without a message"
        kind = message_of_set(codec.descriptors, codec.message)
        return lambda cell: _content(_read(cell, kind))
    assert codec.registry is not None, "Protobuf without descriptors and without registry"
    registry, ask = codec.registry, schema_of
    if ask is None:
        raise PipelineError(f"the schema registry at {registry} is not available here")

    def parse(cell: bytes) -> object:
        if len(cell) <= _PREFIX_BYTES or cell[0] != 0:
            raise Unfit(f"does not begin with a schema id but with 0x{cell[:5].hex()}")
        number = int.from_bytes(cell[1:_PREFIX_BYTES], "big")
        indexes, start = _indexes(cell)
        file = ask(registry, number)
        if not isinstance(file, RegisteredFile):
            raise Unfit(f"schema {number} of the registry is not one of Protobuf")
        return _content(_read(cell[start:], file.message(indexes)))

    return parse


def _indexes(cell: bytes) -> tuple[list[int], int]:
    """Which message, and where it begins. A single zero stands for the first message."""
    count, at = _varint(cell, _PREFIX_BYTES)
    if not 0 <= count <= _MAX_NESTING:
        raise Unfit(f"names a message by {count} numbers")
    found = []
    for _ in range(count):
        index, at = _varint(cell, at)
        found.append(index)
    return found or [0], at


def _varint(cell: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT):
        if at >= len(cell):
            break
        byte = cell[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Unfit("ends within the numbers of its message")


def _read(cell: bytes, kind: Any) -> Any:  # noqa: ANN401 - a message of the library
    try:
        message = kind.FromString(cell)
    except DecodeError as error:
        raise Unfit(f"is not a {kind.DESCRIPTOR.full_name}: {error}") from None
    if not message.IsInitialized():
        raise Unfit(f"lacks required fields of {kind.DESCRIPTOR.full_name}")
    return message


def _content(message: Any) -> dict[str, Any]:  # noqa: ANN401 - a message of the library
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _field(field, getattr(message, field.name))
    return found


def _field(field: Any, value: Any) -> Any:  # noqa: ANN401 - a descriptor, and what it has
    if not field.is_repeated:
        return _single(field, value)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of_value = entry.fields_by_name["value"]
        return {_map_key(key): _single(of_value, value[key]) for key in value}
    return [_single(field, each) for each in value]


def _map_key(key: object) -> str:
    """As Protobuf's JSON has it."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _single(field: Any, value: Any) -> Any:  # noqa: ANN401 - a descriptor, and a value
    if field.type == FieldDescriptorProto.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is None:
        return value
    if field.message_type.full_name == TIMESTAMP:
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return value.value if is_wrapper(field.message_type) else _content(value)
