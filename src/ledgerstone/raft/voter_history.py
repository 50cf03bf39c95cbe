"""Which voter set and which kraft.version hold at which offset. Pure.

A VotersRecord holds from the moment it is appended, committed or not; truncating it brings the one
before it back. So both are kept by offset, not as one value.
"""

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Generic, TypeVar

from ledgerstone.errors import InvariantViolation
from ledgerstone.raft.voters import STATIC_VERSION, VoterSet

T = TypeVar("T")

_OFFSET = itemgetter(0)


class OffsetHistory(Generic[T]):
    """Values by the offset of the record that set them. Invariant: offsets rise strictly."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, T]] = []

    def add(self, offset: int, value: T) -> None:
        if self._entries and offset <= self._entries[-1][0]:
            raise InvariantViolation(f"a value at {offset} follows one at {self._entries[-1][0]}")
        self._entries.append((offset, value))

    @property
    def last(self) -> tuple[int, T] | None:
        return self._entries[-1] if self._entries else None

    def before(self, end_offset: int) -> T | None:
        """What held after the records below `end_offset`."""
        count = bisect_left(self._entries, end_offset, key=_OFFSET)
        return self._entries[count - 1][1] if count else None

    def truncate_to(self, end_offset: int) -> None:
        del self._entries[bisect_left(self._entries, end_offset, key=_OFFSET) :]

    def forget_before(self, offset: int) -> None:
        """Keeps the one that holds at `offset`."""
        count = bisect_right(self._entries, offset, key=_OFFSET)
        del self._entries[: max(count - 1, 0)]

    def clear(self) -> None:
        self._entries.clear()


class VoterHistory:
    """`static` is `controller.quorum.voters`: it holds as long as no record says otherwise."""

    __slots__ = ("_static", "_versions", "_voters")

    def __init__(self, static: VoterSet) -> None:
        self._static = static
        self._voters: OffsetHistory[VoterSet] = OffsetHistory()
        self._versions: OffsetHistory[int] = OffsetHistory()

    @property
    def current(self) -> VoterSet:
        last = self._voters.last
        return self._static if last is None else last[1]

    @property
    def current_offset(self) -> int:
        """Of the record that set it; -1 for one that came with a format or a setting."""
        last = self._voters.last
        return -1 if last is None else last[0]

    @property
    def version(self) -> int:
        last = self._versions.last
        return STATIC_VERSION if last is None else last[1]

    @property
    def version_offset(self) -> int:
        last = self._versions.last
        return -1 if last is None else last[0]

    def version_before(self, end_offset: int) -> int:
        found = self._versions.before(end_offset)
        return STATIC_VERSION if found is None else found

    def voters_before(self, end_offset: int) -> VoterSet | None:
        """None while only the static set is known: it is no part of a snapshot."""
        return self._voters.before(end_offset)

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        self._voters.add(offset, voters)

    def add_version(self, offset: int, version: int) -> None:
        self._versions.add(offset, version)

    def truncate_to(self, end_offset: int) -> None:
        self._voters.truncate_to(end_offset)
        self._versions.truncate_to(end_offset)

    def forget_before(self, offset: int) -> None:
        self._voters.forget_before(offset)
        self._versions.forget_before(offset)

    def clear(self) -> None:
        """For a snapshot that replaces the log."""
        self._voters.clear()
        self._versions.clear()
