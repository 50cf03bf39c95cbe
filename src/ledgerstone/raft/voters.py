"""The voter set: an immutable value, and the three changes it allows. Pure."""

from collections.abc import Iterable
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.raft.replica import Listener, Peer, ReplicaKey, peer_of

# kraft.version 1 brings directory ids and voters that change while the quorum runs.
STATIC_VERSION: Final = 0
DYNAMIC_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    key: ReplicaKey
    listeners: tuple[Listener, ...] = ()
    # The kraft.version range it supports.
    min_version: int = STATIC_VERSION
    max_version: int = DYNAMIC_VERSION

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


class VoterSet:
    """Voters by id, in the order of their ids. Equal sets are equal values."""

    __slots__ = ("_by_id",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._by_id = {each.key.id: each for each in sorted(voters, key=lambda each: each.key.id)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(key) for key in self.keys)})"

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def voters(self) -> tuple[Voter, ...]:
        return tuple(self._by_id.values())

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._by_id)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(each.key for each in self._by_id.values())

    @property
    def majority(self) -> int:
        return len(self._by_id) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def match(self, key: ReplicaKey) -> Voter | None:
        """The entry that means this replica."""
        voter = self._by_id.get(key.id)
        return voter if voter is not None and voter.key.covers(key) else None

    def others(self, key: ReplicaKey) -> tuple[Voter, ...]:
        return tuple(each for each in self._by_id.values() if not each.key.covers(key))

    def peer(self, node_id: int, listener_name: str) -> Peer | None:
        voter = self._by_id.get(node_id)
        return None if voter is None else peer_of(node_id, voter.listeners, listener_name)

    # -- changes ------------------------------------------------------------------------------

    def added(self, voter: Voter) -> "VoterSet | None":
        """None if the id is taken."""
        if voter.key.id in self._by_id:
            return None
        return VoterSet((*self._by_id.values(), voter))

    def removed(self, key: ReplicaKey) -> "VoterSet | None":
        """None if it is not a voter, or the last one."""
        found = self._by_id.get(key.id)
        if found is None or found.key != key or len(self._by_id) == 1:
            return None
        return VoterSet(each for each in self._by_id.values() if each is not found)

    def updated(self, voter: Voter) -> "VoterSet | None":
        """The same voter with other listeners or versions; None if it is not one."""
        found = self.match(voter.key)
        if found is None:
            return None
        return VoterSet(voter if each is found else each for each in self._by_id.values())

    def differs_by_at_most_one(self, other: "VoterSet") -> bool:
        """Invariant: majorities of neighbours overlap, which is why voters change one by one."""
        mine, theirs = dict.fromkeys(self.keys), dict.fromkeys(other.keys)
        only_mine = [key for key in mine if key not in theirs]
        only_theirs = [key for key in theirs if key not in mine]
        return len(only_mine) + len(only_theirs) <= 1
