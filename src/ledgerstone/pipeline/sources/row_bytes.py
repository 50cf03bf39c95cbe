"""Rows of a database as keys and values of records. Pure.

The same row always gives the same bytes: comparing them finds changes. Keys of one column may be
plain text; everything else is JSON with sorted names. Types that JSON lacks become text: bytes in
base64, decimals with all digits, times in ISO 8601.
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

DIGEST_BYTES: Final = 16


class KeyFormat(Enum):
    STRING = "string"
    JSON = "json"


def key_bytes(names: Sequence[str], values: Sequence[object], key_format: KeyFormat) -> bytes:
    """A key column must not be null: such a row could not be found again."""
    for name, value in zip(names, values, strict=True):
        if value is None:
            raise ValueError(f"key column {name!r} is null")
    if key_format is KeyFormat.STRING:
        return _text(values[0]).encode("utf-8", "surrogatepass")
    return value_bytes(dict(zip(names, values, strict=True)))


def value_bytes(row: Mapping[str, object]) -> bytes:
    text = json.dumps(
        {name: _plain(value) for name, value in row.items()},
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return text.encode("utf-8", "surrogatepass")


def digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=DIGEST_BYTES).digest()


def version_text(version: object) -> str | None:
    return None if version is None else _text(version)


def _text(value: object) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, sort_keys=True)


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a driver returns
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            # NaN and the infinities are no JSON.
            return value if value - value == 0 else str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case uuid.UUID():
            return str(value)
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return str(value)
