"""Random messages of our own classes, for tests that need a message rather than a meaning."""

import random
import sys
from collections.abc import Mapping
from typing import Any

from ledgerstone.protocol.codec import spec_of
from ledgerstone.protocol.notation import FieldSpec, StructSpec

RANGES = {
    "i8": (-(2**7), 2**7 - 1), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1),
}  # fmt: skip


def random_message(message_class: type, version: int, dice: random.Random) -> Any:
    classes = vars(sys.modules[message_class.__module__])
    return _struct(spec_of(message_class).root, version, dice, classes)


def _struct(one: StructSpec, version: int, dice: random.Random, classes: Mapping[str, Any]) -> Any:
    values = {each.name: _field(each, version, dice, classes) for each in one.fields_in(version)}
    return classes[one.name](**values)


def _field(each: FieldSpec, version: int, dice: random.Random, classes: Mapping[str, Any]) -> Any:
    if each.nullable.has(version) and dice.random() < 0.25:
        return None
    if each.is_array:
        return [_value(each, version, dice, classes) for _ in range(dice.choice((0, 1, 2, 3)))]
    value = _value(each, version, dice, classes)
    if each.starts_absent and value == type(value)():
        return None
    return value


def _value(each: FieldSpec, version: int, dice: random.Random, classes: Mapping[str, Any]) -> Any:
    if each.struct is not None:
        return _struct(each.struct, version, dice, classes)
    match each.type:
        case "bool":
            return dice.random() < 0.5
        case "f64":
            return dice.uniform(-1e9, 1e9)
        case "uuid":
            return dice.randbytes(16)
        case "str":
            return "".join(dice.choices("abcäß€", k=dice.choice((0, 1, 20, 130))))
        case "bytes" | "records":
            return dice.randbytes(dice.choice((0, 1, 130)))
    low, high = RANGES[each.type]
    return dice.choice((0 if low else 1, low, high, dice.randint(low, high)))
