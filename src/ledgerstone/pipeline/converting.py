"""Converts a decoded value, a Python object, to its column's type, or says why it cannot. Pure.

Strict on purpose: a number that would lose digits, or text where a number is expected, is a bad
record today rather than a wrong total next year.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from ledgerstone.pipeline.column_types import ColumnType, DecimalType
from ledgerstone.pipeline.definition import Column

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
# A decimal number with at most this many digits survives a round trip through float64.
_FLOAT_DIGITS: Final = 15
_DECIMAL_TEXT: Final = 100


class Unfit(ValueError):
    """The value does not fit its column."""


def find(content: object, path: tuple[str, ...]) -> object:
    """The value at the end of the path; None if the path ends early."""
    for name in path:
        if not isinstance(content, Mapping):
            if content is None:
                return None
            raise Unfit(f"{'.'.join(path)}: {_kind(content)} has no field {name!r}")
        content = content.get(name)
    return content


def convert(column: Column, value: object) -> Any:  # noqa: ANN401 - as the column has it
    if value is None:
        return None
    try:
        if isinstance(column.type, DecimalType):
            return _decimal(value, column.type)
        return _CONVERTERS[column.type](value)
    except (ValueError, OverflowError) as error:
        raise Unfit(f"column {column.name}: {error}") from None


def _integer(bound: int) -> Callable[[object], int]:
    def convert_integer(value: object) -> int:
        if type(value) is not int or not -bound <= value < bound:
            raise Unfit(f"{value!r:.40} is not a whole number of {bound.bit_length()} bits")
        return value

    return convert_integer


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit(f"{_kind(value)} is not a number")
    converted = float(value)
    if isinstance(value, int) and converted != value:
        raise Unfit(f"{value} loses digits as float64")
    return converted


def _decimal(value: object, kind: DecimalType) -> Decimal:
    number = _exact(value)
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise Unfit(f"{value!r:.40} is not a number")
    if not any(digits):
        return Decimal((0, (0,), -kind.scale))
    if len(digits) + exponent > kind.precision - kind.scale:
        raise Unfit(f"{value!r:.40} is too large for {kind.value}")
    if exponent < -kind.scale and any(digits[kind.scale + exponent :]):
        raise Unfit(f"{value!r:.40} has more than {kind.scale} digits after the point")
    # Without a decimal context, which would round: a number may have 38 digits.
    shifted = int("".join(map(str, digits))) * 10 ** max(0, kind.scale + exponent)
    shifted //= 10 ** max(0, -kind.scale - exponent)
    return Decimal((sign, tuple(map(int, str(shifted))), -kind.scale))


def _exact(value: object) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unfit(f"{_kind(value)} is not a number")
    text = str(value).strip()
    if len(text) > _DECIMAL_TEXT:
        raise Unfit(f"{text:.40}… is too long for a number")
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Unfit(f"{text!r:.40} is not a number") from None
    if isinstance(value, float) and len(number.normalize().as_tuple().digits) > _FLOAT_DIGITS:
        raise Unfit(f"{text} may have lost digits; write such a number as text")
    return number


def _text(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise Unfit(f"{_kind(value)} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit("the text contains a lone surrogate") from None
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit(f"{_kind(value)} is not true or false")
    return value


def _binary(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Unfit(f"{_kind(value)} is not base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Unfit("text is not base64") from None


def _timestamp(value: object) -> datetime:
    if isinstance(value, datetime):
        moment = value
    elif type(value) is int:
        moment = _EPOCH + timedelta(milliseconds=value)
    else:
        moment = datetime.fromisoformat(_text(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _date(value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return date.fromisoformat(_text(value))


def _time(value: object) -> str:
    """Always with six digits, so that texts sort like times."""
    found = value if isinstance(value, time) else time.fromisoformat(_text(value))
    if found.tzinfo is not None:
        raise Unfit("a time of day has no time zone")
    return found.isoformat("microseconds")


def _json(value: object) -> str:
    return _text(json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain))


def _plain(value: object) -> str:
    """Types that Avro has and JSON lacks."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)


def _kind(value: object) -> str:
    return f"{value!r:.40}" if isinstance(value, int | float | str) else type(value).__name__


def strict_json(text: str) -> object:
    """Strict JSON: no NaN, no Infinity."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise Unfit("nested too deeply") from None


def _refuse_constant(name: str) -> float:
    raise Unfit(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Unfit(f"{text:.40} is too large")
    return number


_CONVERTERS: Final[Mapping[ColumnType, Callable[[object], Any]]] = {
    ColumnType.STRING: _text,
    ColumnType.INT32: _integer(_INT32),
    ColumnType.INT64: _integer(_INT64),
    ColumnType.FLOAT64: _float,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.BINARY: _binary,
    ColumnType.TIMESTAMP: _timestamp,
    ColumnType.DATE: _date,
    ColumnType.TIME: _time,
    ColumnType.JSON: _json,
}
