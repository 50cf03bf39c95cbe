"""What the metadata may say about a partition, for tests that change its leader by hand."""

from ledgerstone.metadata.image import MIGRATING, PartitionImage
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import InProcess

LEADER_UNCHANGED = -2


def led_by(
    leader: int,
    leader_epoch: int,
    isr: tuple[int, ...],
    *,
    replicas: tuple[int, ...] | None = None,
    partition_epoch: int | None = None,
) -> PartitionImage:
    """Replicas are those in sync, and the partition epoch is the leader's, unless given."""
    return PartitionImage(
        replicas=isr if replicas is None else replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
    )


def leader_of(partition: Partition) -> Leader:
    assert isinstance(partition.role, Leader)
    return partition.role


def followed(partition: Partition, node_id: int, end_offset: int) -> None:
    """A follower has fetched up to there."""
    leader_of(partition).follower_fetched(
        node_id,
        fetch_offset=end_offset,
        log_start_offset=0,
        broker_epoch=-1,
        now_ms=partition.log.clock.monotonic_ms(),
    )


def fetched_by(machine: InProcess, partition: Partition, node_id: int) -> None:
    """A follower has fetched all there is, and the broker has noticed."""
    followed(partition, node_id, partition.log.log_end_offset)
    machine.broker.following.high_watermark_moved(partition.topic_partition)
    machine.perform(machine.broker.changed_from_outside())
    machine.serve_backlog()


def change_partition(
    machine: InProcess,
    topic_partition: TopicPartition,
    *,
    leader: int = LEADER_UNCHANGED,
    isr: list[int] | None = None,
    replicas: list[int] | None = None,
) -> None:
    """The controller changes a partition, as it would for a cluster; the broker follows."""
    broker = machine.broker
    record = PartitionChangeRecord(
        partition_id=topic_partition.partition,
        topic_id=broker.image.topics[topic_partition.topic].topic_id,
        leader=leader,
        isr=isr,
        replicas=replicas,
        directories=None if replicas is None else [MIGRATING] * len(replicas),
    )
    broker.controller_link.write([record])
    machine.perform(broker.changed_from_outside())
    machine.serve_backlog()
