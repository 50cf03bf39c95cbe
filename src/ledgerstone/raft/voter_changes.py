"""AddVoter, RemoveVoter, UpdateVoter and the step to kraft.version 1, on the leader. Pure.

One change at a time, one voter per change: majorities of neighbouring voter sets overlap. A change
waits until a record of the leader's own epoch is committed, which is what a known high watermark
means; before that, the set of an earlier leader may still be undone.
"""

from ledgerstone.dataclasses import replace
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import Message
from ledgerstone.raft import fencing
from ledgerstone.raft.control_batches import version_record, voters_record
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.leading import append_control
from ledgerstone.raft.messages import (
    AddVoter,
    AskVersions,
    RemoveVoter,
    UpdateVoter,
    UpgradeVersion,
    VersionsAnswer,
    VoterChangeAnswer,
)
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import NO_DIRECTORY, Peer, ReplicaKey, peer_of
from ledgerstone.raft.voter_change import VoterChange
from ledgerstone.raft.voters import DYNAMIC_VERSION, Voter, VoterSet

Refusal = tuple[ErrorCode, str]
_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


class VoterChanges:
    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # -- requests -----------------------------------------------------------------------------

    def on_add(self, token: int, asked: AddVoter) -> None:
        quorum = self._quorum
        voter = asked.voter
        refusal = self._refusal(asked.cluster_id)
        peer = peer_of(voter.key.id, voter.listeners, quorum.identity.listener_name)
        refusal = refusal or _unnamed(voter.key) or _unreachable(voter, peer)
        refusal = refusal or self._not_yet() or self._needs_dynamic()
        if refusal is None and quorum.voters.get(voter.key.id) is not None:
            refusal = ErrorCode.DUPLICATE_VOTER, f"{voter.key.id} is a voter: {quorum.voters}"
        role = quorum.role
        if refusal is not None or not isinstance(role, Leader) or peer is None:
            self._refuse(token, refusal)
            return
        role.change = VoterChange(
            token=token,
            deadline_ms=quorum.now.monotonic_ms + asked.timeout_ms,
            voter=voter,
            waits_for_commit=asked.waits_for_commit,
        )
        role.change.correlation = quorum.send(peer, AskVersions())

    def on_versions(self, correlation: int, answer: VersionsAnswer) -> None:
        """The voter to be has told its range of kraft.versions."""
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Leader) or role.change is None:
            return
        change = role.change
        if change.correlation != correlation or change.voter is None:
            return
        voter = replace(
            change.voter, min_version=answer.min_version, max_version=answer.max_version
        )
        refusal: Refusal | None = None
        voters = quorum.voters.added(voter)
        if answer.error is not ErrorCode.NONE:
            refusal = _TIMED_OUT, f"{voter.key} did not tell its versions: {answer.error.name}"
        elif not voter.supports(quorum.history.version):
            refusal = ErrorCode.INVALID_REQUEST, f"{voter.key} lacks this kraft.version"
        elif not self._is_caught_up(role, voter):
            refusal = _TIMED_OUT, f"{voter.key} is lagging behind the leader"
        elif voters is None:
            refusal = ErrorCode.DUPLICATE_VOTER, f"{voter.key.id} is a voter: {quorum.voters}"
        if refusal is not None or voters is None:
            role.change = None
            self._refuse(change.token, refusal)
            return
        change.correlation = None
        change.record_offset = self._write(role, [voters_record(voters)])
        if not change.waits_for_commit:
            role.change = None
            quorum.reply(change.token, fencing.told(quorum, VoterChangeAnswer()))

    def on_versions_failed(self, correlation: int) -> None:
        self.on_versions(correlation, VersionsAnswer(error=ErrorCode.NETWORK_EXCEPTION))

    def on_remove(self, token: int, asked: RemoveVoter) -> None:
        quorum = self._quorum
        refusal = self._refusal(asked.cluster_id) or _unnamed(asked.key)
        refusal = refusal or self._not_yet() or self._needs_dynamic()
        voters = quorum.voters.removed(asked.key)
        if refusal is None and voters is None:
            refusal = (
                ErrorCode.VOTER_NOT_FOUND,
                f"{asked.key} is not among {quorum.voters}, or alone",
            )
        role = quorum.role
        if refusal is not None or voters is None or not isinstance(role, Leader):
            self._refuse(token, refusal)
            return
        role.change = VoterChange(
            token=token,
            deadline_ms=quorum.now.monotonic_ms + quorum.settings.request_timeout_ms,
            record_offset=self._write(role, [voters_record(voters)]),
        )

    def on_update(self, token: int, asked: UpdateVoter) -> None:
        quorum = self._quorum
        voter = asked.voter
        peer = peer_of(voter.key.id, voter.listeners, quorum.identity.listener_name)
        refusal = self._refusal(asked.cluster_id, asked.epoch) or _unnamed(voter.key)
        refusal = refusal or _unreachable(voter, peer) or self._not_yet()
        if refusal is None and not voter.supports(quorum.history.version):
            refusal = ErrorCode.INVALID_REQUEST, f"{voter.key} lacks this kraft.version"
        voters = quorum.voters.updated(voter)
        if refusal is None and voters is None:
            refusal = ErrorCode.VOTER_NOT_FOUND, f"{voter.key} is not among {quorum.voters}"
        role = quorum.role
        if refusal is not None or voters is None or not isinstance(role, Leader):
            self._refuse(token, refusal)
            return
        if quorum.history.version < DYNAMIC_VERSION:
            # Nothing is written before the step to version 1; the leader keeps it in mind.
            role.introduced[voter.key.id] = voter
        elif voters != quorum.voters:
            self._write(role, [voters_record(voters)])
        quorum.reply(token, fencing.told(quorum, VoterChangeAnswer()))

    def on_upgrade(self, token: int, asked: UpgradeVersion) -> None:
        """From kraft.version 0 to 1: every voter must have introduced itself to this leader."""
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Leader):
            self._refuse(token, (ErrorCode.NOT_LEADER_OR_FOLLOWER, "not the leader"))
            return
        refusal = self._not_yet()
        known = {**role.introduced, quorum.key.id: quorum.identity.voter}
        voters = VoterSet(known[each] for each in quorum.voters.ids if each in known)
        if asked.version <= quorum.history.version:
            is_same = asked.version == quorum.history.version
            error = ErrorCode.NONE if is_same else ErrorCode.INVALID_UPDATE_VERSION
            refusal = error, f"kraft.version is {quorum.history.version}"
        elif asked.version > DYNAMIC_VERSION:
            refusal = ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version {asked.version} is unknown"
        elif refusal is None and len(voters) < len(quorum.voters):
            refusal = _TIMED_OUT, f"only {voters} of {quorum.voters} have told their directories"
        elif refusal is None and not all(each.supports(asked.version) for each in voters.voters):
            refusal = ErrorCode.INVALID_UPDATE_VERSION, f"some of {voters} lack that kraft.version"
        if refusal is not None:
            self._refuse(token, refusal)
            return
        records: list[Message] = [version_record(asked.version), voters_record(voters)]
        role.change = VoterChange(
            token=token,
            deadline_ms=quorum.now.monotonic_ms + quorum.settings.request_timeout_ms,
            record_offset=self._write(role, records),
        )

    def _write(self, role: Leader, records: list[Message]) -> int:
        """The new set holds at once, and has its time to be heard of: a sole voter's timer stood
        still until now."""
        offset = append_control(self._quorum, records)
        role.heard.clear()
        timeout_ms = self._quorum.settings.check_quorum_timeout_ms
        role.check_quorum_deadline_ms = self._quorum.now.monotonic_ms + timeout_ms
        return offset

    # -- refusals, in Kafka's order -----------------------------------------------------------

    def _refusal(self, cluster_id: str | None, epoch: int | None = None) -> Refusal | None:
        quorum = self._quorum
        error = fencing.cluster_error(quorum, cluster_id) or fencing.leader_only_error(
            quorum, quorum.epoch if epoch is None else epoch
        )
        return None if error is None else (error, f"{error.name}: epoch {quorum.epoch}")

    def _not_yet(self) -> Refusal | None:
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "not the leader"
        if role.change is not None:
            return _TIMED_OUT, "another change of voters is pending"
        if role.high_watermark is None:
            return _TIMED_OUT, "nothing of this epoch is committed yet"
        last = max(quorum.history.current_offset, quorum.history.version_offset)
        if role.high_watermark <= last:
            return _TIMED_OUT, f"the voter set at offset {last} is not committed yet"
        return None

    def _needs_dynamic(self) -> Refusal | None:
        if self._quorum.history.version >= DYNAMIC_VERSION:
            return None
        return ErrorCode.UNSUPPORTED_VERSION, "voters change only with kraft.version 1"

    def _is_caught_up(self, role: Leader, voter: Voter) -> bool:
        progress = role.progress.get(voter.key)
        if progress is None or progress.caught_up_ms is None or progress.fetched_ms is None:
            return False
        silent_ms = self._quorum.now.monotonic_ms - progress.fetched_ms
        return silent_ms <= self._quorum.settings.caught_up_within_ms

    def _refuse(self, token: int, refusal: Refusal | None) -> None:
        error, message = refusal or (ErrorCode.NONE, "")
        self._quorum.reply(
            token, fencing.told(self._quorum, VoterChangeAnswer(error=error, message=message))
        )

    # -- time ---------------------------------------------------------------------------------

    def poll(self, role: Leader) -> int:
        """Answers the pending change once it is committed, or has taken too long."""
        quorum = self._quorum
        change = role.change
        if change is None:
            return NEVER
        offset = change.record_offset
        if offset is not None and (role.high_watermark or 0) > offset:
            role.change = None
            quorum.reply(change.token, fencing.told(quorum, VoterChangeAnswer()))
            return NEVER
        if quorum.now.monotonic_ms >= change.deadline_ms:
            # A record that was appended may still be committed; the next change waits for it.
            role.change = None
            self._refuse(change.token, (_TIMED_OUT, "not committed in time"))
            return NEVER
        return change.deadline_ms

    def turn_away(self, former: Leader) -> None:
        if former.change is not None:
            refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER, "lost the leadership"
            self._refuse(former.change.token, refusal)
            former.change = None


def _unnamed(key: ReplicaKey) -> Refusal | None:
    """A change is about one replica, and a replica is a node and its directory."""
    if key.id < 0 or key.directory_id == NO_DIRECTORY:
        return ErrorCode.INVALID_REQUEST, f"not a node with its directory: {key}"
    return None


def _unreachable(voter: Voter, peer: Peer | None) -> Refusal | None:
    if peer is None:
        return ErrorCode.INVALID_REQUEST, f"no default listener: {voter}"
    return None
