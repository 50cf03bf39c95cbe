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
from typing import Final, Protocol

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import (
    InvariantViolation,
    KafkaError,
    LogStorageError,
    NotController,
    NotLeaderOrFollower,
    StorageError,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.raft.events import (
    Answered,
    Applied,
    Event,
    Leadership,
    LogSync,
    LogSynced,
    Now,
    Ready,
    Resign,
    SnapshotFetched,
    SnapshotRefused,
    Stop,
)
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.peers import NEVER
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import OffsetAndEpoch, Peer
from ledgerstone.records.builder import RecordParts
from ledgerstone.server import results
from ledgerstone.server.calls import Calls
from ledgerstone.server.effects import (
    Effect,
    FreezeSnapshot,
    Halt,
    SyncMetadata,
    WriteSnapshot,
)
from ledgerstone.server.quorum.consuming import QuorumConsumer
from ledgerstone.server.quorum.disk_log import DiskLog
from ledgerstone.server.quorum.door import MetadataStateMachine
from ledgerstone.server.quorum.exchange import OnAnswer, OnEnd, QuorumExchange
from ledgerstone.server.quorum.meter import QuorumMeter
from ledgerstone.server.quorum.snapshot_files import SnapshotFiles
from ledgerstone.server.quorum.snapshot_reading import check_snapshot
from ledgerstone.server.results import Result

_LOG: Final = logging.getLogger(__name__)
# A disk that refused once is not asked at the pace of the network.
_DISK_BACKOFF_MS: Final = 1_000


class QuorumTurn(Protocol):
    def act(self, effects: Iterable[Effect]) -> None: ...


@dataclass(slots=True, kw_only=True)
class QuorumParts:
    """What a quorum agent is made of; see `opening`."""

    node: RaftNode
    log: DiskLog
    snapshots: SnapshotFiles
    state_file: QuorumStateFile
    consumer: QuorumConsumer
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
        self.meter: QuorumMeter = parts.consumer.meter
        self._state_file = parts.state_file
        self._consumer = parts.consumer
        self._clock = parts.clock
        # Led until the next tick: the disk refused what was proposed.
        self._resigns_epoch: int | None = None
        self._effects: list[Effect] = []
        # Performed as far as the disk and other nodes are concerned; the state machine is next.
        self._news: deque[Ready] = deque()
        self._is_advancing = False
        timeout_ms = parts.node.quorum.settings.request_timeout_ms
        self._exchange = QuorumExchange(parts.calls, timeout_ms, self._step)

    def start(self, machine: MetadataStateMachine) -> None:
        """A sole voter leads when this returns, and has consumed its log. StorageError if the log
        is damaged."""
        self._consumer.start(machine)
        self.advance()
        self._consumer.is_started = True

    @property
    def topic_ids(self) -> set[bytes] | None:
        """Of every topic there ever was. None: a snapshot has forgotten the deleted ones."""
        return self._consumer.topic_ids

    # -- `door.MetadataQuorum` ----------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.node.epoch

    @property
    def leader_id(self) -> int | None:
        return self.node.role.leader_id

    @property
    def leader(self) -> Peer | None:
        return self.node.quorum.leader_peer()

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
        if self.halted is not None:
            raise NotController("the disk of this controller has failed")
        now = self._now()
        try:
            end_offset = self.node.propose(now, epoch, records)
        except NotLeaderOrFollower as error:
            raise NotController(str(error)) from error
        except LogStorageError as error:
            if self.node.quorum.is_sole_voter:
                raise
            if self.log.log.failure is not None:
                self._halt(error)
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
        except InvariantViolation as error:
            if self._consumer.is_started:
                self._halt(error)
            raise
        finally:
            self._is_advancing = False
        now_ms = self._clock.monotonic_ms()
        self.meter.looked(self.epoch, self.leader_id, self.high_watermark, now_ms)
        if self.turn is not None:
            self.turn.act(self._take_effects())

    def resign(self, epoch: int) -> None:
        if self.log.log.failure is None:
            self._guarded(lambda: self.node.step(self._now(), Resign(epoch)))
        elif not self.node.quorum.is_sole_voter:
            self._halt(LogStorageError(self.log.log.failure))
        elif epoch == self.node.epoch:
            # There is no other node to go to. It leads on from what is committed, and every change
            # is refused with the disk's error: its log takes no more records.
            own_id = self.node.quorum.key.id
            self._consumer.machine.leadership(Leadership(epoch, own_id, True))

    # -- requests of other nodes --------------------------------------------------------------

    def ask(self, request: ApiMessage, on_answer: OnAnswer) -> None:
        """A request of the quorum; answered now or later. InvalidRequest if it is about anything
        but the metadata partition."""
        self._exchange.ask(request, on_answer)

    def upgrade(self, version: int, on_end: OnEnd) -> None:
        """Raises kraft.version; says once how that ended: an error code and the reason."""
        self._exchange.upgrade(version, on_end)

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
        deadline_ms = min(self.node.next_deadline_ms, self._consumer.own_snapshots.next_deadline_ms)
        return None if deadline_ms >= NEVER else deadline_ms

    def tick(self) -> list[Effect]:
        now = self._now()
        if self._resigns_epoch is not None:
            epoch, self._resigns_epoch = self._resigns_epoch, None
            self.resign(epoch)
        if now.monotonic_ms >= self.node.next_deadline_ms:
            self._guarded(lambda: self.node.tick(now))
        if now.monotonic_ms >= self._consumer.own_snapshots.next_deadline_ms:
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
                now_ms = self._clock.monotonic_ms()
                self._consumer.own_snapshots.ended(
                    effect.work, failure, self.log, self.snapshots, now_ms
                )
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
                self._exchange.say(message)
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
            self.log.log.fail(f"fsync failed: {failure}", failure)
            self._halt(failure)
            return
        self.log.flush_done(effect.plan)
        self._step(LogSynced(effect.sync))

    def _freeze(self, snapshot_id: OffsetAndEpoch) -> None:
        part = self.snapshots.part(snapshot_id)
        try:
            if part is not None:
                # It will take the log's place: nothing could be undone then.
                check_snapshot(*part)
        except (KafkaError, StorageError, ProtocolViolation, ValueError) as error:
            _LOG.error("fetched metadata snapshot refused id=%s reason=%s", snapshot_id, error)
            self.node.step(self._now(), SnapshotRefused(snapshot_id))
            return
        file = self.snapshots.take_part(snapshot_id)
        if file is not None:
            self._emit(FreezeSnapshot(snapshot_id, file))

    def _frozen(self, effect: FreezeSnapshot, failure: OSError | None) -> None:
        if failure is not None:
            self._halt(failure)
            return
        self.snapshots.appeared(effect.snapshot_id)
        self._step(SnapshotFetched(effect.snapshot_id))

    # -- the state machine --------------------------------------------------------------------

    def _tell(self, news: Ready) -> None:
        """In the order in which it became true. What a leader committed comes before its end."""
        consumer = self._consumer
        if news.load is not None:
            consumer.load(news.load)
        if news.high_watermark is not None:
            consumer.consume(news.high_watermark)
            self.node.step(self._now(), Applied(consumer.end_offset))
        if news.leadership is not None:
            consumer.machine.leadership(news.leadership)
        self._write_snapshot_if_due()

    def _write_snapshot_if_due(self) -> None:
        work = self._consumer.snapshot_due(self.node, self._now())
        if work is not None:
            self._emit(WriteSnapshot(work))
