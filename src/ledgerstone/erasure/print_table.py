"""Many prints as arrays, for looking at a window at a time. Grade P.

Several prints may be of one key (two erasures, two topics); such prints share a *group*, and
everything here speaks of groups. Contract: the section "Search and scan" of README.md.
"""

from collections.abc import Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure.key_print import KeyPrint
from ledgerstone.erasure.scan_plan import KeyPrints, why_not_raw
from ledgerstone.records.kernels import Columns, hash_keys
from ledgerstone.records.kernels.rolling import RollingSearch, StringPrint
from ledgerstone.types import Buffer

Int64s = NDArray[np.int64]

NO_GROUP: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class RawHits:
    """Places of keys in plain bytes, one row each."""

    position: Int64s
    length: Int64s
    group: Int64s

    def __len__(self) -> int:
        return len(self.position)

    def where(self, wanted: NDArray[np.bool_]) -> Self:
        return type(self)(self.position[wanted], self.length[wanted], self.group[wanted])

    def moved(self, shift: int) -> Self:
        return type(self)(self.position + shift, self.length, self.group)


NO_HITS: Final = RawHits(*(np.empty(0, np.int64) for _ in range(3)))


@dataclass(frozen=True, slots=True, eq=False)
class _OneLength:
    """The keys of one length that are looked for in plain bytes."""

    search: RollingSearch
    groups: Int64s


class PrintTable:
    """Immutable once made."""

    __slots__ = ("_groups", "_high", "_lengths", "_low", "_raw", "_raw_groups", "_seed", "members")

    def __init__(self, keys: KeyPrints) -> None:
        # Of each group the indexes of its prints.
        self.members: list[list[int]] = []
        self._seed = keys.sip_seed
        firsts = self._form_groups(keys.prints)
        words = np.array([(each.sip_low, each.sip_high) for each in firsts], np.uint64).reshape(
            -1, 2
        )
        # Under a secret seed no two keys share 64 bits, so the low word finds the one candidate.
        self._groups = np.argsort(words[:, 0], kind="stable")
        self._low, self._high = np.ascontiguousarray(words[self._groups].T)
        self._lengths = np.unique(np.array([each.length for each in firsts], np.int32))
        self._raw = _raw_searches(firsts, keys)
        self._raw_groups = {group for each in self._raw for group in each.groups.tolist()}

    def _form_groups(self, prints: Sequence[KeyPrint]) -> list[KeyPrint]:
        numbers: dict[tuple[int, int, int], int] = {}
        firsts: list[KeyPrint] = []
        for index, each in enumerate(prints):
            same = (each.length, each.sip_low, each.sip_high)
            if same not in numbers:
                numbers[same] = len(firsts)
                firsts.append(each)
                self.members.append([])
            self.members[numbers[same]].append(index)
        return firsts

    @property
    def longest_raw_bytes(self) -> int:
        return max((each.search.length for each in self._raw), default=0)

    def groups_of(self, columns: Columns) -> Int64s:
        """The group of each record by its key, NO_GROUP for other keys and for markers."""
        found = np.full(len(columns), NO_GROUP, np.int64)
        rows = np.flatnonzero(_is_any_of(columns.key_length, self._lengths))
        if len(rows) == 0:
            return found
        is_control = columns.batches.is_control
        if is_control.any():
            rows = rows[~is_control[columns.batch_index[rows]]]
        low, high = hash_keys(
            columns.buffer,
            columns.key_start[rows],
            columns.key_length[rows],
            self._seed,
            arena=columns.arena,
        )
        found[rows] = self._groups_with(low, high)
        return found

    def group_of(self, key_print: KeyPrint) -> int:
        """NO_GROUP for another key. Prints under other secrets are of no key that is known."""
        low, high = (
            np.array([each], np.uint64) for each in (key_print.sip_low, key_print.sip_high)
        )
        return int(self._groups_with(low, high)[0])

    def _groups_with(self, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> Int64s:
        at = np.minimum(np.searchsorted(self._low, low), len(self._low) - 1)
        same = (self._low[at] == low) & (self._high[at] == high)
        return np.where(same, self._groups[at], NO_GROUP).astype(np.int64)

    def find_raw(self, buffer: Buffer, *, ends_after: int = 0, end: int | None = None) -> RawHits:
        """Keys in the buffer whose last byte lies in [ends_after, end)."""
        parts = []
        for each in self._raw:
            start = max(ends_after - each.search.length + 1, 0)
            position, which = each.search.find(buffer, start=start, end=end)
            if len(position):
                length = np.full(len(position), each.search.length, np.int64)
                parts.append((position, length, each.groups[which]))
        if not parts:
            return NO_HITS
        return RawHits(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def find_in_fields(self, contents: Sequence[bytes]) -> list[tuple[int, int]]:
        """(field, group) of each hit inside a field; keys too short for that, as a whole field."""
        sizes = np.array([len(each) for each in contents], np.int32)
        ends = np.cumsum(sizes, dtype=np.int64)
        starts, joined = ends - sizes, b"".join(contents)
        hits = self.find_raw(joined)
        field = np.searchsorted(starts, hits.position, side="right") - 1
        found = list(zip(field.tolist(), hits.group.tolist(), strict=True))
        if len(hits) and (hits.position + hits.length > ends[field]).any():
            # What is there only because two fields lie side by side may hide what is in one.
            found = [
                (index, group)
                for index, content in enumerate(contents)
                for group in self.find_raw(content).group.tolist()
            ]
        whole = np.flatnonzero(_is_any_of(sizes, self._lengths) & (sizes > 0))
        if len(self._raw_groups) == len(self.members) or len(whole) == 0:
            return found
        groups = self._groups_with(*hash_keys(joined, starts[whole], sizes[whole], self._seed))
        return found + [
            (index, group)
            for index, group in zip(whole.tolist(), groups.tolist(), strict=True)
            if group != NO_GROUP and group not in self._raw_groups
        ]


def _is_any_of(lengths: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.bool_]:
    if len(wanted) == 1:
        same: NDArray[np.bool_] = lengths == wanted[0]
        return same
    return np.isin(lengths, wanted)


def _raw_searches(firsts: Sequence[KeyPrint], keys: KeyPrints) -> list[_OneLength]:
    by_length: dict[int, list[int]] = {}
    for group, each in enumerate(firsts):
        if why_not_raw(each) is None:
            by_length.setdefault(each.length, []).append(group)
    searches = []
    for length, groups in sorted(by_length.items()):
        prints = [
            StringPrint(firsts[group].rolling, firsts[group].sip_low, firsts[group].sip_high)
            for group in groups
        ]
        search = RollingSearch(prints, length=length, base=keys.rolling_base, seed=keys.sip_seed)
        searches.append(_OneLength(search, np.array(groups, np.int64)))
    return searches
