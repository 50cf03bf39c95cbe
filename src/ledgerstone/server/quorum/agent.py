"""A replica of the metadata quorum at work: `raft` over a disk and connections. Grade D.

It does what `RaftNode` decides, in the order of `Ready`. The vote (`quorum-state`) is stored on the
loop: elections are rare, and nothing may be said before it is durable. A sole voter also syncs its
log there, so that a change is answered in the turn that asked for it. Every other replica syncs by
an effect, and so are snapshots written, fetched and named.

A failed sync, or a contradiction, ends the process (`Halt`): a voter that went on could lie. A sole
voter lies to no one but itself; whoever asked gets the error, and nothing is built on it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from ledgerstone.clock import Clock
from ledgerstone.errors import (
    InvariantViolation,
    KafkaError,
    LogStorageError,
    NotController,
    NotLeaderOrFollower,
    StorageError,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.metadata_records import TopicRecord
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft import messages
from ledgerstone.raft.events import (
    Answered,
    Applied,
    Asked,
    Event,
    Failed,
    Leadership,
    LogSync,
    LogSynced,
    Now,
    Ready,
    Reply,
    Resign,
    Send,
    SnapshotFetched,
    Stop,
)
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import OffsetAndEpoch, Peer
from ledgerstone.raft.wire import translation
from ledgerstone.records.builder import RecordParts
from ledgerstone.server import results
from ledgerstone.server.calls import CallFailed, Calls
from ledgerstone.server.effects import (
    Effect,
    FreezeSnapshot,
    Halt,
    SyncMetadata,
    WriteSnapshot,
)
from ledgerstone.server.quorum.committed_batches import committed_batches
from ledgerstone.server.quorum.disk_log import DiskLog, refusal
from ledgerstone.server.quorum.door import CommittedBatch, MetadataStateMachine
from ledgerstone.server.quorum.meter import QuorumMeter
from ledgerstone.server.quorum.own_snapshots import OwnSnapshots
from ledgerstone.server.quorum.snapshot_files import SnapshotFiles
from ledgerstone.server.quorum.snapshot_reading import snapshot_records
from ledgerstone.server.results import Result

_LOG: Final = logging.getLogger(__name__)
# A disk that refused once is not asked at the pace of the network.
_DISK_BACKOFF_MS: Final = 1_000
_UNREADABLE: Final = (KafkaError, StorageError, ProtocolViolation, ValueError, OSError)

OnAnswer = Callable[[ApiMessage], None]


class QuorumTurn(Protocol):
    def act(self, effects: Iterable[Effect]) -> None: ...


class _Asker(NamedTuple):
    request: ApiMessage
    on_answer: OnAnswer


@dataclass(slots=True, kw_only=True)
class QuorumParts:
    """What a quorum agent is made of; see `opening`."""

    node: RaftNode
    log: DiskLog
    snapshots: SnapshotFiles
    state_file: QuorumStateFile
    own_snapshots: OwnSnapshots
    clock: Clock
    calls: Calls


class QuorumAgent:
    """`door.MetadataQuorum`, and an agent. `start` hands over what the log holds."""

    def __init__(self, parts: QuorumParts) -> None:
        self.node = parts.node
        self.log = parts.log
        self.snapshots = parts.snapshots
        self.calls = parts.calls
        self.turn: QuorumTurn | None = None
        self.halted: str | None = None
        self.meter = QuorumMeter()
        self._state_file = parts.state_file
        self._own_snapshots = parts.own_snapshots
        self._clock = parts.clock
        self._machine: MetadataStateMachine | None = None
        self._is_started = False
        # Of every topic there ever was, found at a start. None: a snapshot forgot the deleted ones.
        self.topic_ids: set[bytes] | None = set()
        # A sole voter whose disk has failed: it decides nothing until the next start.
        self._has_failed = False
        # Led until the next tick: the disk refused what was proposed.
        self._resigns_epoch: int | None = None
        self._applied_offset = parts.node.quorum.log.start_offset
        self._effects: list[Effect] = []
        # Performed as far as the disk and other nodes are concerned; the state machine is next.
        self._news: deque[Ready] = deque()
        self._is_advancing = False
        self._askers: dict[int, _Asker] = {}
        self._upgrades: dict[int, Callable[[int, str], None]] = {}
        self._next_token = 0

    def start(self, machine: MetadataStateMachine) -> None:
        """A sole voter leads when this returns, and has consumed its log. StorageError if the log
        is damaged."""
        self._machine = machine
        self.advance()
        self._is_started = True

    # -- `door.MetadataQuorum` ----------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.node.epoch

    @property
    def leader_id(self) -> int | None:
        return None if self._has_failed else self.node.role.leader_id

    @property
    def leader(self) -> Peer | None:
        return None if self._has_failed else self.node.quorum.leader_peer()

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self.node.high_watermark

    @property
    def committed_offset(self) -> int:
        """Of the last committed record."""
        return self.high_watermark - 1

    def propose(self, epoch: int, records: Sequence[RecordParts]) -> int:
        if self.halted is not None or self._has_failed:
            raise NotController("the disk of this controller has failed")
        now = self._now()
        try:
            end_offset = self.node.propose(now, epoch, records)
        except NotLeaderOrFollower as error:
            raise NotController(str(error)) from error
        except LogStorageError as error:
            if self.node.quorum.is_sole_voter:
                raise
            # Another node may have room. Its turn comes after that of whoever proposes here.
            self._resigns_epoch = epoch
            raise NotController(f"the disk of this controller refuses writes: {error}") from error
        self.meter.proposed(end_offset, now.monotonic_ms)
        return end_offset

    def advance(self) -> None:
        if self._is_advancing or self.halted is not None:
            return
        self._is_advancing = True
        try:
            self._perform()
            while self._news:
                self._tell(self._news.popleft())
                self._perform()
        finally:
            self._is_advancing = False
        now_ms = self._clock.monotonic_ms()
        self.meter.looked(self.epoch, self.leader_id, self.high_watermark, now_ms)
        if self.turn is not None:
            self.turn.act(self._take_effects())

    def resign(self, epoch: int) -> None:
        if self.log.log.failure is None:
            self._guarded(lambda: self.node.step(self._now(), Resign(epoch)))
        elif epoch == self.node.epoch and not self._has_failed:
            self._has_failed = True
            assert self._machine is not None
            self._machine.leadership(Leadership(epoch, None, False))

    # -- requests of other nodes --------------------------------------------------------------

    def ask(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        """A request of the quorum; answered now or later. InvalidRequest if it is about anything
        but the metadata partition."""
        asked = translation.request_from_wire(request)
        token, self._next_token = self._next_token, self._next_token + 1
        self._askers[token] = _Asker(request, on_answer)
        self._step(Asked(token, asked))

    def upgrade(self, version: int, on_end: Callable[[int, str], None]) -> None:
        """Raises kraft.version; says once how that ended: an error code and the reason."""
        token, self._next_token = self._next_token, self._next_token + 1
        self._upgrades[token] = on_end
        self._step(Asked(token, messages.UpgradeVersion(version=version)))

    def stop(self) -> None:
        """Hands the leadership over; `node.is_stopped` says when that is done."""
        self._step(Stop())

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if self._effects or self._resigns_epoch is not None:
            return 0
        if self.halted is not None:
            return None
        deadline_ms = min(self.node.next_deadline_ms, self._own_snapshots.next_deadline_ms)
        return None if deadline_ms >= NEVER else deadline_ms

    def tick(self) -> list[Effect]:
        now = self._now()
        if self._resigns_epoch is not None:
            epoch, self._resigns_epoch = self._resigns_epoch, None
            self.resign(epoch)
        if now.monotonic_ms >= self.node.next_deadline_ms:
            self._guarded(lambda: self.node.tick(now))
        if now.monotonic_ms >= self._own_snapshots.next_deadline_ms:
            self._write_snapshot_if_due()
        return self._take_effects()

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        failure = result.error if isinstance(result, results.Failed) else None
        match effect:
            case SyncMetadata():
                self._synced(effect, failure)
            case FreezeSnapshot():
                self._frozen(effect, failure)
            case WriteSnapshot():
                self._own_snapshots.ended(effect.work, failure, self.log, self.snapshots)
            case _:
                raise AssertionError(f"the quorum asked for no {type(effect).__name__}")
        return self._take_effects()

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # -- steps --------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.now_ms())

    def _step(self, event: Event) -> None:
        self._guarded(lambda: self._step_bare(event))

    def _step_bare(self, event: Event) -> None:
        now = self._now()
        try:
            self.node.step(now, event)
        except LogStorageError as error:
            if self.log.log.failure is not None or not isinstance(event, Answered):
                raise
            # A full disk: nothing was written, and the leader is asked again.
            _LOG.error("metadata not taken reason=%s", error)
            self.node.quorum.peers.back_off(event.peer_id, now.monotonic_ms, _DISK_BACKOFF_MS)
            self.node.tick(now)

    def _guarded(self, move: Callable[[], None]) -> None:
        """Makes a move and does what follows from it. Where that fails, a voter of several must
        not go on."""
        if self.halted is not None:
            return
        try:
            move()
            self.advance()
        except Exception as error:
            if self.node.quorum.is_sole_voter and not isinstance(error, InvariantViolation):
                raise
            self._halt(error)

    def _halt(self, error: BaseException) -> None:
        _LOG.critical("metadata quorum failed", exc_info=error)
        self.halted = f"{type(error).__name__}: {error}"
        self._emit(Halt(f"metadata quorum: {error}"))

    def _emit(self, effect: Effect) -> None:
        if self.turn is None or self._is_advancing:
            self._effects.append(effect)
        else:
            self.turn.act((effect,))

    # -- what `Ready` says --------------------------------------------------------------------

    def _perform(self) -> None:
        """Disk and messages, in their order."""
        while (ready := self.node.ready()) is not None:
            if ready.hard_state is not None:
                self._state_file.store(
                    ready.hard_state,
                    kraft_version=self.node.kraft_version,
                    voter_ids=self.node.voters.ids,
                )
            for message in ready.messages:
                self._say(message)
            if ready.sync is not None:
                self._sync(ready.sync)
            if ready.freeze is not None:
                self._freeze(ready.freeze)
            if (ready.load, ready.high_watermark, ready.leadership) != (None, None, None):
                self._news.append(ready)

    def _sync(self, sync: LogSync) -> None:
        if self.node.quorum.is_sole_voter:
            self.log.flush()
            self.node.step(self._now(), LogSynced(sync))
            return
        plan = self.log.plan_flush()
        if plan is None:
            self.node.step(self._now(), LogSynced(sync))
        else:
            self._emit(SyncMetadata(sync, plan))

    def _synced(self, effect: SyncMetadata, failure: OSError | None) -> None:
        if failure is not None:
            # The kernel may have marked the lost pages clean: a second try proves nothing.
            self.log.log.fail(f"fsync failed: {failure}")
            self._halt(failure)
            return
        self.log.flush_done(effect.plan)
        self._step(LogSynced(effect.sync))

    def _freeze(self, snapshot_id: OffsetAndEpoch) -> None:
        file = self.snapshots.take_part(snapshot_id)
        if file is not None:
            self._emit(FreezeSnapshot(snapshot_id, file))

    def _frozen(self, effect: FreezeSnapshot, failure: OSError | None) -> None:
        if failure is not None:
            self._halt(failure)
            return
        self.snapshots.appeared(effect.snapshot_id)
        self._step(SnapshotFetched(effect.snapshot_id))

    # -- messages -----------------------------------------------------------------------------

    def _say(self, message: Send | Reply) -> None:
        if isinstance(message, Reply):
            if (on_end := self._upgrades.pop(message.token, None)) is not None:
                answer = message.answer
                on_end(answer.error, getattr(answer, "message", None) or "")
                return
            asker = self._askers.pop(message.token)
            asker.on_answer(translation.answer_to_wire(asker.request, message.answer))
            return
        self.calls.ask(
            message.peer,
            translation.request_to_wire(message.request),
            partial(self._answered, message),
            timeout_ms=self.node.quorum.settings.request_timeout_ms,
            least_version=translation.least_version(message.request),
        )

    def _answered(self, sent: Send, answer: ApiMessage | CallFailed) -> None:
        peer_id, correlation = sent.peer.id, sent.correlation
        if isinstance(answer, CallFailed):
            self._step(Failed(peer_id, correlation, answer.is_unsupported))
            return
        try:
            found = translation.answer_from_wire(answer)
        except _UNREADABLE as error:
            _LOG.warning("answer not understood node=%d reason=%s", peer_id, error)
            self._step(Failed(peer_id, correlation))
            return
        is_vote = isinstance(sent.request, messages.Vote)
        if is_vote and found.error is ErrorCode.UNSUPPORTED_VERSION:
            self._step(Failed(peer_id, correlation, is_unsupported=True))
        else:
            self._step(Answered(peer_id, correlation, found))

    # -- the state machine --------------------------------------------------------------------

    def _tell(self, news: Ready) -> None:
        """In the order in which it became true. What a leader committed comes before its end."""
        machine = self._machine
        assert machine is not None
        if news.load is not None:
            self._load(machine, news.load)
        if news.high_watermark is not None:
            self._apply(machine, news.high_watermark)
        if news.leadership is not None:
            machine.leadership(news.leadership)
        self._write_snapshot_if_due()

    def _load(self, machine: MetadataStateMachine, snapshot_id: OffsetAndEpoch) -> None:
        path = self.snapshots.path_of(snapshot_id)
        try:
            file = self.snapshots.open(snapshot_id)
            try:
                machine.load(snapshot_id, snapshot_records(file, path))
            finally:
                file.close()
        except _UNREADABLE as error:
            raise refusal(f"{path}: {error}") from error
        self.topic_ids = None
        self._applied_offset = snapshot_id.offset
        self._own_snapshots.loaded(self._clock.monotonic_ms())
        self.log.committed(snapshot_id.offset)

    def _apply(self, machine: MetadataStateMachine, end: int) -> None:
        self.log.committed(end)
        offset = self._applied_offset
        try:
            for batch in committed_batches(self.log, offset, end):
                offset = batch.base_offset
                self._applied_offset = batch.next_offset
                machine.committed(batch if self._is_started else self._read_now(batch))
                self._own_snapshots.consumed(batch, self._clock.monotonic_ms())
                self.meter.applied(batch.timestamp)
                offset = batch.next_offset
        except _UNREADABLE as error:
            if self._is_started and isinstance(error, LogStorageError):
                raise
            raise refusal(f"{self.log.where(offset)}: {error}") from error
        self.node.step(self._now(), Applied(self._applied_offset))

    def _read_now(self, batch: CommittedBatch) -> CommittedBatch:
        """At a start: a record that cannot be read is damage of the log."""
        records = batch.records()
        if self.topic_ids is not None:
            self.topic_ids.update(r.topic_id for r in records if isinstance(r, TopicRecord))
        return batch._replace(records=lambda: records)

    def _write_snapshot_if_due(self) -> None:
        assert self._machine is not None
        now = self._now()
        work = self._own_snapshots.due(
            self.node, self._machine, self.snapshots, self._applied_offset, now
        )
        if work is not None:
            self._emit(WriteSnapshot(work))
