"""A leader's answers to Fetch and FetchSnapshot, and the fetches that wait for news. Pure."""

from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import fencing
from ledgerstone.raft.leader import Leader, ParkedFetch
from ledgerstone.raft.messages import Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.positions import Diverging, NeedsSnapshot, judge
from ledgerstone.raft.quorum import Quorum
from ledgerstone.raft.replica import NO_SNAPSHOT
from ledgerstone.types import NO_OFFSET

# More than any cluster has; a bound on what strangers can make a leader remember.
MAX_REPLICAS: Final = 10_000


class Serving:
    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # -- Fetch --------------------------------------------------------------------------------

    def on_fetch(self, token: int, fetch: Fetch) -> None:
        quorum = self._quorum
        error = fencing.cluster_error(quorum, fetch.cluster_id)
        end = fetch.log_end
        if error is None and (end.offset < 0 or end.epoch < 0 or end.epoch > fetch.epoch):
            error = ErrorCode.INVALID_REQUEST
        if error is None:
            error = fencing.leader_only_error(quorum, fetch.epoch)
        role = quorum.role
        if error is not None or not isinstance(role, Leader):
            refused = FetchAnswer(
                error=error or ErrorCode.NONE, log_start_offset=quorum.log.start_offset
            )
            quorum.reply(token, fencing.told(quorum, refused))
            return
        self._hear(role, fetch)
        answer = self._answer(role, fetch, records_progress=True)
        if fetch.max_wait_ms <= 0 or _has_news(answer, fetch):
            quorum.reply(token, answer)
            return
        deadline_ms = quorum.now.monotonic_ms + fetch.max_wait_ms
        role.parked.append(ParkedFetch(token=token, fetch=fetch, deadline_ms=deadline_ms))

    def _hear(self, role: Leader, asked: Fetch | FetchSnapshot) -> None:
        quorum = self._quorum
        timeout_ms = quorum.settings.check_quorum_timeout_ms
        role.hear(asked.replica, quorum.voters, quorum.now.monotonic_ms, timeout_ms)

    def _answer(self, role: Leader, fetch: Fetch, *, records_progress: bool) -> FetchAnswer:
        """Uncommitted records are served, too: that is how they get committed."""
        quorum = self._quorum
        position = judge(quorum.log, quorum.snapshots, fetch.log_end)
        start = quorum.log.start_offset
        if isinstance(position, Diverging):
            found = FetchAnswer(diverging=position.end, log_start_offset=start)
        elif isinstance(position, NeedsSnapshot):
            found = FetchAnswer(snapshot_id=position.snapshot_id, log_start_offset=start)
        else:
            if records_progress:
                self._record(role, fetch)
            records = b""
            if fetch.log_end.offset < quorum.log.end_offset:
                max_bytes = min(fetch.max_bytes, quorum.settings.fetch_max_bytes)
                records = quorum.log.read(fetch.log_end.offset, max_bytes)
            found = FetchAnswer(records=records, log_start_offset=start)
        known = NO_OFFSET if role.high_watermark is None else role.high_watermark
        return fencing.told(quorum, found._replace(high_watermark=known))

    def _record(self, role: Leader, fetch: Fetch) -> None:
        quorum = self._quorum
        if fetch.replica.id < 0 or fetch.replica == quorum.key:
            return
        is_known = fetch.replica in role.progress or quorum.voters.match(fetch.replica) is not None
        if not is_known and len(role.progress) >= MAX_REPLICAS:
            # Anyone may call itself a replica. It is served, and not kept in mind.
            return
        now = quorum.now
        end_offset, own_end = fetch.log_end.offset, quorum.log.end_offset
        role.record_fetch(fetch.replica, end_offset, own_end, now.monotonic_ms, now.wall_ms)
        self.advance(role)

    def advance(self, role: Leader) -> None:
        """The only place where a leader's high watermark moves."""
        quorum = self._quorum
        if role.advance(quorum.voters, quorum.synced_end):
            assert role.high_watermark is not None
            quorum.raise_high_watermark(role.high_watermark)

    # -- waiting ------------------------------------------------------------------------------

    def poll(self, role: Leader) -> int:
        """Answers parked fetches that have news by now, or have waited long enough."""
        quorum = self._quorum
        now_ms = quorum.now.monotonic_ms
        again_ms = min((parked.deadline_ms for parked in role.parked), default=NEVER)
        news = (quorum.log.end_offset, role.high_watermark, quorum.log.start_offset)
        if news == role.told and now_ms < again_ms:
            return again_ms
        role.told = news
        again_ms = NEVER
        waiting = []
        for parked in role.parked:
            answer = self._answer(role, parked.fetch, records_progress=False)
            if now_ms >= parked.deadline_ms or _has_news(answer, parked.fetch):
                quorum.reply(parked.token, answer)
            else:
                again_ms = min(again_ms, parked.deadline_ms)
                waiting.append(parked)
        role.parked = waiting
        return again_ms

    def turn_away(self, former: Leader) -> None:
        """The leadership is gone: waiting replicas must look for the next leader."""
        refused = FetchAnswer(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER, log_start_offset=self._quorum.log.start_offset
        )
        for parked in former.parked:
            self._quorum.reply(parked.token, fencing.told(self._quorum, refused))
        former.parked = []

    # -- FetchSnapshot ------------------------------------------------------------------------

    def on_fetch_snapshot(self, token: int, asked: FetchSnapshot) -> None:
        self._quorum.reply(token, self._chunk(asked))

    def _chunk(self, asked: FetchSnapshot) -> FetchSnapshotAnswer:
        quorum = self._quorum
        error = fencing.cluster_error(quorum, asked.cluster_id) or fencing.leader_only_error(
            quorum, asked.epoch
        )
        if error is None and asked.max_bytes < 0:
            # The disk would refuse it, and a leader whose disk fails ends its process.
            error = ErrorCode.INVALID_REQUEST
        role = quorum.role
        if error is not None or not isinstance(role, Leader):
            return fencing.told(quorum, FetchSnapshotAnswer(error=error or ErrorCode.NONE))
        self._hear(role, asked)
        snapshot_id = asked.snapshot_id
        if snapshot_id == NO_SNAPSHOT or snapshot_id not in quorum.snapshots.ids():
            return fencing.told(quorum, FetchSnapshotAnswer(error=ErrorCode.SNAPSHOT_NOT_FOUND))
        size = quorum.snapshots.size_of(snapshot_id)
        if not 0 <= asked.position < size:
            return fencing.told(quorum, FetchSnapshotAnswer(error=ErrorCode.POSITION_OUT_OF_RANGE))
        max_bytes = min(asked.max_bytes, quorum.settings.fetch_snapshot_max_bytes)
        chunk = quorum.snapshots.read(snapshot_id, asked.position, max_bytes)
        return fencing.told(
            quorum,
            FetchSnapshotAnswer(
                snapshot_id=snapshot_id, size=size, position=asked.position, chunk=chunk
            ),
        )


def _has_news(answer: FetchAnswer, fetch: Fetch) -> bool:
    return bool(
        answer.records
        or answer.diverging is not None
        or answer.snapshot_id is not None
        or answer.high_watermark > fetch.high_watermark
    )
