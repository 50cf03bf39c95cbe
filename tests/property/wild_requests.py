"""Requests that are well formed and mean anything: known and unknown names, edges of every number.

Random messages of `tests.unit.protocol` name topics that nobody has; these get past the first
question a handler asks.
"""

import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledgerstone.protocol.codec import api_class, spec_of
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.notation import FieldSpec, StructSpec
from tests.unit.protocol.random_messages import RANGES

NAMES: Final = (
    "events", "events", "compacted", "other", "new.topic", "new_topic", "__consumer_offsets",
    "__cluster_metadata", "group", "group", "member", "", ".", "a/b", "näme", "1", "consumer",
    "range", "cleanup.policy", "retention.ms", "compact", "-1", "x" * 250, "y" * 32_767,
)  # fmt: skip
SMALL: Final = (-5, -4, -3, -2, -1, -1, 0, 0, 0, 1, 1, 2, 3, 5, 30_000)


class Wild:
    """Draws from `dice`; `uuids` and `blobs` are values that exist in the broker asked."""

    def __init__(
        self, dice: random.Random, uuids: Sequence[bytes] = (), blobs: Sequence[bytes] = ()
    ) -> None:
        self._dice = dice
        self._uuids = (bytes(16), *uuids)
        self._blobs = (b"", b"\x00" * 61, *blobs)

    def request(self, api_key: int, version: int) -> ApiMessage:
        message_class = api_class(api_key, "Request")
        classes = vars(sys.modules[message_class.__module__])
        message: ApiMessage = self._struct(spec_of(message_class).root, version, classes)
        return message

    def _struct(self, one: StructSpec, version: int, classes: Mapping[str, Any]) -> Any:
        values = {each.name: self._field(each, version, classes) for each in one.fields_in(version)}
        return classes[one.name](**values)

    def _field(self, each: FieldSpec, version: int, classes: Mapping[str, Any]) -> Any:
        if each.nullable.has(version) and self._dice.random() < 0.25:
            return None
        if each.is_array:
            count = self._dice.choice((0, 1, 1, 2, 3))
            return [self._value(each, version, classes) for _ in range(count)]
        value = self._value(each, version, classes)
        if each.starts_absent and value == type(value)():
            return None
        return value

    def _value(self, each: FieldSpec, version: int, classes: Mapping[str, Any]) -> Any:
        if each.struct is not None:
            return self._struct(each.struct, version, classes)
        dice = self._dice
        match each.type:
            case "bool":
                return dice.random() < 0.5
            case "f64":
                return dice.choice((0.0, -1.0, float("inf"), float("nan"), 1e300))
            case "uuid":
                return dice.choice(self._uuids) if dice.random() < 0.8 else dice.randbytes(16)
            case "str":
                return dice.choice(NAMES)
            case "bytes" | "records":
                return bytearray(dice.choice(self._blobs))
        low, high = RANGES[each.type]
        if dice.random() < 0.7:
            return min(max(dice.choice(SMALL), low), high)
        return dice.choice((low, high, dice.randint(low, high)))
