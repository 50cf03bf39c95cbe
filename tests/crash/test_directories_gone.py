"""A process whose only log directory fails ends with a line that says why, and starts again."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from golden.cluster_plan import COMBINED, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.ledgerstone_node import LedgerstoneNode
from tests.kit.logs import batch
from tests.kit.nodes import LEDGERSTONE, Cluster
from tests.kit.small_disk import SmallDisk, is_permitted

TOPIC = "orders"


def write(node: LedgerstoneNode, size: int) -> int:
    """The error code; -1 without an answer."""
    data = ProducePartitionData(index=0, records=batch(("k", "v" * size)))
    topics = [ProduceTopicData(name=TOPIC, partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
    try:
        answer: Any = ask(node.planned.bootstrap, request, 11, timeout_s=5)
    except Exception:  # noqa: BLE001 - whatever a dying process does to a connection
        return -1
    return int(answer.responses[0].partition_responses[0].error_code)


def is_written(node: LedgerstoneNode) -> bool:
    return write(node, 10) == 0


def has_ended(node: LedgerstoneNode) -> bool:
    write(node, 100_000)
    return not node.is_running


@pytest.mark.slow
def test_a_broker_with_a_full_disk_ends_and_comes_back_when_there_is_room(tmp_path: Path) -> None:
    if not is_permitted(tmp_path):
        pytest.skip("needs root for a small disk")
    planned = PlannedNode(node_id=1, roles=COMBINED, port=free_port(), controller_port=free_port())
    plan = ClusterPlan(nodes=[planned])
    data = tmp_path / "node-1" / "data"
    with (
        SmallDisk(data, 40) as disk,
        Cluster(plan=plan, work=tmp_path, jars=None, kinds={1: LEDGERSTONE}) as cluster,
    ):
        cluster.format()
        cluster.start()
        node = cluster[1]
        assert isinstance(node, LedgerstoneNode)
        assert cluster.create_topic(TOPIC, 1) == 0
        wait_until(partial(is_written, node), "a record is taken")

        disk.fill()
        wait_until(partial(has_ended, node), "the process ends", 60)

        assert f"{data}" in node.log_text
        assert "failed" in node.log_text
        node.forget()
        # It waits for room, and says so.
        node.start()
        wait_until(lambda: "waits for room on disk" in node.log_text, "it waits", 30)
        disk.free()
        node.wait_started()
        wait_until(partial(is_written, node), "a record is taken again")
        answer: Any = ask(node.planned.bootstrap, MetadataRequest(topics=None), 12)
        assert [each.name for each in answer.topics] == [TOPIC]
        cluster.stop()
    shutil.rmtree(tmp_path / "node-1", ignore_errors=True)
