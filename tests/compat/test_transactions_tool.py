"""kafka-transactions, from Kafka's jars, on our broker and on Apache Kafka: the same tables.

Each broker gets the same four transactions by the same requests. The last one hangs: its data lie
in a partition, and the coordinator knows nothing of them. No client can do that any more, so the
brokers are told not to verify. Needs Java, and Maven for the first run: `make kafka-reads`.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from golden.kafka_tools import KafkaJars, fetch_jars
from ledgerstone.records.builder import build_batch
from tests.compat.both_brokers import FromSide, Side
from tests.compat.txn_confluent import Confluent
from tests.compat.txn_pen import Pen, Script
from tests.compat.txn_script import make_topics, run
from tests.compat.txn_served import NEEDS_JAVA, SETTINGS, serving
from tests.kit.broker import wait_until

pytestmark = NEEDS_JAVA
TOOL = "org.apache.kafka.tools.TransactionsCommand"
HOUR_MS = 3_600_000
# Handed out by chance or by the clock.
MASKED = {
    "ProducerId",
    "TransactionStartTimeMs",
    "TransactionDurationMs",
    "LastTimestamp",
    "LatestProducerTimestamp",
    "StartTimestamp",
    "Duration(min)",
    "Duration(s)",
}

Table = list[dict[str, str]]


def story(name: str, *steps: str) -> Script:
    pen = Pen(name)
    pen.init()
    for step in steps:
        match step:
            case "open":
                pen.add(0, 2, version=3)
                pen.produce(11)
            case "commit":
                pen.end(True, 4)
                pen.settled()
            case "hang":
                pen.produce(9, topic_data=_unknown_to_the_coordinator(pen))
    return Script(pen.name, pen.topic, pen.tid, pen.group, tuple(pen.steps))


def _unknown_to_the_coordinator(pen: Pen) -> object:
    """Two hours old, or find-hanging would not look at it."""
    old_ms = int(time.time() * 1000) - 2 * HOUR_MS
    records = FromSide(
        lambda side, version: build_batch(
            [(old_ms, b"k", b"v", ())],
            producer_id=pen.pid().get(side, version),
            producer_epoch=pen.epoch().get(side, version),
            base_sequence=0,
            transactional=True,
        )
    )
    return [{"name": pen.topic, "partition_data": [{"index": 1, "records": records}]}]


STORIES = [
    story("tool empty"),
    story("tool open", "open"),
    story("tool done", "open", "commit"),
    story("tool hanging", "hang"),
]
OPEN, HANGING = STORIES[1], STORIES[3]


class Tool:
    def __init__(self, jars: KafkaJars, bootstrap: str) -> None:
        self._jars, self.bootstrap = jars, bootstrap

    def text(self, *arguments: str) -> str:
        command = self._jars.java(TOOL, "--bootstrap-server", self.bootstrap, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    def table(self, *arguments: str) -> Table:
        """Rows by the names of their columns, without what is each broker's own."""
        text = self.text(*arguments)
        header, *lines = [line.split() for line in text.splitlines() if line.strip()]
        rows = [dict(zip(header, line, strict=False)) for line in lines]
        for row in rows:
            row.update({column: "…" for column in MASKED & set(row) if row[column] != "None"})
        return sorted(rows, key=str)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def tool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tool]:
    settings = {
        **SETTINGS,
        "transaction.partition.verification.enable": "false",
        # Their records are years old.
        "log.retention.ms": "-1",
    }
    with serving(request.param, tmp_path_factory.mktemp("tool"), settings) as broker:
        side = Side(request.param, broker.bootstrap)
        make_topics(side, STORIES)
        for each in STORIES:
            run(side, each)
        side.close()
        yield Tool(fetch_jars(), broker.bootstrap)


def test_list(tool: Tool) -> None:
    text = tool.text("list")

    assert text.splitlines()[0].split() == [
        "TransactionalId",
        "Coordinator",
        "ProducerId",
        "TransactionState",
    ]
    states = {line.split("\t")[0].strip(): line.split()[-1] for line in text.splitlines()[1:]}
    assert states == {
        "id of tool empty": "Empty",
        "id of tool open": "Ongoing",
        "id of tool done": "CompleteCommit",
        "id of tool hanging": "Empty",
    }


def test_list_of_those_that_run_longer(tool: Tool) -> None:
    short = tool.text("list", "--duration-filter", "1")
    long = tool.text("list", "--duration-filter", "3600000")

    assert "id of tool open" in short
    assert "id of tool open" not in long


def test_describe(tool: Tool) -> None:
    text = tool.text("describe", "--transactional-id", OPEN.tid)

    header, row = [line.split("\t") for line in text.splitlines()]
    found = {name.strip(): value.strip() for name, value in zip(header, row, strict=True)}
    partitions, started_ms = found.pop("TopicPartitions"), found["CurrentTransactionStartTimeMs"]
    assert set(partitions.split(",")) == {f"{OPEN.topic}-0", f"{OPEN.topic}-2"}
    assert {name: value for name, value in found.items() if name not in MASKED | {""}} == {
        "CoordinatorId": "1",
        "TransactionalId": OPEN.tid,
        "ProducerEpoch": "0",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "60000",
        "CurrentTransactionStartTimeMs": started_ms,
    }


def test_describe_of_an_unknown_id(tool: Tool) -> None:
    assert "Failed to describe transaction state" in tool.text(
        "describe", "--transactional-id", "unknown"
    )


def test_describe_producers(tool: Tool) -> None:
    found = tool.table("describe-producers", "--topic", OPEN.topic, "--partition", "0")

    assert found == [
        {
            "ProducerId": "…",
            "ProducerEpoch": "0",
            "LatestCoordinatorEpoch": "-1",
            "LastSequence": "0",
            "LastTimestamp": "…",
            "CurrentTransactionStartOffset": "0",
        }
    ]


def test_hanging_transaction_is_found_and_aborted(tool: Tool, tmp_path: Path) -> None:
    client = Confluent(tool.bootstrap, tmp_path)
    for words in (["--broker-id", "1"], ["--topic", HANGING.topic]):
        (row,) = tool.table("find-hanging", *words)
        assert row == {
            "Topic": HANGING.topic,
            "Partition": "1",
            "ProducerId": "…",
            "ProducerEpoch": "0",
            "CoordinatorEpoch": "-1",
            "StartOffset": "0",
            "LastTimestamp": "…",
            "Duration(min)": "…",
        }
    held = client.read(HANGING.topic, 1)
    at = ["--topic", HANGING.topic, "--partition", "1"]

    wrong = tool.text("abort", *at, "--start-offset", "77")
    done = tool.text("abort", *at, "--start-offset", "0")

    assert "Could not find any open transactions starting at offset 77" in wrong
    assert done == ""
    assert tool.table("find-hanging", "--topic", HANGING.topic) == []
    assert held == ([], 0)
    assert client.read(HANGING.topic, 1) == ([], 2)


def test_open_transaction_that_is_no_hanging_one_is_left_alone(tool: Tool) -> None:
    assert tool.table("find-hanging", "--topic", OPEN.topic) == []


def test_force_terminate(tool: Tool, tmp_path: Path) -> None:
    """Takes the id away from its producer, and so aborts what is open."""
    client = Confluent(tool.bootstrap, tmp_path)

    assert tool.text("forceTerminateTransaction", "--transactionalId", OPEN.tid) == ""

    wait_until(lambda: client.read(OPEN.topic, 0) == ([], 2), "it is aborted")
