"""Rules of the quorum broken on purpose: the simulator must find every one of them.

Each mutant is a few lines that replace something in a running process; nothing of it is in `src`.
`python -m tests.sim.quorum.mutants` plays seeds until each one is found and prints a table; with
`--write` it puts the table into docs/simulation.md.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone.raft import (
    downloading,
    fencing,
    following,
    leading,
    node,
    positions,
    serving,
    starting,
    voter_reader,
    voting,
)
from ledgerstone.raft.ballots import Ballots
from ledgerstone.raft.following import Following
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.leading import Leading
from ledgerstone.raft.messages import FetchAnswer
from ledgerstone.raft.outbox import Outbox
from ledgerstone.raft.peers import Peers
from ledgerstone.raft.positions import VALID, Diverging
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.roles import Follower, Resigned, Unattached
from ledgerstone.raft.serving import Serving
from ledgerstone.raft.snapshotting import Snapshotting
from ledgerstone.raft.voter_changes import VoterChanges
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.filesystem import SimFile, SimFilesystem
from ledgerstone.sim.quorum.cluster import run
from ledgerstone.sim.quorum.scenario import draw, parse
from tests.sim.hunting import Kill, Mutant, Patch, Simulator, write_table
from tests.sim.hunting import hunt as hunt_in

MAX_SEEDS = 400
SIMULATOR = Simulator(
    draw,
    parse,
    run,
    "<!-- mutants: made by `make sim PROFILE=quorum MUTANTS=1` -->",
    "<!-- end of mutants -->",
)


# A leader on its own writes a long log; the others commit a shorter one; then all start anew.
LONG_LOST_LOG = """
set voters 3
set spares 0
set brokers 0
set dynamic 1
set changes 0
set pace_ms 40
set delay_ms 1
set jitter_ms 0
set loss_percent 0
set disk_ms 3
set snapshot_every 0
set fault_ms 9000
3000 cut node=-1 way=2 ms=3500
6400 blackout down=50 mode=0
"""


def hunt(mutant: Mutant, max_seeds: int = MAX_SEEDS) -> Kill | None:
    return hunt_in(SIMULATOR, mutant, max_seeds)


# -- what must be durable -------------------------------------------------------------------------


def vote_leaves_before_it_is_stored(patch: Patch) -> None:
    """The state is kept, but with the next Ready."""
    original = Outbox.take

    def take(outbox: Outbox) -> Any:
        held = outbox._hard_state
        if held is None or not outbox._messages:
            return original(outbox)
        outbox._hard_state = None
        ready = original(outbox)
        outbox.keep(held)
        return ready

    patch.setattr(Outbox, "take", take)


def vote_is_not_stored(patch: Patch) -> None:
    """Only new epochs are."""
    original = Outbox.keep

    def keep(outbox: Outbox, state: Any) -> None:
        original(outbox, state._replace(voted=None))

    patch.setattr(Outbox, "keep", keep)


def vote_file_is_not_synced(patch: Patch) -> None:
    original = QuorumStateFile.store

    def store(file: QuorumStateFile, *args: Any, **how: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimFile, "fsync", lambda self: None)
            original(file, *args, **how)

    patch.setattr(QuorumStateFile, "store", store)


def vote_directory_is_not_synced(patch: Patch) -> None:
    original = QuorumStateFile.store

    def store(file: QuorumStateFile, *args: Any, **how: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimFilesystem, "fsync_dir", lambda self, path: None)
            original(file, *args, **how)

    patch.setattr(QuorumStateFile, "store", store)


def vote_is_believed_without_a_sync(patch: Patch) -> None:
    """What a start reads may be in the page cache only."""
    original = QuorumStateFile.load

    def load(file: QuorumStateFile) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimFilesystem, "fsync_dir", lambda self, path: None)
            inner.setattr(SimFile, "fsync", lambda self: None)
            return original(file)

    patch.setattr(QuorumStateFile, "load", load)


def leader_counts_what_it_has_not_synced(patch: Patch) -> None:
    def advance(self: Serving, role: Leader) -> None:
        quorum = self._quorum
        if role.advance(quorum.voters, quorum.log.end_offset):
            assert role.high_watermark is not None
            quorum.raise_high_watermark(role.high_watermark)

    patch.setattr(Serving, "advance", advance)


def follower_acknowledges_before_its_sync(patch: Patch) -> None:
    patch.setattr(Following, "_must_wait", lambda self: False)


def old_log_counts_as_synced_at_start(patch: Patch) -> None:
    original = Quorum.__init__

    def init(self: Quorum, **given: Any) -> None:
        original(self, **given)
        self.synced_end = self.log.end_offset

    patch.setattr(Quorum, "__init__", init)


# -- elections ------------------------------------------------------------------------------------


def _granting(patch: Patch, decide: Callable[[Any, Any, OffsetAndEpoch], bool]) -> None:
    patch.setattr(voting, "grants", decide)


def second_vote_in_an_epoch(patch: Patch) -> None:
    original = voting.grants

    def grants(role: Any, vote: Any, own_end: OffsetAndEpoch) -> bool:
        if isinstance(role, Unattached) and not vote.is_pre_vote and role.leader_id is None:
            return not vote.log_end.is_behind(own_end)
        return original(role, vote, own_end)

    _granting(patch, grants)


def vote_without_looking_at_the_log(patch: Patch) -> None:
    original = voting.grants
    _granting(patch, lambda role, vote, end: original(role, vote, OffsetAndEpoch(0, 0)))


def logs_are_compared_by_length_only(patch: Patch) -> None:
    patch.setattr(OffsetAndEpoch, "is_behind", lambda self, other: self.offset < other.offset)


def half_of_the_votes_is_enough(patch: Patch) -> None:
    def is_won(self: Ballots) -> bool:
        return self._count(True) * 2 >= len(self._granted)

    patch.setattr(Ballots, "is_won", property(is_won))


def election_without_a_new_epoch(patch: Patch) -> None:
    original = Quorum.become_candidate
    patch.setattr(
        Quorum, "become_candidate", lambda self, epoch: original(self, max(self.epoch, 1))
    )


def restarted_leader_leads_on(patch: Patch) -> None:
    """In the epoch it led before, although its last records may be lost."""
    original = starting.assume_role

    def assume_role(quorum: Quorum) -> None:
        original(quorum)
        if isinstance(quorum.role, Resigned) and quorum.is_voter:
            quorum.role.leader_id = None  # type: ignore[assignment]
            quorum.become_candidate(quorum.epoch)
            again: Any = quorum.role
            for voter_id in quorum.voters.ids:
                again.ballots.record(voter_id, True)

    patch.setattr(node, "assume_role", assume_role)


def leader_never_checks_its_quorum(patch: Patch) -> None:
    patch.setattr(Leader, "is_out_of_touch", lambda self, voters, now_ms: False)


def follower_waits_for_ever(patch: Patch) -> None:
    """The timer is reset by asking, not by an answer."""
    original = Following._send_fetch

    def send_fetch(self: Following, peer: Any) -> None:
        original(self, peer)
        role = self._quorum.role
        if isinstance(role, Follower):
            role.fetch_deadline_ms = self._quorum.now.monotonic_ms + 2_500

    patch.setattr(Following, "_send_fetch", send_fetch)


def lost_disk_keeps_its_vote(patch: Patch) -> None:
    """A voter is known by its id alone."""
    patch.setattr(ReplicaKey, "covers", lambda self, other: self.id == other.id)
    patch.setattr(fencing, "is_addressed", lambda named, own: True)
    original = Leader.progress_of
    patch.setattr(Leader, "progress_of", lambda self, key: original(self, ReplicaKey(key.id)))


# -- replication ----------------------------------------------------------------------------------


def old_epochs_are_committed_by_count(patch: Patch) -> None:
    original = Leader.advance

    def advance(self: Leader, voters: VoterSet, own_end: int) -> bool:
        start, self.epoch_start_offset = self.epoch_start_offset, -1
        try:
            return original(self, voters, own_end)
        finally:
            self.epoch_start_offset = start

    patch.setattr(Leader, "advance", advance)


def one_replica_too_few_commits(patch: Patch) -> None:
    original = Leader._ends

    def ends(self: Leader, voters: VoterSet, own_end: int) -> Any:
        found = sorted(original(self, voters, own_end), reverse=True)
        return found if len(found) < 3 else [found[0], *found[:-1]]

    patch.setattr(Leader, "_ends", ends)


def observers_are_counted(patch: Patch) -> None:
    original = Leader._ends

    def ends(self: Leader, voters: VoterSet, own_end: int) -> Any:
        found = list(original(self, voters, own_end))
        others = [
            each.end_offset or 0 for key, each in self.progress.items() if voters.match(key) is None
        ]
        return sorted([*found, *others], reverse=True)[: len(found)]

    patch.setattr(Leader, "_ends", ends)


def divergence_is_not_noticed(patch: Patch) -> None:
    original = positions.judge

    def judge(log: Any, snapshots: Any, asked: OffsetAndEpoch) -> Any:
        found = original(log, snapshots, asked)
        is_short = asked.offset <= log.end_offset
        return VALID if isinstance(found, Diverging) and is_short else found

    patch.setattr(serving, "judge", judge)


def divergence_counts_as_progress(patch: Patch) -> None:
    original = Serving._answer

    def answer(self: Serving, role: Leader, fetch: Any, *, records_progress: bool) -> FetchAnswer:
        if records_progress and fetch.log_end.offset <= self._quorum.log.end_offset:
            self._record(role, fetch)
        return original(self, role, fetch, records_progress=records_progress)

    patch.setattr(Serving, "_answer", answer)


def follower_truncates_to_its_high_watermark(patch: Patch) -> None:
    """KIP-101: on every new leader, instead of asking where the logs part."""
    original = Quorum.become_follower

    def become_follower(self: Quorum, epoch: int, leader: Any) -> None:
        original(self, epoch, leader)
        following.truncate(self, self.high_watermark)

    patch.setattr(Quorum, "become_follower", become_follower)


def late_answers_are_used(patch: Patch) -> None:
    """Whatever was asked, and whoever asked it."""

    def answered(self: Peers, peer_id: int, correlation: int) -> bool:
        line = self._lines.get(peer_id)
        if line is not None:
            line.correlation = None
        return True

    patch.setattr(Peers, "answered", answered)
    original = Following.on_answer

    def on_answer(self: Following, peer_id: int, correlation: int, answer: FetchAnswer) -> None:
        role = self._quorum.role
        if isinstance(role, Follower) and answer.records:
            self._append(answer.records)
        original(self, peer_id, correlation, answer)

    patch.setattr(Following, "on_answer", on_answer)


def high_watermark_beyond_the_log(patch: Patch) -> None:
    def raise_high_watermark(self: Quorum, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.outbox.commit(offset)

    patch.setattr(Quorum, "raise_high_watermark", raise_high_watermark)


# -- voters ---------------------------------------------------------------------------------------


def changes_do_not_wait_for_each_other(patch: Patch) -> None:
    patch.setattr(VoterChanges, "_not_yet", lambda self: None)


def change_before_the_epoch_has_committed(patch: Patch) -> None:
    original = VoterChanges._not_yet

    def not_yet(self: VoterChanges) -> Any:
        role = self._quorum.role
        if isinstance(role, Leader) and role.high_watermark is None and role.change is None:
            return None
        return original(self)

    patch.setattr(VoterChanges, "_not_yet", not_yet)


def truncated_voters_stay(patch: Patch) -> None:
    patch.setattr(VoterHistory, "truncate_to", lambda self, end_offset: None)


def two_voters_at_once(patch: Patch) -> None:
    original = VoterSet.removed

    def removed(self: VoterSet, key: ReplicaKey) -> VoterSet | None:
        rest = original(self, key)
        if rest is None or len(rest) < 3:
            return rest
        return original(rest, rest.keys[0])

    patch.setattr(VoterSet, "removed", removed)


def removed_leader_stays(patch: Patch) -> None:
    original = Leading._must_resign

    def must_resign(self: Leading, role: Leader) -> bool:
        return self._quorum.is_voter and original(self, role)

    patch.setattr(Leading, "_must_resign", must_resign)


def sole_voters_timer_runs_on(patch: Patch) -> None:
    """Found by a seed: adding the second voter ended the leadership of the first."""
    patch.setattr(
        VoterChanges,
        "_write",
        lambda self, role, records: leading.append_control(self._quorum, records),
    )


# -- snapshots ------------------------------------------------------------------------------------


def snapshot_without_voters(patch: Patch) -> None:
    patch.setattr(VoterHistory, "voters_before", lambda self, end_offset: None)


def snapshot_with_the_newest_voters(patch: Patch) -> None:
    """Not those at its end: an uncommitted set gets into it."""
    patch.setattr(VoterHistory, "voters_before", lambda self, end_offset: self.current)


def start_ignores_a_snapshot_beyond_the_log(patch: Patch) -> None:
    def settle_log(log: Any, snapshots: Any) -> None:
        return

    patch.setattr(node, "settle_log", settle_log)


def fetched_snapshot_keeps_the_log(patch: Patch) -> None:
    """The follower goes on with its own records."""

    def start_over(quorum: Quorum, snapshot_id: OffsetAndEpoch) -> None:
        quorum.outbox.load(snapshot_id)
        quorum.raise_high_watermark(snapshot_id.offset)

    patch.setattr(downloading, "start_over", start_over)


def fetched_snapshot_keeps_the_old_voters(patch: Patch) -> None:
    patch.setattr(downloading, "read_history", lambda history, log, snapshots: None)


def last_snapshot_is_cleaned(patch: Patch) -> None:
    original = Snapshotting.clean

    def clean(self: Snapshotting) -> None:
        original(self)
        quorum = self._quorum
        if quorum.log.start_offset > 0 and len(quorum.snapshots.ids()) == 1:
            quorum.snapshots.delete(quorum.snapshots.ids()[0])

    patch.setattr(Snapshotting, "clean", clean)


def snapshot_at_zero_is_not_named(patch: Patch) -> None:
    """An empty follower gets records from the middle."""
    original = positions.judge

    def judge(log: Any, snapshots: Any, asked: OffsetAndEpoch) -> Any:
        return VALID if asked.offset == 0 else original(log, snapshots, asked)

    patch.setattr(serving, "judge", judge)


def voters_in_the_log_are_not_read_at_start(patch: Patch) -> None:
    original = voter_reader.read_history

    def read_history(history: VoterHistory, log: Any, snapshots: Any) -> None:
        original(history, log, snapshots)
        history.truncate_to(log.start_offset)

    patch.setattr(node, "read_history", read_history)


MUTANTS = [
    Mutant("a vote leaves before it is stored", vote_leaves_before_it_is_stored),
    Mutant("votes are not stored, epochs are", vote_is_not_stored),
    Mutant("quorum-state is renamed without a sync", vote_file_is_not_synced),
    Mutant("quorum-state's directory is not synced", vote_directory_is_not_synced),
    Mutant("a start believes quorum-state without a sync", vote_is_believed_without_a_sync),
    Mutant("a leader counts what it has not synced", leader_counts_what_it_has_not_synced),
    Mutant("a follower acknowledges before its sync", follower_acknowledges_before_its_sync),
    Mutant("a start takes its log for synced", old_log_counts_as_synced_at_start),
    Mutant("a second vote in an epoch", second_vote_in_an_epoch),
    Mutant("votes do not look at the log", vote_without_looking_at_the_log),
    Mutant("logs are compared by length only", logs_are_compared_by_length_only, LONG_LOST_LOG),
    Mutant("half of the votes is enough", half_of_the_votes_is_enough),
    Mutant("an election without a new epoch", election_without_a_new_epoch),
    Mutant("a restarted leader leads on", restarted_leader_leads_on),
    Mutant("a leader never checks its quorum", leader_never_checks_its_quorum),
    Mutant("the fetch timer is reset by asking", follower_waits_for_ever),
    Mutant("a lost disk keeps its vote", lost_disk_keeps_its_vote),
    Mutant("old epochs are committed by count", old_epochs_are_committed_by_count),
    Mutant("one replica too few commits", one_replica_too_few_commits),
    Mutant("observers count towards the high watermark", observers_are_counted),
    Mutant("divergence is not noticed", divergence_is_not_noticed),
    Mutant("divergence counts as progress", divergence_counts_as_progress),
    Mutant("a follower truncates to its high watermark", follower_truncates_to_its_high_watermark),
    Mutant("late answers are used", late_answers_are_used),
    Mutant("a high watermark beyond the log", high_watermark_beyond_the_log),
    Mutant("voter changes do not wait for each other", changes_do_not_wait_for_each_other),
    Mutant("a change before the epoch has committed", change_before_the_epoch_has_committed),
    Mutant("truncated voters stay", truncated_voters_stay),
    Mutant("two voters leave at once", two_voters_at_once),
    Mutant("a removed leader stays", removed_leader_stays),
    Mutant("a sole voter's timer runs on", sole_voters_timer_runs_on),
    Mutant("a snapshot without voters", snapshot_without_voters),
    Mutant("a snapshot with the newest voters", snapshot_with_the_newest_voters),
    Mutant("a start ignores a snapshot beyond the log", start_ignores_a_snapshot_beyond_the_log),
    Mutant("a fetched snapshot keeps the log", fetched_snapshot_keeps_the_log),
    Mutant("a fetched snapshot keeps the old voters", fetched_snapshot_keeps_the_old_voters),
    Mutant("the last snapshot is cleaned", last_snapshot_is_cleaned),
    Mutant("a fetch at 0 gets records from the middle", snapshot_at_zero_is_not_named),
    Mutant("a start forgets voters in the log", voters_in_the_log_are_not_read_at_start),
]


def main() -> int:
    return write_table(SIMULATOR, MUTANTS, MAX_SEEDS, "python -m tests.sim.quorum.mutants")


if __name__ == "__main__":
    sys.exit(main())
