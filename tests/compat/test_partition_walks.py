"""The same events, drawn by lot, to Apache Kafka's controller and to ours: the partitions of both
must be equal after each. Kafka's are read from its metadata log.

Left out is what we do differently on purpose: brokers that are unregistered while eligible,
reassignments that contradict the one that runs or go on with its new replicas, unclean elections
switched on later, directories that fail with the heartbeat that unfences their broker, and
partitions whose eligible leader replicas in Kafka are no replicas any more, or whose last leader
there is -1.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from golden.cluster_plan import CLUSTER_ID
from golden.kafka_node import KafkaNode
from golden.kafka_tools import fetch_jars
from ledgerstone.config.broker import load_broker_config
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.features import ELR_FEATURE
from ledgerstone.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from ledgerstone.metadata.records import decode_record
from ledgerstone.metadata.replay import apply
from ledgerstone.protocol.codec import encode_request
from ledgerstone.protocol.message import ApiMessage, MetadataRecord, Struct
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
)
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestPartition,
    AssignReplicasToDirsRequestTopic,
)
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartition,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.values import record_values
from ledgerstone.sim.dice import SeededDice
from tests.compat import controller_recorded
from tests.compat.both_brokers import Side
from tests.compat.controller_questions import FAR, FEATURES
from tests.compat.quorum_recorded import REGISTERED

BROKERS = range(11, 17)
PARTITIONS = 3
STEPS = 400

Make = Callable[[MetadataImage], ApiMessage]


class Both:
    """Kafka's controller and ours. A request is made for each from its own image."""

    def __init__(self, side: Side, metadata: Path) -> None:
        self._side = side
        self._metadata = metadata
        self.theirs = MetadataImage(cluster_id=CLUSTER_ID)
        self._seen = 0
        # Partitions that cannot be compared any more.
        self.parted: set[tuple[str, int]] = set()
        config = load_broker_config(overrides=("node.id=1",)).config
        self._ours = Controller(CLUSTER_ID, config, SeededDice(1))
        self._next_offset = self._seen
        self._ours.replay(self._follow())
        self._next_offset = self._seen
        self._ours.lead(now_ms=0, next_offset=self._next_offset)

    @property
    def ours(self) -> MetadataImage:
        return self._ours.decided

    def ask(self, make: Make) -> None:
        theirs = self._ask_kafka(make(self.theirs))
        self._follow()
        request = make(self.ours)
        decision = self._ours.decide(request, now_ms=1, next_offset=self._next_offset)
        self._next_offset += len(decision.records)
        self._ours.replay(decision.records)
        assert list(_codes(decision.response)) == list(_codes(theirs)), (request, theirs)
        self.parted |= {
            key
            for key, it in _partitions(self.theirs).items()
            if not set(it.eligible_leader_replicas) <= set(it.replicas)
            or NO_LEADER in it.last_known_elr
        }
        ours, theirs_now = _partitions(self.ours), _partitions(self.theirs)
        assert ours.keys() == theirs_now.keys()
        for key in ours.keys() - self.parted:
            assert ours[key] == theirs_now[key], (key, request)

    def _ask_kafka(self, request: ApiMessage) -> ApiMessage:
        answer = self._side.ask(_Given(request), APIS[request.api_key].last_version)  # type: ignore[arg-type]
        assert answer is not None
        return answer

    def _follow(self) -> list[MetadataRecord]:
        """The records that Kafka has written since."""
        (file,) = self._metadata.glob("*.log")
        log = file.read_bytes()
        found: list[MetadataRecord] = []
        for position, header in iter_headers(log):
            if header.size == 0:
                break
            if header.base_offset >= self._seen:
                self._seen = header.next_offset
                if not header.is_control:
                    batch = memoryview(log)[position : position + header.size]
                    values = (value for value in record_values(batch) if value is not None)
                    found += [decode_record(value) for value in values]
        self.theirs = apply(self.theirs, found).image
        return found


class _Given:
    def __init__(self, request: ApiMessage) -> None:
        self._request = request

    def message(self, side: Side, version: int) -> ApiMessage:
        assert encode_request(self._request, version)
        return self._request


def _codes(answer: Any) -> Iterator[int]:
    """Every error code of an answer, in its order."""
    if isinstance(answer, list):
        for each in answer:
            yield from _codes(each)
    elif isinstance(answer, Struct | ApiMessage):
        for name in answer.__slots__:
            if name == "error_code":
                yield getattr(answer, name)
            else:
                yield from _codes(getattr(answer, name))


def _partitions(image: MetadataImage) -> Mapping[tuple[str, int], PartitionImage]:
    """Which replicas are eligible has no order; Kafka's is that of a hash table."""
    return {
        (name, number): replace(
            partition, eligible_leader_replicas=tuple(sorted(partition.eligible_leader_replicas))
        )
        for name, topic in image.topics.items()
        for number, partition in topic.partitions.items()
    }


class Walk:
    def __init__(self, both: Both, seed: int) -> None:
        self.both = both
        self.dice = random.Random(seed)
        self.incarnation = 0
        self.changes_min_isr = seed % 2 == 1
        self.hits: dict[str, int] = {}

    @property
    def image(self) -> MetadataImage:
        return self.both.theirs

    def begin(self) -> None:
        for broker_id in BROKERS:
            self.register(broker_id)
            self.heartbeat(broker_id)
        for number, (minimum, unclean) in enumerate(
            [(2, False), (2, True), (1, False), (3, False)]
        ):
            self.create(f"t{number}", minimum, unclean)

    def register(self, broker_id: int) -> None:
        self.incarnation += 1
        incarnation = bytes([broker_id]) + self.incarnation.to_bytes(15)
        self.both.ask(
            lambda image: BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=incarnation,
                listeners=[BrokerRegistrationListener("PLAINTEXT", "127.0.0.1", 1, 0)],
                features=[
                    BrokerRegistrationFeature(name, *each) for name, each in FEATURES.items()
                ],
                rack=None,
                log_dirs=[_directory(broker_id, number) for number in range(2)],
            )
        )

    def heartbeat(self, broker_id: int, **given: Any) -> None:
        self.both.ask(
            lambda image: BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=image.brokers[broker_id].broker_epoch,
                current_metadata_offset=FAR,
                **given,
            )
        )

    def create(self, name: str, minimum: int, unclean: bool) -> None:
        factor = self.dice.randint(2, 4)
        assignments = [
            CreateTopicsAssignment(number, self.dice.sample(BROKERS, factor))
            for number in range(PARTITIONS)
        ]
        configs = [
            CreateTopicsRequestConfig("min.insync.replicas", str(minimum)),
            CreateTopicsRequestConfig("unclean.leader.election.enable", str(unclean).lower()),
        ]
        topic = CreateTopicsRequestTopic(name, -1, -1, assignments, configs)
        self.both.ask(lambda image: CreateTopicsRequest(topics=[topic]))

    def step(self) -> None:
        events = [self.unfence] * 3 + [self.alter] * 6 + [self.reassign] * 2
        events += [self.fence, self.cancel, self.elect, self.fail_directory, self.assign]
        # Kafka remembers where a broker was eligible before min.insync.replicas changed, and holds
        # elections there when it comes back. So a walk has the one or the other.
        events += [self.set_min_isr] if self.changes_min_isr else [self.stop, self.revive]
        event = self.dice.choice(events)
        event()
        self.hits[event.__name__] = self.hits.get(event.__name__, 0) + 1

    def _broker(self) -> int:
        return self.dice.choice(BROKERS)

    def _key(self) -> tuple[str, int]:
        return self.dice.choice(sorted(_partitions(self.image).keys() - self.both.parted))

    def unfence(self) -> None:
        broker = self.image.brokers.get(self._broker())
        if broker is not None and not broker.in_controlled_shutdown:
            self.heartbeat(broker.broker_id)

    def fence(self) -> None:
        broker = self.image.brokers.get(self._broker())
        if broker is not None:
            self.heartbeat(broker.broker_id, want_fence=True)

    def stop(self) -> None:
        broker = self.image.brokers.get(self._broker())
        if broker is not None:
            self.heartbeat(broker.broker_id, want_shut_down=True)

    def revive(self) -> None:
        """A broker that no partition counts on is unregistered, and registers anew."""
        broker_id = self._broker()
        partitions = _partitions(self.image).values()
        if any(broker_id in (*p.isr, *p.eligible_leader_replicas) for p in partitions):
            return
        if broker_id in self.image.brokers:
            self.both.ask(lambda image: UnregisterBrokerRequest(broker_id=broker_id))
        self.register(broker_id)
        self.heartbeat(broker_id)

    def alter(self) -> None:
        """Mostly what a leader may ask for, sometimes not."""
        name, number = self._key()
        it = self.image.topics[name].partitions[number]
        sender = it.leader if it.leader >= 0 else self._broker()
        if sender not in self.image.brokers:
            return
        is_wrong = self.dice.random() < 0.2
        pool = [b for b in BROKERS if b in it.replicas or is_wrong]
        if not is_wrong:
            pool = [b for b in pool if b in self.image.brokers and self.image.brokers[b].is_active]
        isr = [b for b in pool if b == sender or self.dice.random() < 0.7]
        self.dice.shuffle(isr)
        late = self.dice.choice([0, 0, 0, 0, 0, 1, -1])

        def make(image: MetadataImage) -> ApiMessage:
            topic = image.topics[name]
            present = topic.partitions[number]
            wanted = AlterPartitionRequestPartition(
                partition_index=number,
                leader_epoch=present.leader_epoch,
                new_isr_with_epochs=[AlterPartitionNewIsrWithEpoch(b, -1) for b in isr],
                partition_epoch=present.partition_epoch + late,
            )
            return AlterPartitionRequest(
                broker_id=sender,
                broker_epoch=image.brokers[sender].broker_epoch,
                topics=[AlterPartitionRequestTopic(topic.topic_id, [wanted])],
            )

        self.both.ask(make)

    def reassign(self) -> None:
        name, number = self._key()
        it = self.image.topics[name].partitions[number]
        target = self.dice.sample(BROKERS, self.dice.randint(1, 4))
        is_plain = set(target) - set(it.replicas) and set(it.replicas) - set(target)
        goes_on = set(target) & set(it.adding_replicas)
        if it.is_reassigning and (goes_on or not is_plain):
            return
        self._reassign(name, AlterReassignmentsPartition(number, target), self.dice.random() < 0.8)

    def cancel(self) -> None:
        name, number = self._key()
        it = self.image.topics[name].partitions[number]
        if set(it.isr) <= set(it.adding_replicas):
            # Where it is allowed, only ours says that the leader recovers.
            return
        self._reassign(name, AlterReassignmentsPartition(number, None), True)

    def _reassign(self, name: str, wanted: AlterReassignmentsPartition, any_factor: bool) -> None:
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=any_factor,
            topics=[AlterReassignmentsTopic(name, [wanted])],
        )
        self.both.ask(lambda image: request)

    def elect(self) -> None:
        name, number = self._key()
        request = ElectLeadersRequest(
            election_type=self.dice.randint(0, 1),
            topic_partitions=[ElectLeadersTopicPartition(name, [number])],
        )
        self.both.ask(lambda image: request)

    def fail_directory(self) -> None:
        broker = self.image.brokers.get(self._broker())
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return
        if len(broker.log_dirs) > 1:
            self.heartbeat(broker.broker_id, offline_log_dirs=[self.dice.choice(broker.log_dirs)])

    def assign(self) -> None:
        broker_id, (name, number) = self._broker(), self._key()
        if broker_id not in self.image.brokers:
            return
        directory = _directory(broker_id, self.dice.randint(0, 1))

        def make(image: MetadataImage) -> ApiMessage:
            partition = AssignReplicasToDirsRequestPartition(number)
            topic = AssignReplicasToDirsRequestTopic(image.topics[name].topic_id, [partition])
            return AssignReplicasToDirsRequest(
                broker_id,
                image.brokers[broker_id].broker_epoch,
                [AssignReplicasToDirsRequestDirectory(directory, [topic])],
            )

        self.both.ask(make)

    def set_min_isr(self) -> None:
        name, _ = self._key()
        change = IncrementalAlterConfigsConfig(
            "min.insync.replicas", 0, str(self.dice.randint(1, 3))
        )
        resource = IncrementalAlterConfigsResource(2, name, [change])
        self.both.ask(lambda image: IncrementalAlterConfigsRequest(resources=[resource]))


def _directory(broker_id: int, number: int) -> bytes:
    return bytes([0x80 + broker_id, number]) + bytes(14)


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(2))
def test_partitions_are_the_same_after_every_event(seed: int, tmp_path: Path) -> None:
    planned = controller_recorded.plan()
    node = KafkaNode(jars=fetch_jars(), plan=planned, planned=planned.node(1), work=tmp_path)
    node.format()
    node.start()
    side = Side("kafka", planned.node(1).controller)
    try:
        node.wait_for(REGISTERED)
        both = Both(side, node.metadata)
        walk = Walk(both, seed)
        walk.begin()
        assert both.theirs.features[ELR_FEATURE] == 1
        for _ in range(STEPS):
            walk.step()
    finally:
        side.close()
        node.kill()
    assert len(walk.hits) == (9 if walk.changes_min_isr else 10), "the walk came by everything"
    assert len(both.parted) < 4 * PARTITIONS, "there was something to compare to the end"
