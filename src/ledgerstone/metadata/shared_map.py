"""Immutable mappings whose versions share what did not change. Pure.

An image of 100,000 topics must not be copied because one of them changed. A large map is therefore
a base that many versions share and a small layer of what changed since; a layer that outgrows the
square root of its base is merged into a new one. So a change costs O(√n) on average, a lookup at
most three of a dict. Small maps are plain dicts. The order is a dict's, whatever the layers are.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# Up to this size a copy is cheaper than a layer.
SMALL: Final = 128


class SharedMap(Mapping[K, V]):
    """Made by `MapDraft.finish`. `_hidden` are keys of the base that were removed since, `_over`
    those that were changed or added; a key that was removed and came back is in both."""

    __slots__ = ("_base", "_hidden", "_length", "_over")

    def __init__(
        self, base: dict[K, V], hidden: dict[K, None], over: dict[K, V], length: int
    ) -> None:
        self._base = base
        self._hidden = hidden
        self._over = over
        self._length = length

    def __getitem__(self, key: K) -> V:
        over = self._over
        if key in over:
            return over[key]
        if key in self._hidden:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._over or (key in self._base and key not in self._hidden)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        hidden, base = self._hidden, self._base
        for key in base:
            if key not in hidden:
                yield key
        for key in self._over:
            if key not in base or key in hidden:
                yield key

    def with_changes(
        self, removed: dict[K, None], put: dict[K, V], length: int
    ) -> "SharedMap[K, V]":
        hidden, over = self._hidden, {**self._over, **put}
        if removed:
            hidden = {**hidden, **{key: None for key in removed if key in self._base}}
            # Keys that were removed and came back go to the end, as in a dict.
            over = {key: value for key, value in self._over.items() if key not in removed}
            over.update(put)
        if len(over) + len(hidden) > 2 * math.isqrt(len(self._base)):
            merged = dict(self._base)
            for key in hidden:
                del merged[key]
            merged.update(over)
            return SharedMap(merged, {}, {}, length)
        return SharedMap(self._base, hidden, over, length)


class MapDraft(Generic[K, V]):
    """The next version of a mapping in the making. `touched` are all keys that were written, in the
    order of their first change."""

    __slots__ = ("_before", "_length", "_put", "_removed", "touched")

    def __init__(self, before: Mapping[K, V]) -> None:
        self._before = before
        self._put: dict[K, V] = {}
        # Keys of `before` that were removed, also those that came back.
        self._removed: dict[K, None] = {}
        self._length = len(before)
        self.touched: dict[K, None] = {}

    def get(self, key: K) -> V | None:
        if key in self._put:
            return self._put[key]
        return None if key in self._removed else self._before.get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._put or (key not in self._removed and key in self._before)

    def __iter__(self) -> Iterator[K]:
        """Not in order."""
        for key in self._before:
            if key not in self._removed and key not in self._put:
                yield key
        yield from self._put

    def put(self, key: K, value: V) -> None:
        self._length += key not in self
        self._put[key] = value
        self.touched[key] = None

    def remove(self, key: K) -> None:
        """The key must be there."""
        assert key in self, key
        self._length -= 1
        self._put.pop(key, None)
        if key in self._before:
            self._removed[key] = None
        self.touched[key] = None

    def finish(self) -> Mapping[K, V]:
        """`before` itself where nothing was touched."""
        before = self._before
        if not self.touched:
            return before
        if isinstance(before, SharedMap):
            return before.with_changes(self._removed, self._put, self._length)
        assert isinstance(before, dict)
        if self._length > SMALL and len(before) > SMALL:
            return SharedMap(before, {}, {}, len(before)).with_changes(
                self._removed, self._put, self._length
            )
        after = dict(before)
        for key in self._removed:
            del after[key]
        after.update(self._put)
        return after
