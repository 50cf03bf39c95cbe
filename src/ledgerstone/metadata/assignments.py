"""New partitions as records: their replicas checked or chosen, their first leader named. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from ledgerstone.errors import InvalidReplicaAssignment, PolicyViolation
from ledgerstone.metadata.image import BrokerImage
from ledgerstone.protocol.messages.metadata_records import PartitionRecord

# A request names a number in four bytes; its answer must not fill the memory.
MAX_PARTITIONS_PER_REQUEST: Final = 10_000


def check_partition_budget(partitions: int) -> None:
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolation(
            f"{partitions} new partitions are more than {MAX_PARTITIONS_PER_REQUEST} in one request"
        )


def check_assignments(
    brokers: Mapping[int, BrokerImage],
    assignments: Sequence[Sequence[int]],
    *,
    replication_factor: int | None = None,
) -> list[tuple[int, ...]]:
    """The same assignments, one per partition, once every rule holds for them."""
    expected = replication_factor
    for replicas in assignments:
        check_replicas(brokers, replicas)
        _check_is_led(brokers, replicas)
        if expected is not None and len(replicas) != expected:
            raise InvalidReplicaAssignment(
                f"the assignment {list(replicas)} has {len(replicas)} replica(s), where the other"
                f" partitions have {expected}"
            )
        expected = len(replicas)
    return [tuple(replicas) for replicas in assignments]


def check_replicas(brokers: Mapping[int, BrokerImage], replicas: Sequence[int]) -> None:
    if not replicas:
        raise InvalidReplicaAssignment("an assignment has no replicas")
    seen: dict[int, None] = {}
    for broker_id in replicas:
        if broker_id in seen:
            raise InvalidReplicaAssignment(
                f"the assignment {list(replicas)} names broker {broker_id} twice"
            )
        if broker_id not in brokers:
            raise InvalidReplicaAssignment(
                f"the assignment {list(replicas)} names broker {broker_id}, which is not registered"
            )
        if not brokers[broker_id].takes_new_replicas:
            raise InvalidReplicaAssignment(
                f"the assignment {list(replicas)} names broker {broker_id}, whose directories are"
                " all cordoned"
            )
        seen[broker_id] = None


def _check_is_led(brokers: Mapping[int, BrokerImage], replicas: Sequence[int]) -> None:
    if not any(brokers[broker_id].is_active for broker_id in replicas):
        raise InvalidReplicaAssignment(
            f"all brokers of the assignment {list(replicas)} are fenced or shutting down"
        )


def new_partition(
    topic_id: bytes, partition: int, replicas: Sequence[int], brokers: Mapping[int, BrokerImage]
) -> PartitionRecord:
    isr = [broker_id for broker_id in replicas if brokers[broker_id].is_active]
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[brokers[broker_id].default_directory for broker_id in replicas],
    )
