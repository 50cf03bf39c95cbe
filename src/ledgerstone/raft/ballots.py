"""Votes of one election, counted. Pure."""

from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.voters import VoterSet


class Ballots:
    """One ballot per voter; the first answer counts. The asker's own is granted from the start."""

    __slots__ = ("_granted", "_voters")

    def __init__(self, voters: VoterSet, own: ReplicaKey) -> None:
        self._voters = voters
        self._granted: dict[int, bool | None] = dict.fromkeys(voters.ids)
        if own.id in self._granted:
            self._granted[own.id] = True

    def record(self, voter_id: int, is_granted: bool) -> None:
        if voter_id in self._granted and self._granted[voter_id] is None:
            self._granted[voter_id] = is_granted

    def is_open(self, voter_id: int) -> bool:
        return self._granted.get(voter_id, False) is None

    @property
    def granting(self) -> tuple[ReplicaKey, ...]:
        return tuple(key for key in self._voters.keys if self._granted[key.id])

    @property
    def is_won(self) -> bool:
        return self._count(True) >= self._voters.majority

    @property
    def is_lost(self) -> bool:
        """Even if every open ballot were granted."""
        return self._count(True) + self._count(None) < self._voters.majority

    def _count(self, what: bool | None) -> int:
        return sum(given is what for given in self._granted.values())
