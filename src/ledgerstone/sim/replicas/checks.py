"""What must hold of replicas at every step. Part of sim.

After each step only the nodes that acted are looked at, and of those only partitions that changed.
"""

from collections.abc import Callable

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.change_record import LeaderRecoveryState
from ledgerstone.metadata.image import MetadataImage, PartitionImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, ERASURES, TRANSACTION_STATE
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord
from ledgerstone.records.batch import iter_headers
from ledgerstone.replication.partition import Partition
from ledgerstone.server.quorum.committed_batches import committed_batches
from ledgerstone.sim.decisions import batches_of
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.world import Violation, World
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition

# Passes change batches of these, so their bytes are not compared.
COMPACTED_INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE, ERASURES)


@dataclass(slots=True)
class _Seen:
    """A replica as it was after the last step of its node."""

    log: PartitionLog
    end_offset: int
    high_watermark: int
    leader_epoch: int
    is_leader: bool


@dataclass(slots=True)
class _Shared:
    """What all replicas of a partition must agree on."""

    # Below this, records were committed by some leader.
    committed_to: int = 0
    # Last offset, leader epoch and CRC of each committed batch, by its base offset.
    batches: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    # Members of the in-sync set that lost their power since they caught up.
    tainted: set[int] = field(default_factory=set)
    isr: tuple[int, ...] = ()
    # Whoever lost its power or its disk, and was not in sync since.
    damaged: set[int] = field(default_factory=set)


class ReplicaChecks:
    """`unclean` are the topics that may elect a leader that lacks records."""

    def __init__(
        self,
        world: World,
        nodes: list[ClusterNode],
        compacted: frozenset[str],
        unclean: frozenset[str] = frozenset(),
        on_erasures: Callable[[], None] = lambda: None,
    ) -> None:
        self.world = world
        self._unclean = unclean
        # Told when the journal of erasures has moved on.
        self._on_erasures = on_erasures
        self.nodes = nodes
        self._compacted = compacted | frozenset(COMPACTED_INTERNAL)
        self._seen: dict[int, dict[TopicPartition, _Seen]] = {each.node_id: {} for each in nodes}
        self._boots: dict[int, int] = {}
        self._shared: dict[TopicPartition, _Shared] = {}
        # Committed records may be gone: no copy of them was left that could lead.
        self.excused: set[TopicPartition] = set()
        # An operator has been asked to elect whoever is there.
        self.rescued: set[TopicPartition] = set()
        self.image = MetadataImage(cluster_id="")
        self._image_offset = -1
        # Up to here the records of the metadata log were looked at.
        self._read_to = 0
        self._last_known: dict[TopicPartition, list[int]] = {}
        for node in nodes:
            node.on_death.append(self._died)

    @property
    def elections(self) -> int:
        return sum(len(each.leaders) for each in self._shared.values())

    @property
    def committed(self) -> int:
        return sum(each.committed_to for each in self._shared.values())

    # -- steps ----------------------------------------------------------------------------------

    def step(self) -> None:
        for node in self.nodes:
            if node.has_acted:
                node.has_acted = False
                if node.broker is not None:
                    self._look(node)

    def _look(self, node: ClusterNode) -> None:
        broker = node.broker
        assert broker is not None
        if broker.following.faults.count:
            # The broker goes on over it. Here, it is a bug that was found.
            raise Violation("MetadataApplies", f"{node.name}: {broker.following.faults.by_part}")
        offset = broker.quorum.committed_offset
        if offset > self._image_offset:
            self._read_metadata(node, broker.quorum.high_watermark)
            self._image_offset = offset
            if broker.image is not self.image:
                self.image = broker.image
                self._metadata_changed()
        known = self._seen[node.node_id]
        if self._boots.get(node.node_id) != node.boot:
            self._boots[node.node_id] = node.boot
            known.clear()
        for partition in broker.partitions:
            log = partition.log
            seen = known.get(partition.topic_partition)
            role = partition.role
            if (
                seen is not None
                and seen.log is log
                and seen.end_offset == log.log_end_offset
                and seen.high_watermark == log.high_watermark
                and seen.leader_epoch == role.leader_epoch
                and seen.is_leader == partition.is_leader
            ):
                continue
            self._changed(node, partition, seen if seen is not None and seen.log is log else None)
            known[partition.topic_partition] = _Seen(
                log,
                log.log_end_offset,
                log.high_watermark,
                role.leader_epoch,
                partition.is_leader,
            )

    def _changed(self, node: ClusterNode, partition: Partition, seen: _Seen | None) -> None:
        place, log = partition.topic_partition, partition.log
        name = f"{node.name} {place}"
        start, high, end = log.log_start_offset, log.high_watermark, log.log_end_offset
        if not start <= high <= end:
            raise Violation("LogBounds", f"{name}: start {start}, high watermark {high}, end {end}")
        shared = self._shared.setdefault(place, _Shared())
        if seen is not None and place not in self.excused:
            if high < seen.high_watermark:
                raise Violation(
                    "HighWatermarkRises", f"{name}: from {seen.high_watermark} to {high}"
                )
            if end < seen.end_offset:
                self.world.mark("a follower truncated its log")
                if end < seen.high_watermark:
                    text = f"{name}: from {seen.end_offset} to {end}, below {seen.high_watermark}"
                    raise Violation("TruncationKeepsCommitted", text)
        if partition.is_leader:
            epoch = partition.leader_epoch
            if seen is None or not seen.is_leader or seen.leader_epoch != epoch:
                self._leads(node, partition, shared)
            if high > shared.committed_to:
                self._commits(node, partition, shared)
                if place.topic == ERASURES:
                    self._on_erasures()

    # -- leaders --------------------------------------------------------------------------------

    def _leads(self, node: ClusterNode, partition: Partition, shared: _Shared) -> None:
        place, epoch = partition.topic_partition, partition.leader_epoch
        before = shared.leaders.setdefault(epoch, node.node_id)
        if before != node.node_id:
            text = f"{place} epoch {epoch}: brokers {before} and {node.node_id}"
            raise Violation("OneLeaderAnEpoch", text)
        if place in self.excused:
            self._start_over(partition, shared)
            return
        newest = max(shared.leaders)
        if epoch < newest:
            return
        end = partition.log.log_end_offset
        if end < shared.committed_to:
            text = f"{node.name} leads {place} epoch {epoch} to {end}, {shared.committed_to}"
            raise Violation("LeaderCompleteness", f"{text} was committed")
        if place.topic in self._compacted:
            return
        held = dict(_batches(partition.log, 0, end))
        start = partition.log.log_start_offset
        for base, batch in shared.batches.items():
            if batch[0] >= start and held.get(base) != batch:
                text = f"{node.name} leads {place}: batch {base} is {held.get(base)}, not {batch}"
                raise Violation("LeaderCompleteness", text)

    def _start_over(self, partition: Partition, shared: _Shared) -> None:
        end = partition.log.log_end_offset
        shared.batches = {base: each for base, each in shared.batches.items() if each[0] < end}
        shared.committed_to = min(shared.committed_to, end)

    def _commits(self, node: ClusterNode, partition: Partition, shared: _Shared) -> None:
        place, high = partition.topic_partition, partition.log.high_watermark
        if place in self.excused:
            shared.committed_to = high
            return
        if partition.leader_epoch < max(shared.leaders):
            text = f"{node.name} raises {place} to {high} in epoch {partition.leader_epoch}"
            self._judge_late(partition, shared, text)
        state = self._state_of(place)
        in_sync = () if state is None else state.isr
        for member in in_sync:
            end = self._end_of(member, place)
            if end is not None and end < high:
                text = f"{node.name} raises {place} to {high}, broker {member} has it to {end}"
                raise Violation("HighWatermarkIsReplicated", f"{text}, in sync: {in_sync}")
        if place.topic not in self._compacted:
            for base, batch in _batches(partition.log, shared.committed_to, high):
                known = shared.batches.setdefault(base, batch)
                if known != batch:
                    text = f"{node.name} {place} batch {base}: {batch}, committed as {known}"
                    raise Violation("CommittedStays", text)
        shared.committed_to = high

    def _judge_late(self, partition: Partition, shared: _Shared, text: str) -> None:
        """An old leader that has not heard of the new one commits only what the new one has."""
        place, high = partition.topic_partition, partition.log.high_watermark
        hosted = self._hosted(shared.leaders[max(shared.leaders)], place)
        if hosted is not None and hosted.is_leader and hosted.log.log_end_offset < high:
            raise Violation("OldLeadersCommitNothing", text)

    def _state_of(self, place: TopicPartition) -> PartitionImage | None:
        return self.image.partition(*place)

    def _hosted(self, node_id: int, place: TopicPartition) -> Partition | None:
        broker = self.nodes[node_id - 1].broker
        return None if broker is None else broker.partitions.find(place)

    def _end_of(self, node_id: int, place: TopicPartition) -> int | None:
        """Of a live process, or of one that is down since; None after a start that opened none."""
        hosted = self._hosted(node_id, place)
        if hosted is not None:
            return hosted.log.log_end_offset
        seen = self._seen[node_id].get(place)
        return None if seen is None else seen.end_offset

    # -- what may be lost -----------------------------------------------------------------------

    def _died(self, node: object, death: PowerLoss | None) -> None:
        assert isinstance(node, ClusterNode)
        if death is None:
            return
        for topic in self.image.topics.values():
            for number, state in topic.partitions.items():
                place = TopicPartition(topic.name, number)
                shared = self._shared.setdefault(place, _Shared())
                shared.damaged.add(node.node_id)
                members = {*state.isr, *state.eligible_leader_replicas}
                if node.node_id not in members:
                    continue
                shared.tainted.add(node.node_id)
                if members <= shared.tainted:
                    self.world.mark("power loss took the last copy")
                    self.excused.add(place)

    def damaged(self, place: TopicPartition) -> set[int]:
        """Nodes that lost their power or their disk, and were not in sync since."""
        return self._shared.setdefault(place, _Shared()).damaged

    def may_lose(self, node: ClusterNode) -> bool:
        """Whether each partition has a copy that is whole, and up, without this node's disk."""
        down = {each.node_id for each in self.nodes if not each.is_serving}
        for topic in self.image.topics.values():
            for number, state in topic.partitions.items():
                members = {*state.isr, *state.eligible_leader_replicas}
                shared = self._shared.get(TopicPartition(topic.name, number), _Shared())
                if node.node_id in members and members <= shared.tainted | down | {node.node_id}:
                    return False
        return True

    def _read_metadata(self, node: ClusterNode, end: int) -> None:
        """Every change of a partition: an image may have skipped some."""
        broker = node.broker
        assert broker is not None
        log = broker.quorum.log
        for batch in committed_batches(log, max(self._read_to, log.start_offset), end):
            self._read_to = batch.next_offset
            for record in batch.records():
                if isinstance(record, PartitionChangeRecord):
                    name = broker.image.topic_names.get(record.topic_id, "?")
                    self._partition_changed(TopicPartition(name, record.partition_id), record)

    def _partition_changed(self, place: TopicPartition, record: PartitionChangeRecord) -> None:
        last_known = self._last_known.get(place, [])
        if record.last_known_elr is not None:
            self._last_known[place] = record.last_known_elr
        if record.leader_recovery_state != LeaderRecoveryState.RECOVERING:
            return
        if record.leader in last_known:
            # Every copy was taken for lost (ELR). It has all that was committed, unless its power
            # was lost, too; then a better copy may be there, and nobody knows.
            self.world.mark("the last known leader leads again")
            if record.leader in self._shared.setdefault(place, _Shared()).damaged:
                self.excused.add(place)
            return
        self.world.mark("an unclean election")
        if place.topic not in self._unclean and place not in self.rescued:
            raise Violation("UncleanElection", f"{place} does not allow it")
        self.excused.add(place)

    def _metadata_changed(self) -> None:
        for place, shared in self._shared.items():
            state = self._state_of(place)
            if state is None or state.isr == shared.isr:
                continue
            joined = [each for each in state.isr if each not in shared.isr]
            shared.isr = state.isr
            # The controller may have noted a join that was committed only after the member, in sync
            # by then, had lost its power.
            late = {each for each in joined if self._hosted(each, place) is None} & shared.damaged
            shared.damaged -= {*joined} - late
            members = {*state.isr, *state.eligible_leader_replicas}
            shared.tainted = (shared.tainted | late) & members
            if members and members <= shared.tainted:
                # The others left, and those that are left have lost their power before.
                self.world.mark("power loss took the last copy")
                self.excused.add(place)
            for member in joined if place not in self.excused else ():
                end = self._end_of(member, place)
                if end is not None and end < shared.committed_to:
                    text = f"{place}: broker {member} joined with {end}, {shared.committed_to}"
                    raise Violation("IsrHoldsCommitted", f"{text} was committed")


def _batches(log: PartitionLog, low: int, high: int) -> list[tuple[int, tuple[int, int, int]]]:
    """Batches that end between the two offsets."""
    found: list[tuple[int, tuple[int, int, int]]] = []
    for data in batches_of(log, low):
        for _, header in iter_headers(data):
            if header.base_offset >= high:
                return found
            if header.last_offset >= low:
                facts = (header.last_offset, header.leader_epoch, header.crc)
                found.append((header.base_offset, facts))
    return found
