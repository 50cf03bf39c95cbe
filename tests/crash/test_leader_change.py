"""What a new leader knows of producers: scenarios 91, 92, 93 and 95 on three brokers."""

from functools import partial
from pathlib import Path
from typing import Any, Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.end_txn import EndTxnRequest
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.server.broker import Broker
from ledgerstone.types import TopicPartition
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.exactly_once import read_all
from tests.kit.logs import batch
from tests.kit.loopback_cluster import LoopbackCluster

TOPIC: Final = "t"
TP: Final = TopicPartition(TOPIC, 0)
ID: Final = "pay"
SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "2000",
}
LATEST: Final = -1


class Three:
    def __init__(self, cluster: LoopbackCluster) -> None:
        self.cluster = cluster

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.cluster.client_ports[n]}" for n in self.cluster.nodes)

    @property
    def leader(self) -> int:
        state = self.cluster.image(next(iter(self.cluster.nodes))).partition(*TP)
        assert state is not None
        return state.leader

    def say(self, node_id: int, request: Any, version: int) -> Any:
        return ask(f"127.0.0.1:{self.cluster.client_ports[node_id]}", request, version)

    def coordinator(self) -> int | None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        (only,) = self.say(next(iter(self.cluster.nodes)), request, 4).coordinators
        return None if only.error_code else only.node_id

    def to_coordinator(self, request: Any, version: int) -> Any:
        """Once there is one that has loaded."""

        def answer() -> Any:
            node_id = self.coordinator()
            if node_id is None:
                return None
            said = self.say(node_id, request, version)
            return None if said.error_code in (14, 15, 16) else said

        return wait_until(answer, f"the coordinator answers {type(request).__name__}", 30)

    def produce(self, value: str, producer: tuple[int, int], *, is_txn: bool) -> tuple[int, int]:
        """Error code and base offset. A new leader may still wait for its followers."""
        records = batch(
            ("key", value),
            timestamp=None,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
            transactional=is_txn,
        )
        data = [ProducePartitionData(index=0, records=records)]
        request = ProduceRequest(
            transactional_id=ID if is_txn else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceTopicData(name=TOPIC, partition_data=data)],
        )

        def answer() -> tuple[int, int] | None:
            said = self.say(self.leader, request, 12).responses[0].partition_responses[0]
            retried = said.error_code in (ErrorCode.NOT_ENOUGH_REPLICAS, 20, 6)
            return None if retried else (said.error_code, said.base_offset)

        found = wait_until(answer, f"{value} is taken or refused", 30)
        assert found is not None
        return found

    def latest(self, isolation: int) -> tuple[int, int]:
        """Error code and offset."""
        wanted = [ListOffsetsRequestPartition(partition_index=0, timestamp=LATEST)]
        topics = [ListOffsetsRequestTopic(name=TOPIC, partitions=wanted)]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        said = self.say(self.leader, request, 7).topics[0].partitions[0]
        return said.error_code, said.offset

    def stable_ends(self) -> set[tuple[int, int]]:
        """Last stable offset and end of every replica that runs."""

        def look(broker: Broker) -> tuple[int, int]:
            log = broker.partitions.get(TP).log
            return log.last_stable_offset, log.log_end_offset

        return {self.cluster.on(each, look) for each in self.cluster.nodes}


def test_91_to_95_a_new_leader_knows_producers_and_transactions(tmp_path: Path) -> None:
    with LoopbackCluster(tmp_path, settings=SETTINGS) as cluster:
        cluster.start()
        three = Three(cluster)
        assert cluster.create_topic(1, TOPIC, replicas=3) == 0
        begin = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        made = three.to_coordinator(begin, 4)
        txn = made.producer_id, made.producer_epoch
        drawn = three.say(2, InitProducerIdRequest(transactional_id=None), 4)
        plain = drawn.producer_id, drawn.producer_epoch
        assert three.produce("open", txn, is_txn=True) == (0, 0)
        assert three.produce("plain", plain, is_txn=False) == (0, 1)

        killed = three.leader
        cluster.kill(killed)
        wait_until(lambda: three.leader not in (killed, -1), "another broker leads", 30)

        # 92: the retry of what the lost leader has acknowledged is known, and not written again.
        assert three.produce("plain", plain, is_txn=False) == (0, 1)
        # 95: an end that is not known yet is an error, never 0.
        wait_until(lambda: three.latest(0)[0] == 0, "the new leader knows its end", 30)
        assert three.latest(0) == (0, 2)
        # 91: open data stays unseen, on every replica alike (93).
        assert three.latest(1) == (0, 0)
        assert read_all(three.bootstrap, TOPIC, 1) == [[]]
        assert three.stable_ends() == {(0, 2)}
        # Its transaction goes on where it was.
        assert three.produce("open", txn, is_txn=True) == (0, 0)

        ended = three.to_coordinator(EndTxnRequest(ID, *txn, False), 5)
        assert ended.error_code == 0
        wait_until(partial(is_aborted, three), "the marker is on every replica", 30)
        assert read_all(three.bootstrap, TOPIC, 1) == [["plain"]]
        assert read_all(three.bootstrap, TOPIC, 1, "read_uncommitted") == [["open", "plain"]]


def is_aborted(three: Three) -> bool:
    return three.stable_ends() == {(3, 3)}
