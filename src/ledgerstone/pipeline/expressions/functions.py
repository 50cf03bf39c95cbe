"""The functions and operators of expressions: what they take, and how Arrow computes them. Pure.

Arithmetic is checked: an overflow or a division by zero raises, and makes its record a bad one. Of
AND, OR, CASE and coalesce only what decides counts: a single row evaluates the rest lazily.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, arrow_type
from ledgerstone.pipeline.expressions.parsing import ExpressionError
from ledgerstone.pipeline.expressions.typed import (
    BOOLEAN,
    FLOAT,
    INT,
    TEXT,
    Run,
    Typed,
    as_decimal,
    as_type,
    common_type,
    is_number,
)

Parts = Sequence[Typed]
_DAY_OR_TIME: Final = (ColumnType.DATE, ColumnType.TIMESTAMP)
_UNORDERED: Final = (ColumnType.JSON,)


class Function(NamedTuple):
    least: int
    most: int
    make: Callable[[str, Parts], Typed]


def called(name: str, parts: Parts) -> Typed:
    function = FUNCTIONS.get(name)
    if function is None:
        known = ", ".join(sorted(each for each in FUNCTIONS if each.islower()))
        raise ExpressionError(f"there is no function {name}; known are {known}")
    if not function.least <= len(parts) <= function.most:
        raise ExpressionError(f"{name} does not take {len(parts)} arguments")
    return function.make(name, parts)


def _need(name: str, part: Typed, *kinds: AnyType) -> Typed:
    """The part, with NULL as the first of these types."""
    if part.type is not None and part.type not in kinds:
        said = " or ".join(each.value for each in kinds)
        raise ExpressionError(f"{name} takes {said}, not {part.said}")
    return as_type(part, kinds[0]) if part.type is None else part


def _literal(name: str, part: Typed, kind: type) -> Any:  # noqa: ANN401 - of this kind
    if not isinstance(part.literal, kind):
        raise ExpressionError(f"{name} takes a literal there, not a computed value")
    return part.literal


def _decided(rows: pa.RecordBatch, found: Any) -> Any:  # noqa: ANN401 - a value of Python
    """The value, if there is only one row to look at; else an object that equals nothing."""
    if rows.num_rows != 1:
        return object()
    return (found if isinstance(found, pa.Scalar) else found[0]).as_py()


# -- logic ------------------------------------------------------------------------------------


def _chain(name: str, parts: Parts) -> Typed:
    runs = [_need(name, each, BOOLEAN).run for each in parts]
    join, decides = (pc.and_kleene, False) if name == "AND" else (pc.or_kleene, True)

    def run(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array or a scalar
        found = runs[0](rows)
        for each in runs[1:]:
            if _decided(rows, found) is decides:
                return found
            found = join(found, each(rows))
        return found

    return Typed(BOOLEAN, run)


def _not(name: str, parts: Parts) -> Typed:
    part = _need(name, parts[0], BOOLEAN)
    return Typed(BOOLEAN, lambda rows: pc.invert(part.run(rows)))


def _is_null(_: str, parts: Parts) -> Typed:
    run = parts[0].run
    return Typed(BOOLEAN, lambda rows: pc.is_null(run(rows)))


def _case(_: str, parts: Parts) -> Typed:
    conditions = [_need("WHEN", each, BOOLEAN).run for each in parts[:-1:2]]
    values = [*parts[1:-1:2], parts[-1]]
    kind = common_type(values, "CASE")
    *runs, otherwise = [as_type(each, kind).run for each in values]

    def run(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array or a scalar
        if rows.num_rows == 1:
            for condition, value in zip(conditions, runs, strict=True):
                if _decided(rows, condition(rows)) is True:
                    return value(rows)
            return otherwise(rows)
        found = otherwise(rows)
        for condition, value in reversed(list(zip(conditions, runs, strict=True))):
            found = pc.if_else(pc.fill_null(condition(rows), False), value(rows), found)
        return found

    return Typed(kind, run)


def _coalesce(name: str, parts: Parts) -> Typed:
    kind = common_type(parts, name)
    runs = [as_type(each, kind).run for each in parts]

    def run(rows: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array or a scalar
        found = runs[0](rows)
        for each in runs[1:]:
            if rows.num_rows == 1 and _decided(rows, found) is not None:
                return found
            found = pc.coalesce(found, each(rows))
        return found

    return Typed(kind, run)


# -- comparisons ------------------------------------------------------------------------------

_COMPARE: Final[Mapping[str, Callable[..., Any]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _compared(name: str, parts: Parts) -> Typed:
    kind = common_type(parts, name)
    if kind in _UNORDERED:
        raise ExpressionError(f"{name}: {kind.value if kind else ''} is not compared; use CAST")
    left, right = (as_type(each, kind or BOOLEAN).run for each in parts)
    compare = _COMPARE[name]
    return Typed(BOOLEAN, lambda rows: compare(left(rows), right(rows)))


def _in(name: str, parts: Parts) -> Typed:
    return _chain("OR", [_compared("=", (parts[0], each)) for each in parts[1:]])


def _nullif(_: str, parts: Parts) -> Typed:
    same = _compared("=", parts).run
    kind, run = parts[0].type or BOOLEAN, parts[0].run
    nothing = pa.scalar(None, arrow_type(kind))
    return Typed(kind, lambda rows: pc.if_else(pc.fill_null(same(rows), False), nothing, run(rows)))


# -- arithmetic -------------------------------------------------------------------------------

_ARITHMETIC: Final[Mapping[str, Callable[..., Any]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
    "div": pc.divide_checked,
}


def _computed(name: str, parts: Parts) -> Typed:
    kinds = [each.type for each in parts]
    if not all(kind is None or is_number(kind) for kind in kinds):
        raise ExpressionError(f"{name} takes numbers, not {' and '.join(p.said for p in parts)}")
    if name == "/" and all(kind in (INT, None) for kind in kinds):
        raise ExpressionError(
            "/ of two whole numbers: say div(a, b) for a whole number, "
            "or CAST(a AS float64) / b for one with a fraction"
        )
    if name == "div" and not all(kind in (INT, None) for kind in kinds):
        raise ExpressionError("div takes whole numbers; use /")
    kernel = _ARITHMETIC[name]
    if any(isinstance(kind, DecimalType) for kind in kinds) and FLOAT not in kinds:
        left, right = (as_type(each, as_decimal(each)) for each in parts)
        return _decimals(kernel, left, right)
    kind = FLOAT if FLOAT in kinds else INT
    one, other = (as_type(each, kind).run for each in parts)
    return Typed(kind, lambda rows: kernel(one(rows), other(rows)))


def _decimals(kernel: Callable[..., Any], left: Typed, right: Typed) -> Typed:
    """Arrow says how many digits the result has."""
    nothing = [pa.array([], arrow_type(each.type)) for each in (left, right) if each.type]
    try:
        found = kernel(*nothing).type
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{error}; use CAST for fewer digits") from None
    kind = DecimalType(found.precision, found.scale)
    return Typed(kind, lambda rows: kernel(left.run(rows), right.run(rows)))


def _rounded(name: str, parts: Parts) -> Typed:
    part = parts[0]
    if part.type is not FLOAT and not isinstance(part.type, DecimalType):
        raise ExpressionError(f"{name} takes a float64 or a decimal, not {part.said}")
    if name == "round":
        digits = _literal(name, parts[1], int) if len(parts) > 1 else 0
        return Typed(
            part.type,
            lambda rows: pc.round(
                part.run(rows), ndigits=digits, round_mode="half_towards_infinity"
            ),
        )
    kernel = pc.floor if name == "floor" else pc.ceil
    return Typed(part.type, lambda rows: kernel(part.run(rows)))


def _abs(name: str, parts: Parts) -> Typed:
    if not is_number(parts[0].type):
        raise ExpressionError(f"{name} takes a number, not {parts[0].said}")
    return Typed(parts[0].type, lambda rows: pc.abs_checked(parts[0].run(rows)))


# -- text and time ----------------------------------------------------------------------------

_TEXT_TO_TEXT: Final[Mapping[str, Callable[..., Any]]] = {
    "upper": pc.utf8_upper,
    "lower": pc.utf8_lower,
    "trim": pc.utf8_trim_whitespace,
}


def _text(name: str, parts: Parts) -> Typed:
    run, kernel = _need(name, parts[0], TEXT).run, _TEXT_TO_TEXT[name]
    return Typed(TEXT, lambda rows: kernel(run(rows)))


def _joined(name: str, parts: Parts) -> Typed:
    runs = [_need(name, each, TEXT).run for each in parts]
    return Typed(
        TEXT,
        lambda rows: pc.binary_join_element_wise(*(each(rows) for each in runs), pa.scalar("")),
    )


def _length(name: str, parts: Parts) -> Typed:
    run = _need(name, parts[0], TEXT).run
    return Typed(INT, lambda rows: pc.cast(pc.utf8_length(run(rows)), pa.int64()))


def _substring(name: str, parts: Parts) -> Typed:
    run = _need(name, parts[0], TEXT).run
    start = _literal(name, parts[1], int)
    length = _literal(name, parts[2], int) if len(parts) > 2 else None
    if start < 1 or (length is not None and length < 0):
        raise ExpressionError(f"{name} counts characters from 1")
    stop = None if length is None else start - 1 + length
    return Typed(TEXT, lambda rows: pc.utf8_slice_codeunits(run(rows), start=start - 1, stop=stop))


def _replace(name: str, parts: Parts) -> Typed:
    run = _need(name, parts[0], TEXT).run
    old, new = (_literal(name, each, str) for each in parts[1:])
    if not old:
        raise ExpressionError(f"{name} of an empty text")
    return Typed(TEXT, lambda rows: pc.replace_substring(run(rows), pattern=old, replacement=new))


_MATCHES: Final[Mapping[str, Callable[..., Any]]] = {
    "LIKE": pc.match_like,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "contains": pc.match_substring,
}


def _matches(name: str, parts: Parts) -> Typed:
    run, kernel = _need(name, parts[0], TEXT).run, _MATCHES[name]
    pattern = _literal(name, parts[1], str)
    return Typed(BOOLEAN, lambda rows: kernel(run(rows), pattern))


def _of_time(kernel: Callable[..., Any], *kinds: AnyType) -> Callable[[str, Parts], Typed]:
    def make(name: str, parts: Parts) -> Typed:
        run: Run = _need(name, parts[0], *kinds).run
        return Typed(INT, lambda rows: kernel(run(rows)))

    return make


_MANY: Final = 1000

FUNCTIONS: Final[Mapping[str, Function]] = {
    "AND": Function(2, _MANY, _chain),
    "OR": Function(2, _MANY, _chain),
    "NOT": Function(1, 1, _not),
    "IS NULL": Function(1, 1, _is_null),
    "IN": Function(2, _MANY, _in),
    "CASE": Function(3, _MANY, _case),
    "LIKE": Function(2, 2, _matches),
    "||": Function(2, 2, _joined),
    **{name: Function(2, 2, _compared) for name in _COMPARE},
    **{name: Function(2, 2, _computed) for name in _ARITHMETIC},
    "coalesce": Function(1, _MANY, _coalesce),
    "nullif": Function(2, 2, _nullif),
    "abs": Function(1, 1, _abs),
    "round": Function(1, 2, _rounded),
    "floor": Function(1, 1, _rounded),
    "ceil": Function(1, 1, _rounded),
    **{name: Function(1, 1, _text) for name in _TEXT_TO_TEXT},
    "length": Function(1, 1, _length),
    "substring": Function(2, 3, _substring),
    "replace": Function(3, 3, _replace),
    **{name: Function(2, 2, _matches) for name in _MATCHES},
    "year": Function(1, 1, _of_time(pc.year, *_DAY_OR_TIME)),
    "month": Function(1, 1, _of_time(pc.month, *_DAY_OR_TIME)),
    "day": Function(1, 1, _of_time(pc.day, *_DAY_OR_TIME)),
    "hour": Function(1, 1, _of_time(pc.hour, ColumnType.TIMESTAMP)),
}
