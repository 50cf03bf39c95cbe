"""Messages to bytes and back. Pure. The rules are in README.md.

A codec is compiled for one message class and version on first use and kept for the life of the
process; compiling takes a few milliseconds. Records fields are decoded to memoryviews of the frame;
to encode, they may be anything with a size.
"""

import struct
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import CodeType, TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from ledgerstone.errors import InvariantViolation, UnsupportedVersion
from ledgerstone.protocol.decoding import Decode, DecoderSource
from ledgerstone.protocol.encoding import Encode, EncoderSource
from ledgerstone.protocol.message import ApiMessage, Message
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.notation import MessageSpec, Schema, parse
from ledgerstone.protocol.pieces import Piece, join_pieces
from ledgerstone.protocol.source import has_records
from ledgerstone.protocol.wire import BrokenBytes, MalformedMessage
from ledgerstone.types import Buffer

M = TypeVar("M", bound=Message)

_BROKEN = (BrokenBytes, IndexError, struct.error, UnicodeDecodeError)
_UNSENDABLE = (struct.error, AttributeError, TypeError, UnicodeEncodeError, IndexError)


class Decoder(NamedTuple):
    name: str
    version: int
    decode: Decode
    subjects: list[str]
    from_view: bool


class Encoder(NamedTuple):
    encode: Encode
    subjects: list[str]
    by_reference: bool


@cache
def schema_of(module_name: str) -> Schema:
    return parse(sys.modules[module_name].SCHEMA, module_name)


def _find_spec(message_class: type) -> MessageSpec:
    for spec in schema_of(message_class.__module__).messages:
        if spec.name == message_class.__name__:
            return spec
    raise InvariantViolation(f"{message_class.__name__} has no schema")


spec_of: Final[Callable[[type], MessageSpec]] = cache(_find_spec)


def _checked_spec(message_class: type, version: int) -> MessageSpec:
    spec = spec_of(message_class)
    if not spec.versions.has(version):
        known = f"v{spec.versions.first}-{spec.versions.last}"
        raise UnsupportedVersion(f"{spec.name} v{version}: known versions are {known}")
    return spec


def _make_decoder(message_class: type, version: int) -> Decoder:
    spec = _checked_spec(message_class, version)
    source = DecoderSource(spec, version, vars(sys.modules[message_class.__module__]))
    return Decoder(spec.name, version, source.build(), source.out.subjects, source.from_view)


def _make_encoder(message_class: type, version: int) -> Encoder:
    spec = _checked_spec(message_class, version)
    source = EncoderSource(spec, version, vars(sys.modules[message_class.__module__]))
    return Encoder(source.build(), source.out.subjects, has_records(spec.root, version))


# Declared as plain callables: to mypy, classes whose instances define equality are unhashable.
decoder_of: Final[Callable[[type, int], Decoder]] = cache(_make_decoder)
encoder_of: Final[Callable[[type, int], Encoder]] = cache(_make_encoder)


@cache
def api_class(api_key: int, side: str) -> type[ApiMessage]:
    """The class of an API's "Request" or "Response"; its module is imported on first use."""
    api = APIS.get(api_key)
    if api is None or api.module is None:
        raise UnsupportedVersion(f"api key {api_key} is not supported")
    module = import_module(f"ledgerstone.protocol.messages.{api.module}")
    found: type[ApiMessage] = getattr(module, api.name + side)
    return found


@cache
def _api_decoder(api_key: int, side: str, version: int) -> Decoder:
    return decoder_of(api_class(api_key, side), version)


def decode(message_class: type[M], version: int, data: Buffer, position: int = 0) -> tuple[M, int]:
    """The message, and where it ends. Bytes after it are left to the caller."""
    return _decode(decoder_of(message_class, version), data, position)


def _decode(decoder: Decoder, data: Buffer, position: int) -> tuple[Any, int]:
    if decoder.from_view:
        source: Buffer = data if isinstance(data, memoryview) else memoryview(data)
    else:
        source = data.tobytes() if isinstance(data, memoryview) else bytes(data)
    try:
        return decoder.decode(source, position)
    except _BROKEN as error:
        field, at = _locate(error, decoder.decode, decoder.subjects)
        reason = str(error) or type(error).__name__
        raise MalformedMessage(decoder.name, decoder.version, field, at, reason) from None


def encode(message: Message, version: int) -> list[Piece]:
    encoder = encoder_of(type(message), version)
    try:
        parts = encoder.encode(message)
    except _UNSENDABLE as error:
        field, _ = _locate(error, encoder.encode, encoder.subjects)
        name = type(message).__name__
        raise InvariantViolation(f"{name} v{version}, field {field}: {error}") from error
    if encoder.by_reference:
        return join_pieces(parts)
    return [b"".join(parts)]  # type: ignore[arg-type]  # without records every part is bytes


def decode_request(api_key: int, api_version: int, view: Buffer, position: int = 0) -> ApiMessage:
    message: ApiMessage
    message, _ = _decode(_api_decoder(api_key, "Request", api_version), view, position)
    return message


def decode_response(api_key: int, api_version: int, view: Buffer, position: int = 0) -> ApiMessage:
    message: ApiMessage
    message, _ = _decode(_api_decoder(api_key, "Response", api_version), view, position)
    return message


encode_request = encode
encode_response = encode


def _locate(
    error: BaseException, function: Callable[..., Any], subjects: list[str]
) -> tuple[str, int]:
    """The field at which compiled code failed, and its position in the bytes."""
    code: CodeType = function.__code__
    at: TracebackType | None = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code is code:
            return subjects[at.tb_lineno - 1], at.tb_frame.f_locals.get("pos", 0)
        at = at.tb_next
    return "unknown", 0
