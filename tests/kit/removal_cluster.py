"""A compacted, replicated partition on a cluster of brokers in this process, to delete keys in.

Passes are asked for, retention is none, and time limits are short, so that a test decides when
tombstones go.
"""

from typing import Final

from ledgerstone.cleaner.history import Run
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartition,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.replication.partition_removal import PartitionRemoval
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.server.broker import Broker
from ledgerstone.types import TopicPartition
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.loopback_cluster import LoopbackCluster

TOPIC: Final = "t"
TP: Final = TopicPartition(TOPIC, 0)
_BY_NAME: Final = 12  # the last version of Produce that names topics
_PREFERRED, _UNCLEAN = 0, 1

Content = list[tuple[int, bytes, bytes | None]]


class DeletingCluster(LoopbackCluster):
    """Node 3 may be told not to clean."""

    lazy: int | None = None

    def settings(self, node_id: int) -> dict[str, str]:
        cleans = {"log.cleaner.enable": "false"} if node_id == self.lazy else {}
        return {
            **super().settings(node_id),
            "log.cleaner.backoff.ms": "100",
            "replica.lag.time.max.ms": "2000",
            "replica.fetch.wait.max.ms": "100",
            **cleans,
        }

    # -- the topic -----------------------------------------------------------------------------

    def create(self, replicas: list[int], **configs: str) -> None:
        known = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
        known |= {name.replace("_", "."): value for name, value in configs.items()}
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequestTopic(
                    name=TOPIC,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreateTopicsAssignment(partition_index=0, broker_ids=replicas)],
                    configs=[CreateTopicsRequestConfig(*each) for each in known.items()],
                )
            ],
            timeout_ms=20_000,
        )
        answer = self.ask(next(iter(self.nodes)), request)
        assert isinstance(answer, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        self.wait_for("the topic is known", lambda image: TOPIC in image.topics)
        self.await_isr(*replicas)

    def leader(self) -> int:
        found: list[int] = []

        def is_found() -> bool:
            found[:] = [each for each in self.nodes if self.on(each, _leads)]
            return len(found) == 1

        wait_until(is_found, "the partition has a leader", 30)
        return found[0]

    def await_isr(self, *members: int) -> None:
        def isr() -> set[int]:
            state = self.image(self.leader()).partition(TOPIC, 0)
            return set() if state is None else set(state.isr)

        wait_until(lambda: isr() == set(members), f"{members} are in sync", 30)

    def write(self, key: bytes, value: bytes | None) -> int:
        """With acks=all; the offset."""
        records = build_batch([(1, key, value, ())])
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                ProduceTopicData(
                    name=TOPIC,
                    partition_data=[ProducePartitionData(index=0, records=bytes(records))],
                )
            ],
        )
        offset: list[int] = []

        def is_taken() -> bool:
            address = f"127.0.0.1:{self.client_ports[self.leader()]}"
            answer = ask(address, request, _BY_NAME)
            assert isinstance(answer, ProduceResponse)
            told = answer.responses[0].partition_responses[0]
            offset[:] = [told.base_offset]
            return told.error_code == ErrorCode.NONE

        wait_until(is_taken, "the record is taken", 30)
        return offset[0]

    def lead(self, node_id: int, *, unclean: bool = False) -> None:
        """The preferred leader, or one that lost what the others have."""

        def leads() -> bool:
            request = ElectLeadersRequest(
                election_type=_UNCLEAN if unclean else _PREFERRED,
                topic_partitions=[ElectLeadersTopicPartition(topic=TOPIC, partitions=[0])],
                timeout_ms=5_000,
            )
            self.ask(next(iter(self.nodes)), request)
            return self.on(node_id, _leads)

        wait_until(leads, f"node {node_id} leads", 30)

    def reassign(self, *replicas: int) -> None:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=20_000,
            topics=[
                AlterReassignmentsTopic(
                    name=TOPIC,
                    partitions=[
                        AlterReassignmentsPartition(partition_index=0, replicas=list(replicas))
                    ],
                )
            ],
        )

        def is_taken() -> bool:
            answer = self.ask(next(iter(self.nodes)), request)
            assert isinstance(answer, AlterPartitionReassignmentsResponse)
            # A controller may just have been elected.
            return not answer.error_code and not answer.responses[0].partitions[0].error_code

        wait_until(is_taken, "the reassignment is taken", 30)

    # -- logs ----------------------------------------------------------------------------------

    def content(self, node_id: int) -> Content:
        return self.on(node_id, _content)

    def values(self, node_id: int) -> dict[bytes, bytes]:
        """The keys that a reader of this replica would find."""
        latest = {key: value for _, key, value in self.content(node_id)}
        return {key: value for key, value in latest.items() if value is not None}

    def end(self, node_id: int) -> int:
        return self.on(node_id, lambda broker: broker.partitions.get(TP).log.log_end_offset)

    def await_caught_up(self, *node_ids: int) -> None:
        leader = self.leader()

        def committed(broker: Broker) -> int:
            return broker.partitions.get(TP).log.high_watermark

        def is_caught_up() -> bool:
            end = self.end(leader)
            return all(self.on(each, committed) == end for each in (leader, *node_ids))

        wait_until(is_caught_up, f"{node_ids} have caught up", 30)

    def clean(self, *node_ids: int) -> None:
        """One pass on each."""
        for node_id in node_ids:
            ticket = self.on(node_id, lambda broker: broker.cleaning.ask(TP))
            wait_until(lambda made=ticket: made.is_done, f"node {node_id} has cleaned", 30)  # type: ignore[misc]
            assert isinstance(ticket.run, Run), ticket.refusal
            assert ticket.run.outcome == "cleaned", ticket.run.detail

    def removal(self, node_id: int) -> PartitionRemoval:
        found = self.on(node_id, lambda broker: broker.partitions.get(TP).removal)
        assert found is not None
        return found

    def removed_to(self, node_id: int) -> int:
        return self.on(node_id, lambda broker: self.removal_of(broker).removed_to)

    @staticmethod
    def removal_of(broker: Broker) -> PartitionRemoval:
        found = broker.partitions.get(TP).removal
        assert found is not None
        return found

    def await_removable(self, node_id: int, offset: int) -> None:
        """Until this replica may remove what lies below."""

        def limit(broker: Broker) -> int:
            standing = self.removal_of(broker).standing()
            assert standing is not None
            return standing.removable_to

        wait_until(lambda: self.on(node_id, limit) >= offset, f"{offset} is removable", 30)


def _leads(broker: Broker) -> bool:
    partition = broker.partitions.find(TP)
    return partition is not None and partition.is_leader


def _content(broker: Broker) -> Content:
    log = broker.partitions.get(TP).log
    return [
        (
            record.offset,
            bytes(record.key or b""),
            None if record.value is None else bytes(record.value),
        )
        for batch in replay_batches(log)
        for record in batch.records
    ]
