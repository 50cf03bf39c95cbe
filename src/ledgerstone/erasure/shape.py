"""Whether a value from outside is of the type it is declared to be, all the way down. Grade P.

JSON gives whatever was written. A number where a text belongs would be carried along and fail far
from here, so values that were made from a journal are looked at once, against their own types.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Final

_PLAIN: Final = (int, str, bytes, bool, float, type(None))


def check_shape(value: object, hint: object, path: str) -> None:
    """TypeError names the part that is of another type."""
    if hint in _PLAIN:
        # A bool is an int to Python, not to a reader of receipts.
        if type(value) is not hint:
            raise TypeError(f"{path} is {type(value).__name__}, not {hint}")
        return
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        _check_union(value, parts, path)
    elif origin is tuple:
        _check_tuple(value, parts, path)
    elif not isinstance(hint, type) or not isinstance(value, hint):
        raise TypeError(f"{path} is {type(value).__name__}, not {hint}")
    elif is_dataclass(value) or hasattr(value, "_fields"):
        for name, each in _hints(hint).items():
            check_shape(getattr(value, name), each, f"{path}.{name}")


def _check_union(value: object, parts: tuple[object, ...], path: str) -> None:
    for each in parts:
        try:
            check_shape(value, each, path)
        except TypeError:
            continue
        return
    raise TypeError(f"{path} is {type(value).__name__}, which it may not be")


def _check_tuple(value: object, parts: tuple[object, ...], path: str) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"{path} is {type(value).__name__}, not a list")
    if parts[-1] is Ellipsis:
        parts = parts[:1] * len(value)
    if len(parts) != len(value):
        raise TypeError(f"{path} has {len(value)} parts, not {len(parts)}")
    for index, (each, hint) in enumerate(zip(value, parts, strict=True)):
        check_shape(each, hint, f"{path}[{index}]")


@cache
def _hints(kind: type) -> Mapping[str, object]:
    return typing.get_type_hints(kind)
