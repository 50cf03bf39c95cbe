"""What may change in the columns of a table that exists, and what may not. Pure.

A column that comes in addition is null in the rows that are there. A type may become one that holds
every value of the old one. The table says which types it was made with, in the words of a
definition: databases have fewer types, and would not tell a date from a text.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ledgerstone.pipeline.column_types import AnyType, ColumnType, DecimalType, named_type
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import KEY, VALUE, Layout

# Digits that the largest number has.
_DIGITS: Final = {ColumnType.INT32: 10, ColumnType.INT64: 19}
# Unknown, in a table that was made before types were noted.
UNKNOWN: Final = "of an unknown type"

IsWider = Callable[[AnyType, AnyType], bool]


class Widened(NamedTuple):
    name: str
    old: AnyType
    new: AnyType


class Evolution(NamedTuple):
    added: tuple[str, ...]
    widened: tuple[Widened, ...]

    @property
    def is_none(self) -> bool:
        return not self.added and not self.widened


def is_wider(old: AnyType, new: AnyType) -> bool:
    """Whether every value of the one is a value of the other."""
    if isinstance(new, DecimalType):
        whole = new.precision - new.scale
        if isinstance(old, DecimalType):
            return new.scale >= old.scale and whole >= old.precision - old.scale
        return old in _DIGITS and whole >= _DIGITS[old]
    # A float64 holds 53 bits exactly.
    return old is ColumnType.INT32 and new in (ColumnType.INT64, ColumnType.FLOAT64)


def evolution(
    place: str, found: Mapping[str, str], layout: Layout, *, widens: IsWider = is_wider
) -> Evolution:
    """From the columns `found` in the table to those of the definition; raises PipelineError with
    the first column that may not change so."""
    for name, kind in found.items():
        if name not in layout.types:
            raise PipelineError(
                f"{place}: column {name} ({kind}) is in the table and not in the definition"
            )
    added, widened = [], []
    for name, new in layout.types.items():
        if name not in found:
            _check_added(place, name, new, layout)
            added.append(name)
        elif found[name] != new.value:
            widened.append(_widened(place, name, found[name], new, layout, widens))
    return Evolution(tuple(added), tuple(widened))


def _check_added(place: str, name: str, kind: AnyType, layout: Layout) -> None:
    values = [each.name for each in layout.values]
    if name not in (*values, KEY, VALUE):
        raise PipelineError(
            f"{place}: column {name} ({kind.value}) is in the definition and not in the table; "
            "only a column of the value may come in addition"
        )


def _widened(
    place: str, name: str, said: str, new: AnyType, layout: Layout, widens: IsWider
) -> Widened:
    try:
        old = named_type(said)
    except ValueError:
        old = None
    # Text and hash of a key stay what they were only from one whole number to another.
    is_same_key = name not in layout.key_names or new is ColumnType.INT64
    if old is None or not widens(old, new) or not is_same_key:
        what = "column" if is_same_key else "key column"
        raise PipelineError(
            f"{place}: {what} {name} is {said} in the table and {new.value} in the definition; "
            "a type may only become one that holds all of its values (docs/pipeline.md)"
        )
    return Widened(name, old, new)


def as_noted(
    columns: Iterable[str],
    noted: Mapping[str, str],
    layout: Layout,
    declared: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The columns that a table has, with the types that were noted. A table that was made before
    they were has those of the definition, or what it declares instead."""
    types = layout.types
    return {
        name: noted.get(name)
        or declared.get(name)
        or (types[name].value if name in types else UNKNOWN)
        for name in columns
    }


def type_names(layout: Layout) -> dict[str, str]:
    """What is noted."""
    return {name: kind.value for name, kind in layout.types.items()}


def in_sqlite(change: Widened, table: str, column: str, word: str, scratch: str) -> list[str]:
    """The statements, for text in which all digits after the point are written. `table`, `column`
    and `scratch`, the name of a column for the meantime, are quoted; `word` is the new type's."""
    old, new = change.old, change.new
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        zeros = "0" * (new.scale - old.scale)
        point = "." if zeros and not old.scale else ""
        more = f"UPDATE {table} SET {column} = {column} || '{point}{zeros}'"
        return [f"{more} WHERE {column} IS NOT NULL"] if zeros else []
    if new is ColumnType.INT64:
        return []
    text = f"CAST({column} AS REAL)"
    if isinstance(new, DecimalType):
        digits = f".{'0' * new.scale}" if new.scale else ""
        text = f"CAST({column} AS TEXT) || '{digits}'"
    return [
        f"ALTER TABLE {table} ADD COLUMN {scratch} {word}",
        f"UPDATE {table} SET {scratch} = {text} WHERE {column} IS NOT NULL",
        f"ALTER TABLE {table} DROP COLUMN {column}",
        f"ALTER TABLE {table} RENAME COLUMN {scratch} TO {column}",
    ]
