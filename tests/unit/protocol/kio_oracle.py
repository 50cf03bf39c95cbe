"""Makes one random message twice, as ours and as kio's, so that their bytes can be compared.

kio has a class per version and wraps times, ids and error codes; values are chosen so that both
libraries can hold them.
"""

import datetime
import io
import random
import uuid
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ledgerstone.protocol.codec import spec_of
from ledgerstone.protocol.message import ZERO_UUID, Message
from ledgerstone.protocol.notation import FieldSpec, StructSpec

# Where our field names are not what kio makes of Kafka's.
# Apache Kafka does not know these; where they have their default they are not sent.
_FIRST_TAG_OF_OURS = 10_000
RENAMED: Final = {
    "enable_2pc": "enable2_pc",
    "kraft_version": "k_raft_version",
    "kraft_version_feature": "k_raft_version_feature",
    "id": "id_",
    "type": "type_",
}
RANGES: Final = {
    "i8": (-(2**7), 2**7 - 1), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1),
}  # fmt: skip
LETTERS: Final = "abcXYZ019._-äß€😀"
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Pair(NamedTuple):
    ours: Any
    theirs: Any


@cache
def kio_class(name: str, version: int, kind: str, api_key: int | None) -> Any:
    if kind == "request":
        return load_request_schema(api_key or 0, version)
    if kind == "response":
        return load_response_schema(api_key or 0, version)
    return load_entity_schema(name, version, EntityType.data)


@cache
def _hints(entity: Any) -> Mapping[str, Any]:
    return get_type_hints(entity)


@cache
def _kafka_types(entity: Any) -> Mapping[str, str]:
    return {each.name: each.metadata.get("kafka_type", "") for each in fields(entity)}


def kio_bytes(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_parse(entity_class: Any, data: bytes) -> Any:
    entity, size = entity_reader(entity_class)(data, 0)
    assert size == len(data)
    return entity


def random_pair(
    message_class: type[Message], theirs: Any, version: int, dice: random.Random
) -> Pair:
    module = __import__(message_class.__module__, fromlist=["_"])
    return _Maker(version, dice, vars(module)).struct(spec_of(message_class).root, theirs)


class _Maker:
    def __init__(self, version: int, dice: random.Random, classes: Mapping[str, Any]) -> None:
        self.version = version
        self.dice = dice
        self.classes = classes

    def struct(self, one: StructSpec, theirs: Any) -> Pair:
        ours_made: dict[str, Any] = {}
        theirs_made: dict[str, Any] = {}
        names = {each.name for each in fields(theirs)}
        for each in one.fields_in(self.version):
            if each.tag is not None and each.tag >= _FIRST_TAG_OF_OURS:
                continue
            name = RENAMED.get(each.name, each.name)
            if name not in names:
                name = each.name.removesuffix("_ms")
            names.remove(name)
            pair = self.field(each, theirs, name)
            ours_made[each.name], theirs_made[name] = pair
        assert not names, f"{one.name} v{self.version} has no {names}"
        return Pair(self.classes[one.name](**ours_made), theirs(**theirs_made))

    def field(self, each: FieldSpec, theirs: Any, name: str) -> Pair:
        hint = _hints(theirs)[name]
        if each.nullable.has(self.version) and self.dice.random() < 0.25:
            return Pair(None, None)
        if each.tag is not None and self.dice.random() < 0.4:
            return self.default_of(each, theirs, name)
        if each.is_array:
            inner = _element(hint)
            kind = _kafka_types(theirs)[name]
            pairs = [self.value(each, inner, kind) for _ in range(self.count(each))]
            return Pair([pair.ours for pair in pairs], tuple(pair.theirs for pair in pairs))
        pair = self.value(each, _plain(hint), _kafka_types(theirs)[name])
        if each.starts_absent and pair.ours == type(pair.ours)():
            return Pair(None, pair.theirs)  # not sent, so it cannot come back
        return pair

    def count(self, each: FieldSpec) -> int:
        if each.struct is None and self.dice.random() < 0.05:
            return self.dice.choice((127, 128, 300))
        return self.dice.choice((0, 1, 1, 2, 3))

    def default_of(self, each: FieldSpec, theirs: Any, name: str) -> Pair:
        found = next(f for f in fields(theirs) if f.name == name)
        if each.is_array:
            return Pair(None, None) if each.ever_null else Pair([], ())
        if each.struct is not None:
            inner = _plain(_hints(theirs)[name])
            kinds = _kafka_types(inner)
            missing = [f.name for f in fields(inner) if f.default is MISSING]
            return Pair(None, inner(**{n: "" if kinds[n] == "string" else 0 for n in missing}))
        if each.type == "uuid":
            return Pair(ZERO_UUID, None)
        if each.ever_null:
            return Pair(None, None)
        return Pair(each.default if each.default is not None else 0, found.default)

    def value(self, each: FieldSpec, theirs: Any, kind: str) -> Pair:
        if each.struct is not None:
            return self.struct(each.struct, theirs)
        if kind == "error_code":
            code = self.dice.choice(list(ErrorCode))
            return Pair(int(code), code)
        if kind.startswith("timedelta"):
            ms = self.dice.randrange(-(2**31), 2**31)
            return Pair(ms, datetime.timedelta(milliseconds=ms))
        if kind.startswith("datetime"):
            seconds = self.dice.randrange(0, 2**32)
            return Pair(seconds * 1000, EPOCH + datetime.timedelta(seconds=seconds))
        return self.primitive(each.type)

    def primitive(self, kind: str) -> Pair:
        dice = self.dice
        match kind:
            case "bool":
                flag = dice.random() < 0.5
                return Pair(flag, flag)
            case "f64":
                number = dice.uniform(-1e9, 1e9)
                return Pair(number, number)
            case "uuid":
                raw = dice.randbytes(16) if dice.random() < 0.8 else ZERO_UUID
                return Pair(raw, None if raw == ZERO_UUID else uuid.UUID(bytes=raw))
            case "str":
                text = "".join(dice.choices(LETTERS, k=dice.choice((0, 1, 5, 20, 126, 200))))
                return Pair(text, text)
            case "bytes" | "records":
                data = dice.randbytes(dice.choice((0, 1, 126, 127, 128, 20_000)))
                return Pair(data, data)
        low, high = RANGES[kind]
        number = dice.choice((0, 1, -1, low, high, dice.randint(low, high)))
        number = min(max(number, low), high)
        return Pair(number, number)


def _plain(hint: Any) -> Any:
    """The type without its "or null", and without the element of a tuple taken out."""
    if get_origin(hint) in (Union, UnionType):
        return next(each for each in get_args(hint) if each is not NoneType)
    return hint


def _element(hint: Any) -> Any:
    return _plain(get_args(_plain(hint))[0])
