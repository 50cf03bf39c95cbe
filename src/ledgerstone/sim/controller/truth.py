"""The committed metadata log, read once for everybody: what is true at each offset. Part of sim.

Nodes are judged by it: their images, and what callers were answered. Records of an open metadata
transaction are not true before its end.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.records import decode_record
from ledgerstone.metadata.replay import FENCE, UNFENCE, apply
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ledgerstone.records.batch import read_header
from ledgerstone.records.record import iter_records
from ledgerstone.sim.controller.facts import RECOVERING, BrokerFact, PartitionFact, changed, made
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.world import Violation, World

Key = tuple[bytes, int]
# How many states of a partition are remembered, for answers that are on their way.
_STATES = 50


class Moment(NamedTuple):
    """The truth after one batch."""

    image: MetadataImage
    delta: Delta
    # A metadata transaction has begun, and not ended.
    is_open: bool = False


class CommittedIn(NamedTuple):
    """A committed batch on its way through the facts."""

    base_offset: int
    epoch: int


class Truth:
    def __init__(self, world: World, cluster_id: str) -> None:
        self._world = world
        self.image = MetadataImage(cluster_id=cluster_id)
        self.end_offset = 0
        self.version = 0
        self.moments: dict[int, Moment] = {0: Moment(self.image, Delta())}
        self.brokers: dict[int, BrokerFact] = {}
        self.partitions: dict[Key, PartitionFact] = {}
        # Every state of a partition, by its epoch.
        self.states: dict[Key, dict[int, PartitionFact]] = {}
        self.topics: dict[str, bytes] = {}
        # By name: at which version which id held it, None for none.
        self.names: dict[str, list[tuple[int, bytes | None]]] = {}
        self.ids: set[bytes] = set()
        self.removed: set[bytes] = set()
        # By resource name and key: at which version which value was set.
        self.settings: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
        self.next_producer_id = 0
        self.registered: dict[int, tuple[int, bytes]] = {}
        self.on_fenced: Callable[[int, BrokerFact, CommittedIn], None] = lambda *given: None
        self.on_unfenced: Callable[[int, BrokerFact, CommittedIn], None] = lambda *given: None
        self.on_changed: Callable[[Key, PartitionFact, PartitionFact], None] = lambda *given: None
        self._incarnations: dict[bytes, int] = {}
        # Of a transaction that is open: its records. None: no transaction.
        self._open: list[tuple[int, MetadataRecord]] | None = None
        self._decoded: dict[tuple[int, int], list[MetadataRecord]] = {}

    # -- reading ------------------------------------------------------------------------------

    def records_of(self, entry: Entry) -> list[MetadataRecord]:
        """Decoded once for all nodes."""
        known = self._decoded.get((entry.base_offset, entry.epoch))
        if known is None:
            known = []
            if not read_header(entry.data).is_control:
                for record in iter_records(entry.data, 0):
                    assert record.value is not None
                    known.append(decode_record(record.value))
            self._decoded[entry.base_offset, entry.epoch] = known
        return known

    def advance(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._consume(entry)

    def forget(self, kept: int) -> None:
        """All but the last `kept` moments and batches: a large cluster has many."""
        while len(self.moments) > kept:
            del self.moments[next(iter(self.moments))]
        while len(self._decoded) > kept:
            del self._decoded[next(iter(self._decoded))]

    def _consume(self, entry: Entry) -> None:
        batch = CommittedIn(entry.base_offset, entry.epoch)
        ready: list[tuple[int, MetadataRecord]] = []
        for offset, record in enumerate(self.records_of(entry), start=entry.base_offset):
            match record:
                case BeginTransactionRecord():
                    if self._open is not None:
                        raise Violation("OneTransaction", f"another one begins at {offset}")
                    self._open = []
                case EndTransactionRecord() | AbortTransactionRecord():
                    if self._open is None:
                        raise Violation("OneTransaction", f"none is open at {offset}")
                    if isinstance(record, EndTransactionRecord):
                        ready += self._open
                    else:
                        self._world.mark("an open transaction was aborted")
                    self._open = None
                case _ if self._open is not None:
                    self._open.append((offset, record))
                case _:
                    ready.append((offset, record))
        self.end_offset = entry.next_offset
        self.version += 1
        if ready:
            self._apply(ready, batch)
        else:
            self.moments[self.end_offset] = Moment(self.image, Delta(), self._open is not None)

    def _apply(self, ready: list[tuple[int, MetadataRecord]], batch: CommittedIn) -> None:
        elected: set[Key] = set()
        are_brokers_changed = False
        for offset, record in ready:
            are_brokers_changed |= self._fact(offset, record, batch, elected)
        replayed = apply(self.image, [record for _, record in ready])
        self.image = replayed.image
        is_open = self._open is not None
        self.moments[self.end_offset] = Moment(replayed.image, replayed.delta, is_open)
        self._check_leaders(self.partitions if are_brokers_changed else elected)
        self._check_image(replayed.delta)

    # -- facts --------------------------------------------------------------------------------

    def _fact(
        self, offset: int, record: MetadataRecord, batch: CommittedIn, elected: set[Key]
    ) -> bool:
        """Whether a broker changed."""
        match record:
            case TopicRecord():
                self._topic_made(record)
            case RemoveTopicRecord():
                self._topic_removed(record)
            case PartitionRecord():
                key = (record.topic_id, record.partition_id)
                if key in self.partitions:
                    raise Violation("PartitionShape", f"{key} is made twice")
                self._keep(key, made(record))
                elected.add(key)
            case PartitionChangeRecord():
                self._partition_changed(record, elected)
            case ClearElrRecord():
                self._elr_cleared(record)
            case ConfigRecord():
                history = self.settings.setdefault((record.resource_name, record.name), [])
                history.append((self.version, record.value))
            case ProducerIdsRecord():
                if record.next_producer_id <= self.next_producer_id:
                    raise Violation("ProducerIdsOnce", f"next is {record.next_producer_id} again")
                self.next_producer_id = record.next_producer_id
            case RegisterBrokerRecord():
                self._registered(offset, record)
                return True
            case BrokerRegistrationChangeRecord():
                self._broker_changed(record, batch)
                return True
            case UnregisterBrokerRecord():
                self.brokers.pop(record.broker_id, None)
                return True
        return False

    def _topic_made(self, record: TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.ids:
            raise Violation("OneIdAName", f"{record.name} is made twice without a deletion")
        self.ids.add(record.topic_id)
        self.topics[record.name] = record.topic_id
        self.names.setdefault(record.name, []).append((self.version, record.topic_id))

    def _topic_removed(self, record: RemoveTopicRecord) -> None:
        name = next((n for n, each in self.topics.items() if each == record.topic_id), None)
        if name is None:
            raise Violation("OneIdAName", "a topic is removed that does not exist")
        del self.topics[name]
        self.removed.add(record.topic_id)
        self.names[name].append((self.version, None))
        for key in [key for key in self.partitions if key[0] == record.topic_id]:
            del self.partitions[key]

    def _partition_changed(self, record: PartitionChangeRecord, elected: set[Key]) -> None:
        key = (record.topic_id, record.partition_id)
        before = self.partitions.get(key)
        if before is None:
            raise Violation("PartitionShape", f"{key} changes, but does not exist")
        after = changed(before, record)
        self._keep(key, after)
        if after.leader_epoch != before.leader_epoch:
            elected.add(key)
        self._marks(before, after)
        self.on_changed(key, before, after)

    def _keep(self, key: Key, fact: PartitionFact) -> None:
        fact.check(f"{key[0].hex()[:8]}-{key[1]}")
        self.partitions[key] = fact
        states = self.states.setdefault(key, {})
        states[fact.partition_epoch] = fact
        if len(states) > _STATES:
            del states[next(iter(states))]

    def _marks(self, before: PartitionFact, after: PartitionFact) -> None:
        if before.adding and not after.adding and set(before.adding) <= set(after.replicas):
            self._world.mark("a reassignment was completed")
        if after.leader == before.leader:
            return
        if after.leader == NO_LEADER:
            self._world.mark("a partition lost its leader")
        elif after.recovery == RECOVERING:
            self._world.mark("an unclean election")
        elif after.leader in before.elr and after.leader not in before.isr:
            self._world.mark("a leader was elected from the ELR")

    def _elr_cleared(self, record: ClearElrRecord) -> None:
        for key, fact in list(self.partitions.items()):
            if not record.topic_name or self.topics.get(record.topic_name) == key[0]:
                self._keep(key, fact.without_elr())

    def _registered(self, offset: int, record: RegisterBrokerRecord) -> None:
        known = self.brokers.get(record.broker_id)
        owner = self._incarnations.setdefault(record.incarnation_id, record.broker_id)
        if owner != record.broker_id:
            raise Violation("BrokerEpochs", f"an incarnation is {owner} and {record.broker_id}")
        is_amended = known is not None and known.incarnation == record.incarnation_id
        last_epoch, last_incarnation = self.registered.get(record.broker_id, (-1, b""))
        if is_amended:
            assert known is not None
            if record.broker_epoch != known.epoch:
                raise Violation("BrokerEpochs", f"{known} became epoch {record.broker_epoch}")
        elif record.broker_epoch <= last_epoch:
            raise Violation("BrokerEpochs", f"{record.broker_id}: {record.broker_epoch} again")
        elif record.incarnation_id == last_incarnation and known is not None:
            raise Violation("BrokerEpochs", f"{record.broker_id} registers once more")
        if record.broker_epoch > offset:
            raise Violation("BrokerEpochs", f"epoch {record.broker_epoch} at offset {offset}")
        for other_id, (epoch, _) in self.registered.items():
            if other_id != record.broker_id and epoch == record.broker_epoch:
                raise Violation("BrokerEpochs", f"{other_id}, {record.broker_id}: {epoch}")
        self.registered[record.broker_id] = (record.broker_epoch, record.incarnation_id)
        self.brokers[record.broker_id] = BrokerFact(
            record.broker_epoch,
            record.incarnation_id,
            offset,
            record.fenced,
            record.in_controlled_shutdown,
        )
        self._world.mark("a broker registered")

    def _broker_changed(self, record: BrokerRegistrationChangeRecord, batch: CommittedIn) -> None:
        fact = self.brokers.get(record.broker_id)
        if fact is None or fact.epoch != record.broker_epoch:
            raise Violation("BrokerEpochs", f"{record} is about {fact}")
        if record.fenced == FENCE:
            self._world.mark("a broker was fenced")
            self.on_fenced(record.broker_id, fact, batch)
            fact = fact._replace(fenced=True)
        elif record.fenced == UNFENCE:
            self._world.mark("a broker was unfenced")
            self.on_unfenced(record.broker_id, fact, batch)
            fact = fact._replace(fenced=False)
        if record.in_controlled_shutdown == 1:
            self._world.mark("a controlled shutdown began")
            fact = fact._replace(shutting_down=True)
        self.brokers[record.broker_id] = fact

    # -- after a batch ------------------------------------------------------------------------

    def _check_leaders(self, keys: Iterable[Key]) -> None:
        """Only active brokers lead, and only active ones are in sync."""
        for key in keys:
            fact = self.partitions.get(key)
            if fact is None:
                continue
            if fact.leader != NO_LEADER and not self._is_active(fact.leader):
                raise Violation(
                    "OnlyActiveBrokersLead", f"{key[0].hex()[:8]}-{key[1]}: {fact}, {self.brokers}"
                )
            inactive = [each for each in fact.isr if not self._is_active(each)]
            if inactive and not (len(fact.isr) == 1 and fact.leader == NO_LEADER):
                raise Violation(
                    "OnlyActiveBrokersInIsr",
                    f"{key[0].hex()[:8]}-{key[1]}: {fact}, {inactive} are not active",
                )

    def _is_active(self, broker_id: int) -> bool:
        fact = self.brokers.get(broker_id)
        return fact is not None and fact.is_active

    def _check_image(self, delta: Delta) -> None:
        """The image says what the facts say, wherever this batch touched it."""
        for each in (*delta.partitions_changed, *delta.partitions_added):
            fact = self.partitions[each.topic_id, each.partition]
            if fact.differs_from(each.after):
                raise Violation("ReplayFollowsRecords", f"{each.after} should be {fact}")
        for broker_id in delta.brokers_changed:
            broker, known = self.image.brokers.get(broker_id), self.brokers.get(broker_id)
            found = None if broker is None else (broker.broker_epoch, broker.fenced)
            if found != (None if known is None else (known.epoch, known.fenced)):
                raise Violation("ReplayFollowsRecords", f"{broker} should be {known}")

    # -- questions ----------------------------------------------------------------------------

    def held_since(self, name: str, version: int) -> list[bytes | None]:
        """Who held a name at `version`, and whoever did after that."""
        held: list[bytes | None] = [None]
        for at, topic_id in self.names.get(name, ()):
            if at <= version:
                held = [topic_id]
            else:
                held.append(topic_id)
        return held

    def settings_since(self, name: str, key: str, version: int) -> list[str | None]:
        """What was set at `version`, and whatever was after that."""
        found: list[str | None] = [None]
        for at, value in self.settings.get((name, key), ()):
            if at <= version:
                found = [value]
            else:
                found.append(value)
        return found

    def led_by(self, broker_id: int) -> list[Key]:
        return [key for key, fact in self.partitions.items() if fact.leader == broker_id]
