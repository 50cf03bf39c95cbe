"""A leader's life: it announces its epoch, appends, keeps in touch, and resigns. Pure."""

from collections.abc import Sequence

from ledgerstone.errors import NotLeaderOrFollower, RecordListTooLarge
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import Message
from ledgerstone.raft import fencing
from ledgerstone.raft.control_batches import (
    control_batch,
    leader_change,
    version_record,
    voters_record,
)
from ledgerstone.raft.events import Leadership
from ledgerstone.raft.leader import Leader, Progress
from ledgerstone.raft.messages import (
    BeginEpoch,
    BeginEpochAnswer,
    EndEpoch,
    EndEpochAnswer,
    QuorumAnswer,
    ReplicaProgress,
)
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.roles import Candidate, Resigned
from ledgerstone.raft.voter_reader import note_control_records
from ledgerstone.raft.voters import DYNAMIC_VERSION
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.types import NO_OFFSET


class Leading:
    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # -- the beginning ------------------------------------------------------------------------

    def begin(self, won: Candidate) -> None:
        """The first batch of an epoch: who leads, and the voter set if the log lacks it."""
        quorum = self._quorum
        quorum.become_leader()
        records: list[Message] = [
            leader_change(quorum.key.id, quorum.voters.keys, won.ballots.granting)
        ]
        if quorum.history.version >= DYNAMIC_VERSION:
            own = quorum.voters.updated(quorum.identity.voter)
            if quorum.history.current_offset < 0 or (own is not None and own != quorum.voters):
                records.append(version_record(quorum.history.version))
                records.append(voters_record(own or quorum.voters))
        append_control(quorum, records)

    def propose(self, epoch: int, records: Sequence[RecordParts]) -> int:
        """Appends one batch; returns the offset behind it. Committed once the high watermark is
        there, unless the leadership is lost before."""
        quorum = self._quorum
        if not isinstance(quorum.role, Leader) or quorum.epoch != epoch or quorum.is_stopping:
            raise NotLeaderOrFollower(f"{quorum.key} does not lead epoch {epoch}")
        batch = build_batch(records, base_offset=quorum.log.end_offset, leader_epoch=epoch)
        if len(batch) > quorum.settings.max_batch_bytes:
            raise RecordListTooLarge(f"a batch of {len(batch)} bytes")
        quorum.log.append(batch)
        quorum.ask_sync()
        return quorum.log.end_offset

    # -- time ---------------------------------------------------------------------------------

    def poll(self, role: Leader) -> int:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        if self._must_resign(role):
            self.resign(role)
            return now_ms
        if not role.is_announced and quorum.applied_offset >= role.epoch_start_offset:
            role.is_announced = True
            quorum.outbox.lead(Leadership(role.epoch, role.leader_id, True))
        if now_ms >= role.next_begin_ms:
            role.next_begin_ms = now_ms + quorum.settings.begin_epoch_interval_ms
            self._tell_silent_voters(role)
            role.forget_silent(quorum.voters, now_ms - quorum.settings.observer_session_ms)
        if quorum.is_sole_voter:
            # With nobody to tell, and no observers to forget, nothing is due by the clock.
            return role.next_begin_ms if role.progress else NEVER
        return min(role.next_begin_ms, role.check_quorum_deadline_ms)

    def _must_resign(self, role: Leader) -> bool:
        quorum = self._quorum
        if role.is_out_of_touch(quorum.voters, quorum.now.monotonic_ms) or quorum.is_stopping:
            return True
        # Removed by a voter set that is committed.
        is_committed = (role.high_watermark or 0) > quorum.history.current_offset
        return not quorum.is_voter and is_committed

    def _tell_silent_voters(self, role: Leader) -> None:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        silent_ms = quorum.settings.begin_epoch_interval_ms
        for voter in quorum.voters.others(quorum.key):
            progress = role.progress_of(voter.key) or Progress()
            is_silent = progress.fetched_ms is None or now_ms - progress.fetched_ms >= silent_ms
            peer = quorum.voters.peer(voter.key.id, quorum.identity.listener_name)
            if is_silent and peer is not None and quorum.peers.is_free(peer.id, now_ms):
                quorum.send(
                    peer,
                    BeginEpoch(
                        cluster_id=quorum.identity.cluster_id,
                        voter=voter.key,
                        leader_id=quorum.key.id,
                        epoch=role.epoch,
                        leader_listeners=quorum.identity.listeners,
                    ),
                )

    # -- the end ------------------------------------------------------------------------------

    def resign(self, role: Leader) -> None:
        self._quorum.become_resigned(role.successors(self._quorum.voters))

    def poll_resigned(self, role: Resigned) -> int:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        is_staying = quorum.is_stopping or quorum.is_last_epoch
        if quorum.is_sole_voter and not is_staying:
            # No vote is needed but its own, and the next epoch is free.
            quorum.become_candidate(role.epoch + 1)
            return now_ms
        if now_ms >= role.election_deadline_ms and not is_staying:
            # Never again in this epoch: an offset of it could come to mean two records.
            quorum.become_unattached(
                role.epoch + 1, deadline_ms=now_ms + quorum.election_timeout_ms()
            )
            return now_ms
        again_ms = NEVER if is_staying else role.election_deadline_ms
        for voter_id in role.untold:
            peer = quorum.voters.peer(voter_id, quorum.identity.listener_name)
            if peer is None:
                continue
            if quorum.peers.is_free(peer.id, now_ms):
                quorum.send(peer, self._end_epoch(role))
            again_ms = min(again_ms, quorum.peers.free_at(peer.id, now_ms))
        return again_ms

    def _end_epoch(self, role: Resigned) -> EndEpoch:
        return EndEpoch(
            cluster_id=self._quorum.identity.cluster_id,
            leader_id=self._quorum.key.id,
            epoch=role.epoch,
            successors=role.successors,
            leader_listeners=self._quorum.identity.listeners,
        )

    # -- answers ------------------------------------------------------------------------------

    def on_begin_answer(self, peer_id: int, answer: BeginEpochAnswer) -> None:
        fencing.is_usable(self._quorum, answer, peer_id)

    def on_end_answer(self, peer_id: int, answer: EndEpochAnswer) -> None:
        if not fencing.is_usable(self._quorum, answer, peer_id):
            return
        role = self._quorum.role
        if isinstance(role, Resigned):
            role.untold.pop(peer_id, None)

    # -- what it knows ------------------------------------------------------------------------

    def describe(self) -> QuorumAnswer:
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Leader):
            return fencing.told(quorum, QuorumAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        voters = [self._described(role, voter.key) for voter in quorum.voters.voters]
        observers = [
            self._described(role, key) for key in role.progress if quorum.voters.match(key) is None
        ]
        if not quorum.is_voter:
            observers.append(self._described(role, quorum.key))
        return fencing.told(
            quorum,
            QuorumAnswer(
                high_watermark=NO_OFFSET if role.high_watermark is None else role.high_watermark,
                voters=tuple(voters),
                observers=tuple(observers),
                voter_set=quorum.voters,
            ),
        )

    def _described(self, role: Leader, key: ReplicaKey) -> ReplicaProgress:
        quorum = self._quorum
        if key.covers(quorum.key):
            now_ms = quorum.now.wall_ms
            return ReplicaProgress(
                key=key,
                end_offset=quorum.log.end_offset,
                last_fetch_ms=now_ms,
                last_caught_up_ms=now_ms,
            )
        progress = role.progress_of(key) or Progress()
        return ReplicaProgress(
            key=key,
            end_offset=NO_OFFSET if progress.end_offset is None else progress.end_offset,
            last_fetch_ms=progress.fetched_wall_ms,
            last_caught_up_ms=progress.caught_up_wall_ms,
        )


def append_control(quorum: Quorum, records: Sequence[Message]) -> int:
    """One control batch of the leader's epoch; returns the offset of its last record."""
    batch = control_batch(
        records, base_offset=quorum.log.end_offset, epoch=quorum.epoch, wall_ms=quorum.now.wall_ms
    )
    quorum.log.append(batch)
    note_control_records(quorum.history, batch, 0, read_header(batch))
    quorum.ask_sync()
    return quorum.log.end_offset - 1
