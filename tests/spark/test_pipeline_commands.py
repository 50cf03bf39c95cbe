"""`ledgerstone pipeline` as it is typed, on a topic of a real broker."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ledgerstone.client.producer import NewRecord
from tests.kit.broker import BrokerProcess
from tests.kit.cleaner_api import compact
from tests.kit.command_line import Done, ledgerstone
from tests.spark.conftest import MakeTopic, Produce

Definition = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A run takes signals for itself, and here it is not a process of its own."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.fixture
def definition(broker: BrokerProcess, tmp_path: Path) -> Definition:
    def write(topic: str, **more: Any) -> Path:
        content: dict[str, Any] = {
            "name": topic,
            "source": {"topic": topic, "bootstrap": broker.bootstrap},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "string", "column": "said"},
            "table": {"type": "sqlite", "path": "table.db", "name": "people"},
            **more,
        }
        path = tmp_path / f"{topic}.yaml"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def pipeline(spark: SparkSession) -> Callable[..., Done]:
    """A command in this process: its session is the one of the tests."""
    return lambda *arguments: ledgerstone("pipeline", *map(str, arguments))


def test_reconcile_lets_the_next_run_go_on(
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    definition: Definition,
    pipeline: Callable[..., Done],
) -> None:
    topic = make_topic("reconciled", cleanup_policy="compact", delete_retention_ms="0")
    file = definition(topic)
    produce(NewRecord(topic, b"ghost", b"1"), NewRecord(topic, b"here", b"1"))
    first = pipeline("run", file, "--once")
    produce(NewRecord(topic, b"ghost", None), NewRecord(topic, b"here", b"2"))
    for _ in range(2):  # The first pass marks the tombstone, the second removes it.
        compact(broker, topic)

    refused = pipeline("run", file, "--once")
    reconciled = pipeline("reconcile", file, "--json")
    second = pipeline("run", file, "--once", "--json")

    assert (first.code, refused.code, reconciled.code) == (0, 1, 0), (first, refused, reconciled)
    assert "ledgerstone pipeline reconcile" in refused.stderr
    assert json.loads(reconciled.stdout)["extra"] == 1
    assert (second.code, second.stderr) == (0, "")
    assert json.loads(second.stdout.splitlines()[-1])["state"] == "finished"
