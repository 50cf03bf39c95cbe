"""Controllers on a desk: real replicas over memory, each with the broker's own controller link.

Messages wait until `deliver` or `run`, so a test decides how far a decision has come.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ledgerstone.config.broker import load_broker_config
from ledgerstone.errors import NotController, NotLeaderOrFollower
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import Endpoint, MetadataImage
from ledgerstone.metadata.records import decode_record
from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.raft import messages
from ledgerstone.raft.events import Ready
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import NO_SNAPSHOT, OffsetAndEpoch, Peer
from ledgerstone.raft.settings import Settings
from ledgerstone.records.batch import iter_headers, read_header
from ledgerstone.records.builder import RecordParts
from ledgerstone.records.record import iter_records
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.quorum.door import CommittedBatch
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.types import Buffer
from tests.kit.quorum import CLUSTER, WALL_MS, Desk, Replica, key_of


@dataclass
class Follower:
    """A broker that follows the metadata: the images it was shown, in order."""

    shown: list[Replayed] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)

    def metadata_committed(self, applied: Replayed) -> None:
        self.shown.append(applied)

    def metadata_refused(self, error: Exception) -> None:
        self.refusals.append(error)


class DeskClock:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def now_ms(self) -> int:
        return WALL_MS + self._desk.now_ms

    def monotonic_ms(self) -> int:
        return self._desk.now_ms


class DeskQuorum:
    """`door.MetadataQuorum` of one node."""

    def __init__(self, desk: "ControllerDesk", node_id: int) -> None:
        self._desk = desk
        self._node_id = node_id
        # What the disk says next, once.
        self.append_error: Exception | None = None
        self.sync_error: Exception | None = None

    @property
    def _replica(self) -> Replica:
        return self._desk[self._node_id]

    @property
    def epoch(self) -> int:
        return self._replica.raft.epoch

    @property
    def leader_id(self) -> int | None:
        return getattr(self._replica.role, "leader_id", None)

    @property
    def leader(self) -> Peer | None:
        leader_id = self.leader_id
        return None if leader_id is None else Peer(leader_id, f"host{leader_id}", 9093)

    @property
    def end_offset(self) -> int:
        return self._replica.log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._replica.raft.high_watermark

    def propose(self, epoch: int, records: Sequence[RecordParts]) -> int:
        error, self.append_error = self.append_error, None
        if error is not None:
            raise error
        try:
            return self._replica.raft.propose(self._desk.now, epoch, records)
        except NotLeaderOrFollower as refusal:
            raise NotController(str(refusal)) from refusal

    def advance(self) -> None:
        error, self.sync_error = self.sync_error, None
        if error is not None:
            raise error
        self._desk.perform(self._node_id)
        if len(self._replica.raft.voters) == 1:
            # A sole voter syncs inline.
            self._desk.deliver()

    def resign(self, epoch: int) -> None:
        if isinstance(self._replica.role, Leader) and self.epoch == epoch:
            self._desk.resign(self._node_id)


@dataclass
class ControllerNode:
    quorum: DeskQuorum
    controller: Controller
    link: ControllerLink
    broker: Follower
    consumed: int = 0
    decoded: int = 0

    @property
    def image(self) -> MetadataImage:
        return self.link.image


class ControllerDesk(Desk):
    def __init__(
        self,
        voters: int = 3,
        *,
        observers: int = 0,
        settings: Settings | None = None,
        seed: str = "controllers",
    ) -> None:
        super().__init__(voters, observers=observers, settings=settings, seed=seed)
        self.nodes: dict[int, ControllerNode] = {}
        self._performing: set[int] = set()
        self._incarnations = itertools.count()

    def node(self, node_id: int) -> ControllerNode:
        return self.nodes[node_id]

    def start(self, *ids: int) -> None:
        for node_id in ids or range(len(self.replicas)):
            self.nodes[node_id] = self._new_node(node_id)
        super().start(*ids)

    def _new_node(self, node_id: int) -> ControllerNode:
        quorum = DeskQuorum(self, node_id)
        config = load_broker_config(overrides=[f"node.id={node_id}"]).config
        dice = SeededDice(f"{self.seed}/controller{next(self._incarnations)}")
        controller = Controller(CLUSTER, config, dice)
        link = ControllerLink(quorum, controller, DeskClock(self))
        broker = Follower()
        link.subscriber = broker
        return ControllerNode(quorum, controller, link, broker)

    # -- asking -------------------------------------------------------------------------------

    def request(self, node_id: int, request: ApiMessage) -> list[ApiMessage]:
        """The answers: none yet, or one. Nothing is delivered meanwhile."""
        answers: list[ApiMessage] = []
        self.nodes[node_id].link.ask(request, answers.append)
        return answers

    def acknowledge(self, node_id: int, follower_id: int, offset: int) -> None:
        """As if that voter had everything below `offset`; it must not be elected afterwards."""
        replica = self.replicas[node_id]
        epoch = replica.log.epoch_of(offset - 1)
        assert epoch is not None
        fetch = messages.Fetch(
            cluster_id=CLUSTER,
            replica=key_of(follower_id),
            epoch=replica.raft.epoch,
            log_end=OffsetAndEpoch(offset, epoch),
        )
        self.send(node_id, fetch)

    # -- hands --------------------------------------------------------------------------------

    def perform(self, node_id: int) -> None:
        self._perform(node_id)

    def _perform(self, node_id: int) -> None:
        """A call from inside does nothing: the outer one goes on until nothing is left."""
        if node_id in self._performing:
            return
        self._performing.add(node_id)
        try:
            super()._perform(node_id)
        finally:
            self._performing.discard(node_id)

    def _act(self, node_id: int, replica: Replica, ready: Ready) -> None:
        super()._act(node_id, replica, ready)
        node = self.nodes[node_id]
        if ready.load is not None and ready.load != NO_SNAPSHOT:
            size = replica.snapshots.size_of(ready.load)
            content = replica.snapshots.read(ready.load, 0, size)
            node.link.load(ready.load, records_in(content))
            node.consumed = ready.load.offset
        if ready.high_watermark is not None:
            for entry in replica.log.entries_from(node.consumed):
                if entry.next_offset > ready.high_watermark:
                    break
                node.consumed = entry.next_offset
                node.link.committed(_committed(node, entry))
        if ready.leadership is not None:
            node.link.leadership(ready.leadership)


def register(desk: ControllerDesk, leader_id: int, *broker_ids: int) -> None:
    """Brokers that take part at once; without ids, the controller's own."""
    node = desk.node(leader_id)
    for broker_id in broker_ids or (leader_id,):
        registration = Registration(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id + 1]) * 16,
            endpoints=[Endpoint("PLAINTEXT", f"host{broker_id}", 9092, 0)],
        )
        epoch = node.quorum.end_offset
        node.link.write(node.controller.register_broker(registration, broker_epoch=epoch))
        node.link.write(node.controller.unfence_broker(broker_id, broker_epoch=epoch))


def _committed(node: ControllerNode, entry: Entry) -> CommittedBatch:
    def records() -> list[MetadataRecord]:
        node.decoded += 1
        return list(records_in(entry.data))

    header = read_header(entry.data)
    return CommittedBatch(
        entry.base_offset,
        entry.next_offset,
        entry.epoch,
        header.max_timestamp,
        len(entry.data),
        records,
    )


def records_in(content: Buffer) -> Iterator[MetadataRecord]:
    for position, header in iter_headers(content):
        if not header.is_control:
            for record in iter_records(content, position):
                assert record.value is not None
                yield decode_record(record.value)
