"""Offsets that Kafka committed inside transactions, as a log of ours is loaded that holds them."""

import pytest

from ledgerstone.coordinator.group_records import offset_record
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.unit.server.asks import TOPIC, commit_offset, create_topic

OFFSETS = TopicPartition("__consumer_offsets", 0)


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings={"offsets.topic.num.partitions": "1"})


def write(machine: InProcess, batch: bytearray) -> None:
    partition = machine.broker.partitions.get(OFFSETS)
    partition.append(batch, acks=-1, origin=Origin.COORDINATOR)


def commit_in_transaction(
    machine: InProcess, producer_id: int, group: str, offset: int, partition: int = 0
) -> None:
    """As Kafka writes it: producer id, transactional, and no sequence."""
    committed = CommittedOffset(offset, commit_timestamp_ms=machine.clock.now_ms())
    key, value = offset_record(group, TopicPartition(TOPIC, partition), committed)
    records = [(machine.clock.now_ms(), key, value, ())]
    write(
        machine,
        build_batch(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=-1, transactional=True
        ),
    )


def end_transaction(machine: InProcess, producer_id: int, *, commit: bool) -> None:
    write(
        machine,
        end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=machine.clock.now_ms(),
        ),
    )


def offsets(client: Client, group: str, *, require_stable: bool = False) -> dict[int, int]:
    """By partition; an unstable one as its error code."""
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=require_stable
    )
    topics = client.ask(request, OffsetFetchResponse, 8).groups[0].topics
    return {
        each.partition_index: each.error_code or each.committed_offset
        for topic in topics
        for each in topic.partitions
    }


def test_aborted_and_pending_commits_are_not_loaded_as_committed(
    machine: InProcess, client: Client
) -> None:
    create_topic(client, partitions=3)
    assert commit_offset(client, "done", 1) == 0
    commit_in_transaction(machine, 5, "done", 10)
    commit_in_transaction(machine, 6, "undone", 20)
    commit_in_transaction(machine, 7, "open", 30, partition=1)
    commit_in_transaction(machine, 6, "undone", 21, partition=2)
    end_transaction(machine, 5, commit=True)
    end_transaction(machine, 6, commit=False)

    machine.kill()
    client = machine.connect()

    assert offsets(client, "done") == {0: 10}
    assert offsets(client, "undone") == {}
    assert offsets(client, "open") == {}
    assert machine.broker.shards.committed_on(TOPIC).keys() == {"done"}
    machine.check_invariants()


def test_offset_that_a_transaction_may_replace_is_unstable_for_who_asks_for_stable_ones(
    machine: InProcess, client: Client
) -> None:
    create_topic(client)
    assert commit_offset(client, "g", 1) == 0
    commit_in_transaction(machine, 5, "g", 10)

    machine.kill()
    client = machine.connect()

    assert offsets(client, "g") == {0: 1}
    assert offsets(client, "g", require_stable=True) == {0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    end_transaction(machine, 5, commit=True)
    machine.kill()
    assert offsets(machine.connect(), "g", require_stable=True) == {0: 10}
