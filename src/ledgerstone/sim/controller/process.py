"""One process of a simulated cluster: the real controller link on a replica, and a broker's life.

Part of sim. It is the state machine of its machine's replica, and dies with it.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import LedgerstoneError
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.not_controller import not_controller
from ledgerstone.metadata.records import decode_record
from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.raft.events import Leadership, SnapshotPlan
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.controlling.agent import Controlling
from ledgerstone.server.controlling.batches import record_parts
from ledgerstone.server.forwarding import Forwarding
from ledgerstone.server.quorum.door import CommittedBatch
from ledgerstone.sim.controller.bootstrap import bootstrap
from ledgerstone.sim.controller.broker import SimBroker
from ledgerstone.sim.controller.clock import MachineClock
from ledgerstone.sim.controller.door import SimQuorum
from ledgerstone.sim.controller.exchange import SimCalls
from ledgerstone.sim.controller.stage import CLUSTER_ID, SimStage
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.memory_log import MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots
from ledgerstone.sim.world import Event, Violation

_RECORDS_A_BATCH = 50


class WatchedLink(ControllerLink):
    """The real one. A decision that fails costs it the lead; here that is a bug to be found."""

    def _resign_over(self, request: str) -> None:
        raise Violation("ControllerFault", f"{request}: {sys.exception()!r}")

    def jump(self, offset: int, image: MetadataImage) -> None:
        """Shows what another node has replayed."""
        self.committed_image.consume(Replayed(image, Delta()))
        self._committed_offset = offset


class SimProcess:
    """`sim.quorum.state_machine.State`, and whoever follows the metadata."""

    def __init__(self, stage: SimStage, machine: Machine, config: BrokerConfig) -> None:
        self.stage = stage
        self.machine = machine
        self.number = machine.number
        self.end_offset = 0
        self.digest = 0
        self.batches_since_snapshot = 0
        self.last_timestamp = 0
        self._incarnation = machine.incarnation
        self._wake: Event | None = None
        self._wake_ms = -1
        self.clock = MachineClock(machine)
        self.quorum = SimQuorum(machine, stage.judge.proposed)
        dice = stage.world.dice(f"controller{self.number}/{machine.incarnation}")
        self.controller = Controller(
            CLUSTER_ID, config, dice, session_timeout_ms=stage.config.session_ms
        )
        self.link = WatchedLink(self.quorum, self.controller, self.clock, bootstrap(stage.config))
        self.link.subscriber = self
        exchange = SimCalls(machine, stage, self._process_of)
        self.forwarding = Forwarding(
            clock=self.clock,
            leader=lambda: self.quorum.leader,
            heartbeats=exchange,
            others=exchange,
            heartbeat_interval_ms=stage.config.heartbeat_ms,
        )
        self.link.forwarder = self.forwarding
        self.controlling = Controlling(
            self.link,
            self.clock,
            idle_interval_ms=stage.config.idle_ms,
            is_alone=lambda: stage.config.nodes == 1,
        )
        self.broker: SimBroker | None = None
        if self.number in stage.config.broker_numbers:
            self.broker = SimBroker(stage, machine, self)

        machine.later(0, "agents", self._begin)

    def _begin(self) -> None:
        if self.broker is not None:
            self.broker.begin()
        self._guard(self._run_agents)

    def _process_of(self, number: int) -> "SimProcess | None":
        return process_of(self.stage.fleet[number])

    @property
    def image(self) -> MetadataImage:
        return self.link.image

    @property
    def is_asking(self) -> bool:
        """Requests wait for a controller: those of clients that have given up, too."""
        return len(self.forwarding.own) + len(self.forwarding.clients) > 0

    @property
    def is_alive(self) -> bool:
        return self.machine.incarnation == self._incarnation and self.machine.node is not None

    def when_awake(self, action: Callable[[], None]) -> None:
        def run() -> None:
            if self.is_alive:
                action()

        self.machine.when_awake("late request", run)

    # -- requests -----------------------------------------------------------------------------

    def serve(self, request: ApiMessage, on_answer: Callable[[ApiMessage], None]) -> None:
        """At the controller listener: another node forwards, or asks for itself. One that is not
        active says so, and does not forward again."""
        if self.link.is_active:
            self.ask(request, on_answer)
        else:
            on_answer(not_controller(request))

    def ask(self, request: ApiMessage, on_answer: Callable[[ApiMessage], None]) -> None:
        """Of this node, or of one of its clients."""
        if self.link.is_active:
            on_answer = self._judged(request, on_answer)
        self._guard(lambda: self.link.ask(request, on_answer))

    def ask_for_broker(self, request: ApiMessage, on_answer: Callable[[ApiMessage], None]) -> None:
        """What the broker of this process asks, for itself."""
        if self.link.is_active:
            on_answer = self._judged(request, on_answer)
        self._guard(lambda: self.link.ask(request, on_answer, by_broker=True))

    def _judged(
        self, request: ApiMessage, on_answer: Callable[[ApiMessage], None]
    ) -> Callable[[ApiMessage], None]:
        judge = self.stage.judge
        judge.look()
        judge.heard(self.quorum.epoch, request)
        if isinstance(request, BrokerHeartbeatRequest):
            # As the handlers do: a contact counts before anything waits.
            self.link.heard_from(request)
        ticket = judge.answers.asked(self.quorum.epoch, request)

        def answered(answer: ApiMessage) -> None:
            judge.answered(ticket, answer)
            on_answer(answer)

        return answered

    def _guard(self, call: Callable[[], object]) -> None:
        """No exception leaves the process."""
        try:
            call()
        except Violation:
            raise
        except (LedgerstoneError, AssertionError, LookupError, TypeError, ValueError) as error:
            raise Violation("ControllerFault", f"n{self.number}: {error!r}") from error
        self.schedule()

    # -- time ---------------------------------------------------------------------------------

    def schedule(self) -> None:
        if not self.is_alive:
            return
        due = [self.forwarding.next_deadline_ms, self.controlling.next_deadline_ms]
        if self.broker is not None:
            self.broker.notice()
            due.append(self.broker.next_deadline_ms)
        known = [ms for ms in due if ms is not None]
        if not known:
            return
        at_ms = self.machine.world_ms(min(known))
        if self._wake is not None and self._wake.action is not None:
            if at_ms == self._wake_ms:
                return
            self._wake.cancel()
        self._wake_ms = at_ms
        delay_ms = at_ms - self.stage.world.now_ms
        self._wake = self.machine.later(delay_ms, "agents", self._tick)

    def _tick(self) -> None:
        self._wake = None
        self._guard(self._run_agents)

    def _run_agents(self) -> None:
        self.controlling.tick()
        self.forwarding.tick()
        if self.broker is not None:
            self.broker.tick()

    # -- the state machine of the replica -----------------------------------------------------

    def apply(self, log: MemoryLog, high_watermark: int) -> None:
        truth = self.stage.judge.truth
        self.stage.judge.look()
        if self.stage.shares_images and not self.link.is_active:
            self._jump(log, high_watermark)
            return
        for entry in log.entries_from(self.end_offset):
            if entry.next_offset > high_watermark:
                break
            assert entry.base_offset == self.end_offset, (entry.base_offset, self.end_offset)
            batch = CommittedBatch(
                entry.base_offset,
                entry.next_offset,
                entry.epoch,
                self.last_timestamp,
                len(entry.data),
                lambda entry=entry: truth.records_of(entry),  # type: ignore[misc]
            )
            self.end_offset = entry.next_offset
            self.batches_since_snapshot += 1
            self._guard(lambda batch=batch: self.link.committed(batch))  # type: ignore[misc]
            self.stage.judge.shown(self.number, self.image, self.end_offset)

    def _jump(self, log: MemoryLog, high_watermark: int) -> None:
        truth = self.stage.judge.truth
        for entry in reversed(log.entries_from(self.end_offset)):
            moment = truth.moments.get(entry.next_offset)
            if moment is not None and entry.next_offset <= high_watermark:
                self.end_offset = entry.next_offset
                self._guard(partial(self.link.jump, entry.next_offset, moment.image))
                return

    def load(self, snapshots: MemorySnapshots, snapshot_id: OffsetAndEpoch) -> None:
        content = snapshots.read(snapshot_id, 0, snapshots.size_of(snapshot_id))
        self.end_offset = snapshot_id.offset
        self.batches_since_snapshot = 0
        self._guard(lambda: self.link.load(snapshot_id, _records_of(content)))
        if snapshot_id.offset:
            self.stage.world.mark("an image was loaded from a snapshot")
            self.stage.judge.shown(self.number, self.image, self.end_offset, whole=True)

    def leadership(self, leadership: Leadership) -> None:
        if self.link.is_active and not leadership.is_me and self.link.in_flight:
            self.stage.world.mark("a controller lost operations in flight")
        if leadership.is_me:
            self.stage.judge.leads(self.number, leadership.epoch)
            self.stage.judge.shown(self.number, self.image, self.end_offset, whole=True)
        self._guard(lambda: self.link.leadership(leadership))

    def snapshot(self, node: RaftNode, plan: SnapshotPlan, padding: int) -> bytes | None:
        found = self.link.snapshot()
        if found is None:
            self.stage.world.mark("a snapshot waited for a transaction")
            return None
        records = list(found)
        self.stage.judge.snapshot(self.number, self.end_offset, records)
        self.batches_since_snapshot = 0
        parts = record_parts(self.last_timestamp, records, self.link.image)
        content, offset = plan.head, plan.first_offset
        for start in range(0, len(parts), _RECORDS_A_BATCH):
            chunk = parts[start : start + _RECORDS_A_BATCH]
            content += bytes(
                build_batch(chunk, base_offset=offset, leader_epoch=plan.snapshot_id.epoch)
            )
            offset += len(chunk)
        return content + node.snapshot_foot(plan, offset)

    # -- `controller_link.MetadataSubscriber` -------------------------------------------------

    def metadata_committed(self, applied: Replayed) -> None:
        if self.broker is not None:
            self.broker.metadata_changed(applied)

    def metadata_refused(self, error: Exception) -> None:
        raise Violation("ControllerFault", f"n{self.number}: {error!r}")


def _records_of(content: bytes) -> Iterator[MetadataRecord]:
    for position, header in iter_headers(content):
        if header.is_control:
            continue
        for record in iter_records(content, position):
            assert record.value is not None
            yield decode_record(record.value)


def process_of(machine: Machine) -> "SimProcess | None":
    """The one that runs, if any."""
    state = machine.host.state
    if machine.node is None or not isinstance(state, SimProcess):
        return None
    return state
