"""A follower's life: it fetches, truncates where the leader says so, appends, and acknowledges by
asking for more. Pure.

Only one Fetch is on its way at any time. The next one leaves after everything appended is synced,
because its offset is the acknowledgement.
"""

from ledgerstone.errors import CorruptRecord, InvariantViolation, UnsupportedForMessageFormat
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import fencing
from ledgerstone.raft.downloading import Downloads
from ledgerstone.raft.messages import (
    BeginEpoch,
    BeginEpochAnswer,
    EndEpoch,
    EndEpochAnswer,
    Fetch,
    FetchAnswer,
)
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.positions import log_end, truncation_offset
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import OffsetAndEpoch, Peer
from ledgerstone.raft.roles import Follower, Unattached
from ledgerstone.raft.voter_reader import note_control_records
from ledgerstone.records.batch import iter_headers, verify_crc


class Following:
    __slots__ = ("_downloads", "_fetch", "_next_discovery_ms", "_quorum")

    def __init__(self, quorum: Quorum, downloads: Downloads) -> None:
        self._quorum = quorum
        self._downloads = downloads
        self._next_discovery_ms = 0
        # The correlation id of the one Fetch whose answer counts.
        self._fetch: int | None = None

    # -- asking -------------------------------------------------------------------------------

    def poll(self, role: Follower) -> int:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        if now_ms >= role.fetch_deadline_ms:
            if quorum.may_run:
                quorum.become_prospective()
                return now_ms
            return self._look_elsewhere(role)
        if not self._can_ask(role):
            return min(role.fetch_deadline_ms, self._waiting(role))
        return min(role.fetch_deadline_ms, self._ask_leader(role))

    def _look_elsewhere(self, role: Follower) -> int:
        """An observer holds no election: it asks around, and gives up its leader's snapshot."""
        # Differs from Kafka: it would go on refusing pre-votes for a leader that may be dead. It
        # may have been made a voter without knowing.
        role.has_fetched = False
        download = role.download
        if download is not None and not download.is_complete:
            self._quorum.snapshots.drop_part()
            role.download = None
        return self._discover() if self._can_ask(role) else self._waiting(role)

    def _can_ask(self, role: Follower) -> bool:
        return role.download is None and not self._must_wait()

    def _waiting(self, role: Follower) -> int:
        """For a snapshot, or for the log's sync."""
        if role.download is not None:
            return self._downloads.poll(role)
        self._quorum.ask_sync()
        return NEVER

    def poll_unattached(self, role: Unattached) -> int:
        """A replica that knows no leader asks bootstrap servers, so it need not wait to be told."""
        return NEVER if self._must_wait() else self._discover()

    def _must_wait(self) -> bool:
        """What is not synced must not be acknowledged by anyone who may vote."""
        return self._quorum.identity.is_controller and not self._quorum.is_synced

    def _ask_leader(self, role: Follower) -> int:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        if quorum.peers.is_free(role.leader.id, now_ms):
            self._send_fetch(role.leader)
        return quorum.peers.free_at(role.leader.id, now_ms)

    def _discover(self) -> int:
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        own = quorum.identity.peer
        others = [
            each for each in quorum.bootstrap if own is None or each[1:] != (own.host, own.port)
        ]
        if not others:
            return NEVER
        if now_ms >= self._next_discovery_ms:
            free = [each for each in others if quorum.peers.is_free(each.id, now_ms)]
            self._next_discovery_ms = now_ms + quorum.settings.discovery_interval_ms
            if free:
                self._send_fetch(free[quorum.dice.below(len(free))])
        return self._next_discovery_ms

    def _send_fetch(self, peer: Peer) -> None:
        quorum = self._quorum
        self._fetch = quorum.send(
            peer,
            Fetch(
                cluster_id=quorum.identity.cluster_id,
                replica=quorum.key,
                epoch=quorum.epoch,
                log_end=log_end(quorum.log),
                max_wait_ms=quorum.settings.fetch_max_wait_ms,
                max_bytes=quorum.settings.fetch_max_bytes,
                high_watermark=quorum.high_watermark,
            ),
        )

    # -- answers ------------------------------------------------------------------------------

    def on_answer(self, peer_id: int, correlation: int, answer: FetchAnswer) -> None:
        quorum = self._quorum
        if not fencing.is_usable(quorum, answer, peer_id) or correlation != self._fetch:
            # A replica that looks for another leader may still get an answer of the old one.
            return
        role = quorum.role
        if (
            not isinstance(role, Follower)
            or role.epoch != answer.epoch
            or role.download is not None
        ):
            return
        if answer.diverging is not None:
            self._truncate(answer.diverging)
        elif answer.snapshot_id is not None:
            self._downloads.begin(role, answer.snapshot_id)
        elif not self._append(answer.records):
            # Not counted as heard: a leader that sends rubbish is no leader.
            quorum.peers.back_off(peer_id, quorum.now.monotonic_ms)
            return
        else:
            quorum.raise_high_watermark(answer.high_watermark)
        note_success(quorum, role)

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        quorum = self._quorum
        if diverging.offset < 0 or diverging.epoch < 0:
            raise InvariantViolation(f"{quorum.key}: diverging at {diverging}")
        offset = truncation_offset(quorum.log, quorum.snapshots, diverging)
        truncate(quorum, offset)

    def _append(self, records: bytes) -> bool:
        """Batches of this epoch or older ones that continue our log. False: they are broken."""
        quorum = self._quorum
        try:
            for position, header in iter_headers(records):
                if (
                    header.base_offset != quorum.log.end_offset
                    or header.leader_epoch > quorum.epoch
                ):
                    # The leader's log moved on between our question and its answer.
                    break
                verify_crc(records, position, header)
                batch = memoryview(records)[position : position + header.size]
                quorum.log.append(batch)
                note_control_records(quorum.history, batch, 0, header)
        except (CorruptRecord, UnsupportedForMessageFormat):
            quorum.ask_sync()
            return False
        if quorum.identity.is_controller:
            quorum.ask_sync()
        return True

    # -- told ---------------------------------------------------------------------------------

    def on_epoch(self, token: int, asked: BeginEpoch | EndEpoch) -> None:
        """A leader says that its epoch begins, or ends."""
        quorum = self._quorum
        error = fencing.cluster_error(quorum, asked.cluster_id)
        if error is None and asked.epoch < quorum.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        leader_id = asked.leader_id
        if error is None and (
            leader_id < 0 or not fencing.is_consistent(quorum, asked.epoch, leader_id)
        ):
            error = ErrorCode.INVALID_REQUEST
        if error is None:
            fencing.follow_listeners(quorum, asked.epoch, leader_id, asked.leader_listeners)
            if isinstance(asked, BeginEpoch):
                if not fencing.is_addressed(asked.voter, quorum.key):
                    error = ErrorCode.INVALID_VOTER_KEY
            else:
                self._step_up(asked)
        code = error or ErrorCode.NONE
        if isinstance(asked, BeginEpoch):
            quorum.reply(token, fencing.told(quorum, BeginEpochAnswer(error=code)))
        else:
            quorum.reply(token, fencing.told(quorum, EndEpochAnswer(error=code)))

    def _step_up(self, end: EndEpoch) -> None:
        """The leader leaves: this voter's turn to ask for votes comes by its place in the line."""
        quorum = self._quorum
        role = quorum.role
        if isinstance(role, Follower) and role.leader_id == end.leader_id:
            place = next(
                (n for n, key in enumerate(end.successors) if key.covers(quorum.key)), None
            )
            delay_ms = stagger_ms(
                place, len(end.successors), quorum.settings.election_backoff_max_ms
            )
            role.fetch_deadline_ms = quorum.now.monotonic_ms + delay_ms


def note_success(quorum: Quorum, role: Follower) -> None:
    """Only an answer of the leader resets the timer, never a request or a failure."""
    if quorum.role is role:
        role.fetch_deadline_ms = quorum.now.monotonic_ms + quorum.settings.fetch_timeout_ms
        role.has_fetched = True


def truncate(quorum: Quorum, offset: int) -> None:
    if offset < quorum.high_watermark:
        raise InvariantViolation(
            f"{quorum.key}: truncation to {offset}, below the high watermark"
            f" {quorum.high_watermark}"
        )
    if offset < quorum.log.end_offset:
        quorum.log.truncate_to(offset)
        quorum.history.truncate_to(quorum.log.end_offset)
        quorum.note_truncation()


def stagger_ms(place: int | None, count: int, max_ms: int) -> int:
    """The first successor at once, each later one after twice the wait, the unlisted last."""
    if place is None:
        return max_ms
    if place == 0:
        return 0
    return min(max_ms, (max_ms >> (count - 1)) << (place - 1))
