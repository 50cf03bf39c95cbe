"""A follower too far behind: it fetches a snapshot and starts over from it. Pure."""

from ledgerstone.errors import InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import fencing
from ledgerstone.raft.messages import FetchSnapshot, FetchSnapshotAnswer
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.positions import is_beyond
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.raft.roles import Download, Follower
from ledgerstone.raft.voter_reader import read_history


class Downloads:
    """While one is on its way, no Fetch is sent."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def begin(self, role: Follower, snapshot_id: OffsetAndEpoch) -> None:
        if is_beyond(snapshot_id, self._quorum.log):
            role.download = Download(snapshot_id)

    def poll(self, role: Follower) -> int:
        quorum = self._quorum
        download = role.download
        assert download is not None
        if download.is_complete:
            return NEVER
        now_ms = quorum.now.monotonic_ms
        if quorum.peers.is_free(role.leader.id, now_ms):
            quorum.send(
                role.leader,
                FetchSnapshot(
                    cluster_id=quorum.identity.cluster_id,
                    replica=quorum.key,
                    epoch=quorum.epoch,
                    snapshot_id=download.snapshot_id,
                    position=download.position,
                    max_bytes=quorum.settings.fetch_snapshot_max_bytes,
                ),
            )
        return quorum.peers.free_at(role.leader.id, now_ms)

    def on_answer(self, peer_id: int, answer: FetchSnapshotAnswer) -> None:
        quorum = self._quorum
        role = quorum.role
        if answer.error is ErrorCode.UNKNOWN_SERVER_ERROR and isinstance(role, Follower):
            # Apache Kafka 4.3 cannot encode its refusals, and says this instead of which one it is.
            self._give_up(role)
        if not fencing.is_usable(quorum, answer, peer_id):
            return
        role = quorum.role
        if not isinstance(role, Follower) or role.epoch != answer.epoch or role.download is None:
            return
        download = role.download
        if answer.error is not ErrorCode.NONE or answer.snapshot_id != download.snapshot_id:
            self._give_up(role)
        elif not answer.chunk and download.position < answer.size:
            # The leader's file is shorter than it was. Asked at once, it says the same for ever.
            self._give_up(role)
            self._wait_for_leader(role)
        elif answer.position == download.position and not download.is_complete:
            quorum.snapshots.write_part(download.snapshot_id, download.position, answer.chunk)
            download.position += len(answer.chunk)
            if download.position >= answer.size:
                download.is_complete = True
                quorum.outbox.freeze(download.snapshot_id)
        role.fetch_deadline_ms = quorum.now.monotonic_ms + quorum.settings.fetch_timeout_ms
        role.has_fetched = True

    def _give_up(self, role: Follower) -> None:
        """Deleted meanwhile: the next Fetch names another one."""
        if role.download is not None and not role.download.is_complete:
            self._quorum.snapshots.drop_part()
            role.download = None

    def on_refused(self, snapshot_id: OffsetAndEpoch) -> None:
        """The log stays as it is. Asked for again: the leader may have another one by then."""
        quorum = self._quorum
        role = quorum.role
        if (
            isinstance(role, Follower)
            and role.download is not None
            and role.download.snapshot_id == snapshot_id
        ):
            quorum.snapshots.drop_part()
            role.download = None
            self._wait_for_leader(role)

    def _wait_for_leader(self, role: Follower) -> None:
        """For less than the fetch timeout, or the leader would pass for silent."""
        quorum = self._quorum
        delay_ms = quorum.settings.fetch_timeout_ms // 2
        quorum.peers.back_off(role.leader.id, quorum.now.monotonic_ms, delay_ms)

    def on_fetched(self, snapshot_id: OffsetAndEpoch) -> None:
        """It is durable. Crash here: the next start finds it beyond the log's end and does this."""
        quorum = self._quorum
        role = quorum.role
        is_wanted = (
            isinstance(role, Follower)
            and role.download is not None
            and role.download.snapshot_id == snapshot_id
        )
        if is_wanted and is_beyond(snapshot_id, quorum.log):
            start_over(quorum, snapshot_id)
        elif is_beyond(snapshot_id, quorum.log):
            # The role changed. Serving it would promise records that our log does not continue.
            quorum.snapshots.delete(snapshot_id)
        if is_wanted:
            assert isinstance(role, Follower)
            role.download = None


def start_over(quorum: Quorum, snapshot_id: OffsetAndEpoch) -> None:
    """The snapshot takes the log's place. Everything in it is committed."""
    if snapshot_id.offset < quorum.high_watermark:
        raise InvariantViolation(
            f"{quorum.key}: snapshot {snapshot_id} ends below the high watermark"
            f" {quorum.high_watermark}"
        )
    for each in quorum.snapshots.ids():
        if each.offset < snapshot_id.offset:
            quorum.snapshots.delete(each)
    quorum.log.start_over(snapshot_id)
    quorum.note_truncation()
    quorum.synced_end = snapshot_id.offset
    read_history(quorum.history, quorum.log, quorum.snapshots)
    quorum.applied_offset = snapshot_id.offset
    quorum.outbox.load(snapshot_id)
    quorum.raise_high_watermark(snapshot_id.offset)
