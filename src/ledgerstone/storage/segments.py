"""The segments of one log, ordered by base offset. Grade D, through what it holds.

Invariant: bases rise strictly; the last segment is the active one, the only one appended to.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from ledgerstone.storage.segment import Segment


class Segments:
    __slots__ = ("_bases", "_by_base")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._by_base: dict[int, Segment] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[Segment]:
        """Ascending, over the current segments."""
        return iter([self._by_base[base] for base in self._bases])

    def __contains__(self, segment: Segment) -> bool:
        return self._by_base.get(segment.base_offset) is segment

    def add(self, segment: Segment) -> None:
        """A segment with the same base is replaced."""
        if segment.base_offset not in self._by_base:
            insort(self._bases, segment.base_offset)
        self._by_base[segment.base_offset] = segment

    def remove(self, base_offset: int) -> None:
        del self._by_base[base_offset]
        self._bases.remove(base_offset)

    def clear(self) -> None:
        self._bases.clear()
        self._by_base.clear()

    @property
    def first(self) -> Segment:
        return self._by_base[self._bases[0]]

    @property
    def active(self) -> Segment:
        return self._by_base[self._bases[-1]]

    def at_base(self, base_offset: int) -> Segment | None:
        return self._by_base.get(base_offset)

    def bases(self) -> list[int]:
        return list(self._bases)

    def floor(self, offset: int) -> Segment | None:
        """The segment whose range holds `offset`: the last one that starts at or before it."""
        at = bisect_right(self._bases, offset)
        return self._by_base[self._bases[at - 1]] if at else None

    def after(self, base_offset: int) -> Segment | None:
        """The next segment above a base."""
        at = bisect_right(self._bases, base_offset)
        return self._by_base[self._bases[at]] if at < len(self._bases) else None

    def starting_from(self, base_offset: int) -> list[Segment]:
        """Segments whose base is at or above `base_offset`, ascending."""
        at = bisect_left(self._bases, base_offset)
        return [self._by_base[base] for base in self._bases[at:]]

    def holding_from(self, offset: int) -> list[Segment]:
        """Segments that hold offsets at or above `offset`, ascending."""
        floor = self.floor(offset)
        return self.starting_from(floor.base_offset if floor is not None else offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._by_base.values())

    def check_invariants(self) -> None:
        assert self._bases == sorted(set(self._bases))
        assert set(self._bases) == self._by_base.keys()
        for segment in self:
            segment.check_invariants()
