"""Offsets that Apache Kafka committed inside transactions, loaded by our group shard.

See kafka_offsets/PROVENANCE.md."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.coordinator.group_records import OffsetEntry, offset_record, read_record
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import GroupConfig, Now, RequestContext
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID
from ledgerstone.protocol.messages.group_records import OffsetCommitValue
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
)
from ledgerstone.protocol.record_codec import decode_record_value
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.server.groups.hosted_shard import HostedShard
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.system import OsFilesystem
from ledgerstone.types import TopicPartition
from tests.kit.roles import led_by

GOLDEN = Path(__file__).parent / "kafka_offsets"
NAME = "__consumer_offsets-0"


@pytest.fixture
def expected() -> Any:
    return json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    shutil.copytree(GOLDEN / NAME, tmp_path / NAME)
    log, _ = open_log(
        OpenLog(
            fs=OsFilesystem(),
            clock=VirtualClock(start_ms=0),
            dice=SeededDice(0),
            directory=str(tmp_path / NAME),
            topic_partition=TopicPartition("__consumer_offsets", 0),
            config=LogConfig(),
        )
    )
    return log


@pytest.fixture
def shard(log: PartitionLog) -> GroupShard:
    partition = Partition(log=log, topic_id=bytes(16), node_id=1)
    partition.assume(led_by(1, 1, (1,)))
    hosted = HostedShard(GroupShard(GroupConfig(), SeededDice(0)), partition)
    assert len(list(hosted.load())) > 0
    assert hosted.can_serve
    hosted.shard.check_invariants()
    return hosted.shard


def offset_of(shard: GroupShard, group: str, *, require_stable: bool) -> tuple[int, int]:
    topic = OffsetFetchRequestGroupTopic(name="orders", partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])],
        require_stable=require_stable,
    )
    context = RequestContext(token=None, api_version=8)
    outcome = shard.handle_offset_fetch(request, context, Now(0, 0))
    answers = [answer for _, answer in outcome.answers]
    (answer,) = answers + [respond() for _, respond in outcome.late]
    assert isinstance(answer, OffsetFetchResponse)
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


@pytest.mark.parametrize("require_stable", [False, True])
def test_decided_transactions_load_as_kafka_tells_them(
    shard: GroupShard, expected: Any, require_stable: bool
) -> None:
    found = {
        group: offset_of(shard, group, require_stable=require_stable)
        for group in expected["committed"]
    }

    assert found == {group: (offset, 0) for group, offset in expected["committed"].items()}


def test_open_transaction_is_pending(shard: GroupShard, expected: Any) -> None:
    for group, offset in expected["pending"].items():
        assert offset_of(shard, group, require_stable=False) == (-1, ErrorCode.NONE)
        unstable = offset_of(shard, group, require_stable=True)
        assert unstable == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        ((_, _, committed),) = [
            each
            for producer_id in list(shard.table.pending._by_producer)
            for each in shard.table.pending.end(producer_id, commit=True)
        ]
        assert committed.offset == offset


def test_offsets_are_written_as_kafka_writes_them(log: PartitionLog) -> None:
    """Those of transactions without a topic id, the others with it."""
    found = []
    for batch in replay_batches(log):
        for record in batch.records:
            assert record.key is not None
            entry = read_record(record.key, record.value)
            if not isinstance(entry, OffsetEntry) or entry.committed is None:
                continue
            assert record.value is not None
            value = decode_record_value(OffsetCommitValue, record.value)
            ours = offset_record(*entry[:2], entry.committed, value.topic_id)
            assert ours == (record.key, record.value)
            found.append((batch.header.is_transactional, value.topic_id != ZERO_UUID))
    assert set(found) == {(True, False), (False, True)}
