"""What a leader knows of its replicas, and the high watermark that follows from it. Pure.

Invariants: the high watermark never falls, and is not known before a record of the leader's own
epoch is committed. The leader's own log counts as far as it is synced, and only if it is a voter.
"""

from collections.abc import Iterable

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.raft.messages import Fetch
from ledgerstone.raft.replica import NO_DIRECTORY, ReplicaKey
from ledgerstone.raft.voter_change import VoterChange
from ledgerstone.raft.voters import Voter, VoterSet


@dataclass(slots=True)
class Progress:
    """What a replica's fetches said. Times are monotonic; wall times are for descriptions."""

    end_offset: int | None = None
    fetched_ms: int | None = None
    caught_up_ms: int | None = None
    fetched_wall_ms: int = -1
    caught_up_wall_ms: int = -1
    # The leader's end when the fetch before the last one came.
    leader_end_offset: int = -1


@dataclass(slots=True, kw_only=True)
class ParkedFetch:
    token: int
    fetch: Fetch
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Leader:
    epoch: int
    leader_id: int
    voted: ReplicaKey
    own: ReplicaKey
    # Of the LeaderChange record.
    epoch_start_offset: int
    check_quorum_deadline_ms: int
    high_watermark: int | None = None
    next_begin_ms: int = 0
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    # Voters that fetched since the check-quorum timer was started.
    heard: dict[int, None] = field(default_factory=dict)
    parked: list[ParkedFetch] = field(default_factory=list)
    # Log end, high watermark and log start when parked fetches were looked at last.
    told: tuple[int, int | None, int] = (-1, None, -1)
    change: VoterChange | None = None
    # kraft.version 0: what voters said of themselves to this leader.
    introduced: dict[int, Voter] = field(default_factory=dict)
    is_announced: bool = False

    # -- progress -----------------------------------------------------------------------------

    def progress_of(self, key: ReplicaKey) -> Progress | None:
        """Of a voter set entry: with an unknown directory, whichever fetches under its id."""
        if key.directory_id != NO_DIRECTORY:
            return self.progress.get(key)
        latest = None
        for each, progress in self.progress.items():
            is_later = latest is None or (progress.fetched_ms or 0) >= (latest.fetched_ms or 0)
            if each.id == key.id and is_later:
                latest = progress
        return latest

    def record_fetch(
        self, key: ReplicaKey, end_offset: int, own_end: int, now_ms: int, wall_ms: int
    ) -> None:
        """For a fetch whose position is valid; no other answer counts as progress."""
        progress = self.progress.setdefault(key, Progress())
        is_caught_up = end_offset >= own_end
        # It has everything that was there when it asked the time before.
        if is_caught_up or (
            progress.fetched_ms is not None and end_offset >= progress.leader_end_offset
        ):
            progress.caught_up_ms = now_ms if is_caught_up else progress.fetched_ms
            progress.caught_up_wall_ms = wall_ms if is_caught_up else progress.fetched_wall_ms
        progress.end_offset = end_offset
        progress.fetched_ms = now_ms
        progress.fetched_wall_ms = wall_ms
        progress.leader_end_offset = own_end

    def forget_silent(self, voters: VoterSet, before_ms: int) -> None:
        """Observers that have not been heard of for long."""
        for key in list(self.progress):
            fetched_ms = self.progress[key].fetched_ms
            if voters.match(key) is None and fetched_ms is not None and fetched_ms < before_ms:
                del self.progress[key]

    # -- high watermark -----------------------------------------------------------------------

    def advance(self, voters: VoterSet, own_synced_end: int) -> bool:
        """Raises the high watermark if a majority has more; returns whether it moved."""
        ends = sorted(self._ends(voters, own_synced_end), reverse=True)
        offset = ends[len(ends) // 2]
        if offset <= self.epoch_start_offset:
            # Records of earlier epochs are committed by one of ours, never by their count.
            return False
        if self.high_watermark is not None and offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def _ends(self, voters: VoterSet, own_synced_end: int) -> Iterable[int]:
        for voter in voters.voters:
            if voter.key.covers(self.own):
                yield own_synced_end
                continue
            progress = self.progress_of(voter.key)
            yield -1 if progress is None or progress.end_offset is None else progress.end_offset

    # -- check quorum -------------------------------------------------------------------------

    def hear(self, key: ReplicaKey, voters: VoterSet, now_ms: int, timeout_ms: int) -> None:
        """A voter asked for something. When enough have, this leader is still in touch."""
        voter = voters.match(key)
        if voter is None or voter.key.covers(self.own):
            return
        self.heard[key.id] = None
        needed = voters.majority - (1 if voters.match(self.own) is not None else 0)
        if len(self.heard) >= needed:
            self.heard.clear()
            self.check_quorum_deadline_ms = now_ms + timeout_ms

    def is_out_of_touch(self, voters: VoterSet, now_ms: int) -> bool:
        is_sole = len(voters) == 1 and voters.match(self.own) is not None
        return not is_sole and now_ms >= self.check_quorum_deadline_ms

    # -- resigning ----------------------------------------------------------------------------

    def successors(self, voters: VoterSet) -> tuple[ReplicaKey, ...]:
        """The other voters, the one that fetched furthest first."""

        def end_offset(key: ReplicaKey) -> int:
            progress = self.progress_of(key)
            return -1 if progress is None or progress.end_offset is None else progress.end_offset

        others = [voter.key for voter in voters.others(self.own)]
        return tuple(sorted(others, key=lambda key: (-end_offset(key), key.id)))
