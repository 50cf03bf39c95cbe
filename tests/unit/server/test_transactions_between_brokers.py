"""Transactions whose coordinator, partitions and group are on different brokers.

Every log has one replica, so no broker pulls from another: what is seen here is the way of
markers and of questions between brokers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ledgerstone.server.broker import Broker
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.logs import batch
from tests.kit.loopback_cluster import LoopbackCluster

TOPIC = "payments"
NODES = (1, 2, 3)
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
TIMEOUT_S = 20


@dataclass
class Three:
    cluster: LoopbackCluster

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.cluster.client_ports.values())

    def leader(self, topic: str, number: int) -> int:
        state = self.cluster.image(1).partition(topic, number)
        assert state is not None
        return state.leader

    def ask(self, node_id: int, request: ApiMessage, version: int) -> ApiMessage:
        return ask(f"127.0.0.1:{self.cluster.client_ports[node_id]}", request, version)

    def found(self, key: str, key_type: int) -> int:
        """The coordinator, once there is one."""

        def look() -> int | None:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            answer = self.ask(1, request, 4)
            assert isinstance(answer, FindCoordinatorResponse)
            (only,) = answer.coordinators
            return None if only.error_code else only.node_id

        node_id = wait_until(look, f"{key} has a coordinator", TIMEOUT_S)
        assert node_id is not None
        return node_id

    def end_offsets(self) -> dict[int, tuple[int, int]]:
        """Last stable offset and end of each partition of the topic."""

        def look(broker: Broker) -> dict[int, tuple[int, int]]:
            return {
                each.topic_partition.partition: (
                    each.log.last_stable_offset,
                    each.log.log_end_offset,
                )
                for each in broker.partitions
                if each.topic_partition.topic == TOPIC and each.is_leader
            }

        found: dict[int, tuple[int, int]] = {}
        for node_id in NODES:
            found |= self.cluster.on(node_id, look)
        return found


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    work: Path = tmp_path_factory.mktemp("three")
    with LoopbackCluster(work, settings=SETTINGS) as cluster:
        cluster.start()
        assert cluster.create_topic(1, TOPIC, partitions=3) == 0
        three = Three(cluster)
        three.found("any", 0)
        three.found("any", 1)
        cluster.wait_for(
            "internal topics are known",
            lambda image: {CONSUMER_OFFSETS, TRANSACTION_STATE, TOPIC} <= image.topics.keys(),
        )
        assert {three.leader(TOPIC, each) for each in range(3)} == set(NODES)
        yield three


def id_led_by(three: Three, node_id: int, topic: str, prefix: str) -> str:
    """A group or transactional id whose coordinator is that broker."""
    for number in range(1000):
        name = f"{prefix}-{number}"
        if three.leader(topic, partition_for(name, 3)) == node_id:
            return name
    raise AssertionError(f"no id for {node_id}")


def read_committed(three: Three, group: str) -> Counter[str]:
    """All values that can be read up to the last stable offsets."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": three.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    values: Counter[str] = Counter()
    at_end: set[int] = set()
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, each, 0) for each in range(3)])
    while len(at_end) < 3:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "nothing came"
        error = message.error()
        if error is None:
            values[(message.value() or b"").decode()] += 1
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            at_end.add(message.partition() or 0)
        else:
            raise AssertionError(error)
    consumer.close()
    return values


@pytest.mark.parametrize("node_id", NODES)
def test_markers_and_offsets_reach_every_broker(three: Three, node_id: int) -> None:
    transactional_id = id_led_by(three, node_id, TRANSACTION_STATE, f"txn{node_id}")
    groups = [id_led_by(three, each, CONSUMER_OFFSETS, f"group{node_id}") for each in NODES]
    assert three.found(transactional_id, 1) == node_id
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": three.bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(TIMEOUT_S)
    for round_number, is_commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in range(3):
            value = f"{node_id}/{round_number}/{'kept' if is_commit else 'dropped'}"
            producer.produce(TOPIC, value=value, partition=partition)
        for group in groups:
            consumer = confluent_kafka.Consumer(
                {"bootstrap.servers": three.bootstrap, "group.id": group}
            )
            place = confluent_kafka.TopicPartition(TOPIC, 0, round_number + 1)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], metadata, TIMEOUT_S)
            consumer.close()
        if is_commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def is_stable() -> bool:
        return all(stable == end for stable, end in three.end_offsets().values())

    wait_until(is_stable, "every transaction is marked", TIMEOUT_S)
    values = read_committed(three, "reader")
    own = {value: count for value, count in values.items() if value.startswith(f"{node_id}/")}
    assert own == {f"{node_id}/0/kept": 3, f"{node_id}/2/kept": 3}
    for group in groups:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": three.bootstrap, "group.id": group}
        )
        (found,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], TIMEOUT_S)
        assert found.offset == 3
        consumer.close()


@dataclass
class Producer2:
    """Transactions of version 2: partitions are added when they are written to."""

    three: Three
    transactional_id: str
    coordinator: int
    producer_id: int = -1
    producer_epoch: int = -1

    def init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )
        answer = self.three.ask(self.coordinator, request, 4)
        assert isinstance(answer, InitProducerIdResponse)
        assert answer.error_code == 0
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def produce(self, partition: int, value: str, version: int = 12) -> int:
        records = batch(
            ("key", value),
            timestamp=None,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        data = [ProducePartitionData(index=partition, records=records)]
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceTopicData(name=TOPIC, partition_data=data)],
        )
        leader = self.three.leader(TOPIC, partition)
        answer = self.three.ask(leader, request, version)
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    def commit_offset(self, group: str, offset: int, version: int = 5) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = self.three.ask(self.three.found(group, 0), request, version)
        assert isinstance(answer, TxnOffsetCommitResponse)
        return answer.topics[0].partitions[0].error_code

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            self.transactional_id, self.producer_id, self.producer_epoch, commit
        )
        answer = self.three.ask(self.coordinator, request, 5)
        assert isinstance(answer, EndTxnResponse)
        if not answer.error_code:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code


def test_partitions_are_added_at_a_coordinator_on_another_broker(three: Three) -> None:
    transactional_id = id_led_by(three, 2, TRANSACTION_STATE, "two")
    groups = [id_led_by(three, each, CONSUMER_OFFSETS, "of-two") for each in NODES]
    producer = Producer2(three, transactional_id, three.found(transactional_id, 1))
    producer.init()

    for round_number in range(2):
        assert [producer.produce(each, f"two/{round_number}") for each in range(3)] == [0, 0, 0]
        assert [producer.commit_offset(each, round_number + 1) for each in groups] == [0, 0, 0]
        assert producer.end(commit=True) == 0

    values = read_committed(three, "reader")
    assert {value: values[value] for value in ("two/0", "two/1")} == {"two/0": 3, "two/1": 3}


def test_what_no_client_added_is_refused_wherever_the_coordinator_is(three: Three) -> None:
    transactional_id = id_led_by(three, 3, TRANSACTION_STATE, "never-added")
    producer = Producer2(three, transactional_id, three.found(transactional_id, 1))
    producer.init()

    # 11 and 4 verify only; 120: TRANSACTION_ABORTABLE.
    assert [producer.produce(each, "never", version=11) for each in range(3)] == [120] * 3
    groups = [id_led_by(three, each, CONSUMER_OFFSETS, "of-never") for each in NODES]
    assert [producer.commit_offset(each, 1, version=4) for each in groups] == [120] * 3
    # A producer that was replaced.
    stale = Producer2(three, transactional_id, producer.coordinator)
    stale.producer_id, stale.producer_epoch = producer.producer_id, producer.producer_epoch
    producer.init()
    assert [stale.produce(each, "never") for each in range(3)] == [47] * 3
    assert all(stable == end for stable, end in three.end_offsets().values())


def test_brokers_list_what_they_coordinate(three: Three) -> None:
    for node_id in NODES:
        transactional_id = id_led_by(three, node_id, TRANSACTION_STATE, "listed")
        producer = Producer2(three, transactional_id, three.found(transactional_id, 1))
        producer.init()
        group = id_led_by(three, node_id, CONSUMER_OFFSETS, "listed")
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": three.bootstrap, "group.id": group}
        )
        place = confluent_kafka.TopicPartition(TOPIC, 0, 1)
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()

        listed = three.ask(node_id, ListTransactionsRequest(), 1)
        assert isinstance(listed, ListTransactionsResponse)
        ids = [each.transactional_id for each in listed.transaction_states]
        assert transactional_id in ids
        groups = three.ask(node_id, ListGroupsRequest(), 4)
        assert isinstance(groups, ListGroupsResponse)
        assert group in [each.group_id for each in groups.groups]
        for topic, names in (
            (TRANSACTION_STATE, ids),
            (CONSUMER_OFFSETS, [each.group_id for each in groups.groups]),
        ):
            assert {three.leader(topic, partition_for(each, 3)) for each in names} == {node_id}
