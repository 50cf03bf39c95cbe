"""Descriptors of Protobuf messages, and the columns of a message: nested ones flattened. Pure.

A field `city` of a message `address` becomes the column `address_city`, as with Avro. What has no
column type, repeated fields, maps and messages that contain themselves, becomes JSON text. Every
number fits its column: a uint64 is a decimal(20,0).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType
from ledgerstone.pipeline.definition import Column

TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPER: Final = "google.protobuf."
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in (
        *("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"),
    )
)
# Files that every compiler brings along, and that many sets of descriptors leave out.
_KNOWN_FILES: Final = {
    each.DESCRIPTOR.name: each.DESCRIPTOR.serialized_pb
    for each in (
        *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2),
        *(timestamp_pb2, wrappers_pb2),
    )
}
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final[dict[int, AnyType]] = {
    _FIELD.TYPE_DOUBLE: ColumnType.FLOAT64,
    _FIELD.TYPE_FLOAT: ColumnType.FLOAT64,
    _FIELD.TYPE_INT32: ColumnType.INT32,
    _FIELD.TYPE_SINT32: ColumnType.INT32,
    _FIELD.TYPE_SFIXED32: ColumnType.INT32,
    _FIELD.TYPE_UINT32: ColumnType.INT64,
    _FIELD.TYPE_FIXED32: ColumnType.INT64,
    _FIELD.TYPE_INT64: ColumnType.INT64,
    _FIELD.TYPE_SINT64: ColumnType.INT64,
    _FIELD.TYPE_SFIXED64: ColumnType.INT64,
    _FIELD.TYPE_UINT64: DecimalType(20, 0),
    _FIELD.TYPE_FIXED64: DecimalType(20, 0),
    _FIELD.TYPE_BOOL: ColumnType.BOOLEAN,
    _FIELD.TYPE_STRING: ColumnType.STRING,
    _FIELD.TYPE_BYTES: ColumnType.BINARY,
    _FIELD.TYPE_ENUM: ColumnType.STRING,
}


def is_wrapper(message: Any) -> bool:  # noqa: ANN401 - a descriptor of the library
    """A scalar that may be null."""
    return message.full_name in _WRAPPERS


def message_of_set(content: bytes, name: str) -> Any:  # noqa: ANN401 - a class of the library
    """The class of a message in a set of descriptors, as protoc writes it. Raises ValueError."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    except DecodeError:
        files = ()
    if not files:
        raise ValueError(
            "not a set of descriptors; make one with "
            "protoc --include_imports --descriptor_set_out=FILE.desc FILE.proto"
        )
    pool = pool_of(files)
    try:
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        names = ", ".join(_names(files))
        raise ValueError(f"there is no message {name}; there are {names}") from None


def _names(files: Sequence[Any]) -> Iterator[str]:
    for file in files:
        if file.name not in _KNOWN_FILES:
            for message in file.message_type:
                yield f"{file.package}.{message.name}".lstrip(".")


def pool_of(files: Sequence[Any]) -> DescriptorPool:
    """Of these files and those they import. Raises ValueError if one is missing."""
    pool = DescriptorPool()
    left = {file.name: file.SerializeToString() for file in files}
    known: set[str] = set()

    def add(name: str, by: str) -> None:
        if name in known:
            return
        known.add(name)
        content = left.get(name) or _KNOWN_FILES.get(name)
        if content is None:
            raise ValueError(f"{by} imports {name}, which is missing; use --include_imports")
        for each in descriptor_pb2.FileDescriptorProto.FromString(content).dependency:
            add(each, name)
        try:
            pool.AddSerializedFile(content)
        except TypeError as error:
            raise ValueError(f"{name}: {error}") from None

    for file in files:
        add(file.name, file.name)
    return pool


def columns_of_message(message: Any) -> tuple[Column, ...]:  # noqa: ANN401 - a class
    return tuple(_columns(message.DESCRIPTOR, (), ()))


def _columns(
    message: Any,  # noqa: ANN401 - a descriptor of the library
    path: tuple[str, ...],
    inside: tuple[str, ...],
) -> Iterator[Column]:
    inside = (*inside, message.full_name)
    for field in message.fields:
        here = (*path, field.name)
        if _is_flattened(field, inside):
            yield from _columns(field.message_type, here, inside)
        else:
            yield Column(name="_".join(here), type=_type_of(field), path=here)


def _is_flattened(field: Any, inside: tuple[str, ...]) -> bool:  # noqa: ANN401 - a descriptor
    if field.is_repeated or field.type != _FIELD.TYPE_MESSAGE:
        return False
    name = field.message_type.full_name
    return name not in inside and not name.startswith(_WRAPPER) and bool(field.message_type.fields)


def _type_of(field: Any) -> AnyType:  # noqa: ANN401 - a descriptor of the library
    if field.is_repeated:
        return ColumnType.JSON
    if field.type == _FIELD.TYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return ColumnType.TIMESTAMP
        if is_wrapper(field.message_type):
            return _SCALARS[field.message_type.fields[0].type]
    return _SCALARS.get(field.type, ColumnType.JSON)
