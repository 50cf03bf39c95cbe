"""A broker in process that leads, and requests of followers that are not there."""

from typing import Any

from ledgerstone.protocol.messages.fetch import FetchReplicaState, FetchRequest, FetchResponse
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerEndPoint,
    RegisterBrokerRecord,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.roles import change_partition
from tests.unit.server.asks import TOPIC, create_topic, fetch

LED = TopicPartition(TOPIC, 0)
SECOND_EPOCH = 77


def register(
    machine: InProcess, broker_id: int, *, epoch: int = SECOND_EPOCH, rack: str | None = None
) -> None:
    """Another broker of the cluster, ready to serve."""
    endpoint = RegisterBrokerEndPoint("PLAINTEXT", f"broker-{broker_id}", 9092, 0)
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=epoch,
        end_points=[endpoint],
        rack=rack,
        fenced=False,
    )
    machine.broker.controller_link.write([record])
    machine.perform(machine.broker.changed_from_outside())


def fence(machine: InProcess, broker_id: int) -> None:
    record = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=SECOND_EPOCH, fenced=1
    )
    machine.broker.controller_link.write([record])
    machine.perform(machine.broker.changed_from_outside())
    machine.serve_backlog()


def led_by_one(machine: InProcess, client: Client, min_insync_replicas: str = "1") -> Partition:
    """Broker 1 leads; 2 is assigned, and not in sync."""
    create_topic(client, min_insync_replicas=min_insync_replicas)
    register(machine, 2)
    change_partition(machine, LED, isr=[1], replicas=[1, 2])
    return machine.broker.partitions.get(LED)


def ask(
    client: Client,
    offset: int,
    *,
    replica: int = 2,
    epoch: int = SECOND_EPOCH,
    version: int = 17,
    wait_ms: int = 0,
    log_start_offset: int = 0,
    **more: Any,
) -> FetchRequest:
    request = fetch({0: offset}, max_wait_ms=wait_ms, min_bytes=1, **more)
    request.topics[0].partitions[0].log_start_offset = log_start_offset
    request.topics[0].topic_id = client.machine.broker.image.topics[TOPIC].topic_id
    if version >= 15:
        request.replica_state = FetchReplicaState(replica, epoch)
    else:
        request.replica_id = replica
    return request


def follow(client: Client, offset: int, *, version: int = 17, **how: int) -> FetchResponse:
    return client.ask(ask(client, offset, version=version, **how), FetchResponse, version)


def isr_of(machine: InProcess) -> tuple[int, ...]:
    state = machine.broker.image.partition(*LED)
    assert state is not None
    return state.isr
