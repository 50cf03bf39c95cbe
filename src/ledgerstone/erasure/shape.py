"""Whether a value from outside is of the type it is declared to be, all the way down. Grade P.

JSON gives whatever was written. A number where a text belongs would be carried along and fail far
from here, so values that were made from a journal are looked at once, against their own types. A
journal may hold very many, so what there is to look at is found out once for each type.
"""

import types
import typing
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Final

from ledgerstone.dataclasses import is_dataclass

_PLAIN: Final = (int, str, bytes, bool, float, type(None))
# Says where a value is wrong and what it is, or None.
_Check = Callable[[object], str | None]


def check_shape(value: object, hint: Hashable) -> None:
    """TypeError names the part that is of another type."""
    problem = _check_of(hint)(value)
    if problem is not None:
        raise TypeError(problem.removeprefix("."))


@cache
def _check_of(hint: Hashable) -> _Check:
    if hint in _PLAIN:
        # A bool is an int to Python, not to a reader of receipts.
        return lambda value: None if type(value) is hint else _is_not(value, hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union([_check_of(each) for each in parts])
    if origin is tuple and parts[-1] is Ellipsis:
        return _list_of(_check_of(parts[0]))
    if origin is tuple:
        return _tuple([_check_of(each) for each in parts])
    assert isinstance(hint, type), hint
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _fields(hint)
    return lambda value: None if isinstance(value, hint) else _is_not(value, hint)


def _fields(kind: type) -> _Check:
    checks = [(name, _check_of(each)) for name, each in typing.get_type_hints(kind).items()]

    def check(value: object) -> str | None:
        if type(value) is not kind:
            return _is_not(value, kind)
        for name, check_field in checks:
            problem = check_field(getattr(value, name))
            if problem is not None:
                return f".{name}{problem}"
        return None

    return check


def _union(checks: Sequence[_Check]) -> _Check:
    def check(value: object) -> str | None:
        problems = [each(value) for each in checks]
        return None if None in problems else problems[0]

    return check


def _list_of(check_each: _Check) -> _Check:
    def check(value: object) -> str | None:
        if not isinstance(value, tuple):
            return _is_not(value, tuple)
        for index, each in enumerate(value):
            problem = check_each(each)
            if problem is not None:
                return f"[{index}]{problem}"
        return None

    return check


def _tuple(checks: Sequence[_Check]) -> _Check:
    def check(value: object) -> str | None:
        if not isinstance(value, tuple) or len(value) != len(checks):
            return _is_not(value, tuple)
        problems = (each(part) for each, part in zip(checks, value, strict=True))
        return next((problem for problem in problems if problem is not None), None)

    return check


def _is_not(value: object, kind: object) -> str:
    return f" is {type(value).__name__}, not {getattr(kind, '__name__', kind)}"
