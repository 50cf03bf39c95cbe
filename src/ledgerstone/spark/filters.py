"""Uses a query's filters to skip reads and rows. Pure.

Nothing here is final: Spark applies every filter again. So filters that cannot be used are ignored,
and a bound may be loose. A fold comes before filters: bounds on offsets and times must not hide
records from it, which is why `narrowed` has to know about it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.types import INT64_MAX, TopicPartition

if TYPE_CHECKING:
    # A planner sees no records and need not load the kernels.
    from numpy.typing import NDArray

    from ledgerstone.records.kernels import Columns

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
# Any seed will do: a collision lets a row through that Spark then drops.
_SEED: Final = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Both inclusive."""

    lowest: int = -INT64_MAX
    highest: int = INT64_MAX

    def __contains__(self, value: int) -> bool:
        return self.lowest <= value <= self.highest

    def and_also(self, other: "Bounds") -> "Bounds":
        return Bounds(
            lowest=max(self.lowest, other.lowest), highest=min(self.highest, other.highest)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    topics: tuple[str, ...] | None = None  # None: any
    partitions: Bounds = Bounds()
    offsets: Bounds = Bounds()
    timestamps_ms: Bounds = Bounds()
    keys: tuple[bytes, ...] | None = None
    has_value: bool | None = None

    def allows(self, partition: TopicPartition) -> bool:
        is_named = self.topics is None or partition.topic in self.topics
        return is_named and partition.partition in self.partitions

    def narrowed(self, wanted: OffsetRange, *, folds: bool) -> OffsetRange | None:
        """The rest of a range that has to be read; None if nothing has."""
        if not self.allows(wanted.partition):
            return None
        if folds:
            return wanted
        start = max(wanted.start_offset, self.offsets.lowest)
        end = min(wanted.end_offset, self.offsets.highest + 1)
        return OffsetRange(wanted.partition, start, end) if start < end else None

    def mask(self, columns: "Columns") -> "NDArray[np.bool_] | None":
        """Which records may pass; None if all may."""
        found: NDArray[np.bool_] | None = None
        for column, bounds in (
            (columns.offset, self.offsets),
            (columns.timestamp, self.timestamps_ms),
        ):
            if bounds != Bounds():
                within = (column >= bounds.lowest) & (column <= bounds.highest)
                found = within if found is None else found & within
        if self.has_value is not None:
            fits = (columns.value_length >= 0) == self.has_value
            found = fits if found is None else found & fits
        if self.keys is not None:
            same = _has_key(columns, self.keys)
            found = same if found is None else found & same
        return found


def _has_key(columns: "Columns", keys: tuple[bytes, ...]) -> "NDArray[np.bool_]":
    from ledgerstone.records.kernels import hash_keys

    low, high = hash_keys(
        columns.buffer, columns.key_start, columns.key_length, _SEED, arena=columns.arena
    )
    found = np.zeros(len(columns), np.bool_)
    for key in keys:
        start, length = np.zeros(1, np.int64), np.array([len(key)], np.int32)
        key_low, key_high = hash_keys(key, start, length, _SEED)
        found |= (low == key_low[0]) & (high == key_high[0]) & (columns.key_length == len(key))
    return found


def pruning_of(filters: Iterable[Filter]) -> Pruning:
    found = Pruning()
    for each in filters:
        found = _and_also(found, each)
    return found


def _and_also(found: Pruning, each: Filter) -> Pruning:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:
        return found
    value = getattr(each, "value", None)
    match attribute[0].lower():
        case "topic" if isinstance(each, (EqualTo, EqualNullSafe, In)):
            names = _values(each, str)
            return found if names is None else replace(found, topics=_common(found.topics, names))
        case "key" if isinstance(each, (EqualTo, EqualNullSafe, In)):
            keys = _values(each, bytes)
            return found if keys is None else replace(found, keys=_common(found.keys, keys))
        case "value" if isinstance(each, (IsNull, IsNotNull)):
            return replace(found, has_value=isinstance(each, IsNotNull))
        case "partition":
            bounds = _bounds(each, value)
            return replace(found, partitions=found.partitions.and_also(bounds))
        case "offset":
            return replace(found, offsets=found.offsets.and_also(_bounds(each, value)))
        case "timestamp":
            bounds = _time_bounds(each, value)
            return replace(found, timestamps_ms=found.timestamps_ms.and_also(bounds))
    return found


def _values(each: Filter, kind: type[Any]) -> tuple[Any, ...] | None:
    value = getattr(each, "value", None)
    many = tuple(each.value) if isinstance(each, In) else (value,)
    known = tuple(bytes(v) if isinstance(v, bytearray) else v for v in many)
    return known if all(isinstance(v, kind) for v in known) else None


def _common(known: tuple[Any, ...] | None, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values if known is None else tuple(value for value in known if value in values)


def _bounds(each: Filter, value: object) -> Bounds:
    if isinstance(each, In):
        numbers = _values(each, int) or (-INT64_MAX, INT64_MAX)
        return Bounds(lowest=min(numbers), highest=max(numbers))
    if not isinstance(value, int):
        return Bounds()
    match each:
        case EqualTo() | EqualNullSafe():
            return Bounds(lowest=value, highest=value)
        case GreaterThan():
            return Bounds(lowest=value + 1)
        case GreaterThanOrEqual():
            return Bounds(lowest=value)
        case LessThan():
            return Bounds(highest=value - 1)
        case LessThanOrEqual():
            return Bounds(highest=value)
    return Bounds()


def _time_bounds(each: Filter, value: object) -> Bounds:
    """Records have milliseconds and literals microseconds: bounds are loose by one."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return Bounds()
    at_ms = (value - _EPOCH) // timedelta(milliseconds=1)
    match each:
        case EqualTo() | EqualNullSafe():
            return Bounds(lowest=at_ms, highest=at_ms)
        case GreaterThan() | GreaterThanOrEqual():
            return Bounds(lowest=at_ms)
        case LessThan() | LessThanOrEqual():
            return Bounds(highest=at_ms)
    return Bounds()
