"""What a replica is when it starts: made from the file, the log and the snapshots. Pure."""

from ledgerstone.errors import StorageError
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.log import ReplicatedLog, SnapshotStore
from ledgerstone.raft.positions import is_beyond, latest_snapshot
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import NO_SNAPSHOT, ReplicaKey


def settle_log(log: ReplicatedLog, snapshots: SnapshotStore) -> None:
    """Ends what a crash interrupted, and refuses a log whose beginning is lost."""
    for each in snapshots.ids():
        if each.offset < log.start_offset and each != NO_SNAPSHOT:
            snapshots.delete(each)
    latest = latest_snapshot(snapshots)
    if latest is not None and is_beyond(latest, log):
        # The crash came after a fetched snapshot got its name.
        log.start_over(latest)
    if log.start_offset > 0 and (latest is None or latest.offset < log.start_offset):
        raise StorageError(
            f"the metadata log begins at offset {log.start_offset}, and no snapshot reaches it."
            " What came before is lost, so this node does not start; nothing was changed."
            " Restore the snapshot, or remove the node's voter and format it anew"
        )


def own_vote(state: HardState, own: ReplicaKey) -> HardState:
    """A file of kraft.version 0 knows no directories."""
    if state.voted is not None and state.voted.covers(own):
        return state._replace(voted=own)
    return state


def assume_role(quorum: Quorum) -> None:
    """Never Leader: records of the old epoch may be lost, and its offsets must not come twice."""
    state = quorum.hard_state
    if quorum.log.last_epoch > state.epoch:
        quorum.become_unattached(quorum.log.last_epoch, deadline_ms=_deadline_ms(quorum))
    elif state.leader_id == quorum.key.id and state.voted in (None, quorum.key):
        quorum.become_resigned(())
    elif state.leader_id is not None and state.leader_id != quorum.key.id:
        leader = quorum.voters.peer(state.leader_id, quorum.identity.listener_name)
        if leader is not None:
            quorum.become_follower(state.epoch, leader)
        else:
            quorum.become_unattached(
                state.epoch, leader_id=state.leader_id, deadline_ms=_deadline_ms(quorum)
            )
    elif state.voted == quorum.key and quorum.may_run and quorum.log.last_epoch < state.epoch:
        # With a record of the epoch it did lead: the crash came before the file said so.
        quorum.become_candidate(state.epoch)
    else:
        quorum.become_unattached(state.epoch, deadline_ms=_deadline_ms(quorum))


def _deadline_ms(quorum: Quorum) -> int:
    return quorum.now.monotonic_ms + quorum.election_timeout_ms()
