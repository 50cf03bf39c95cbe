"""The `ledgerstone pipeline` commands on a topic of a real broker."""

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
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
    """A run installs signal handlers, and here it shares the process with the tests."""
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
    assert json.loads(reconciled.stdout)["deleted_rows"] == 1
    assert (second.code, second.stderr) == (0, "")
    assert json.loads(second.stdout.splitlines()[-1])["state"] == "finished"


def test_repair_says_what_it_did_and_what_is_there_now(
    make_topic: MakeTopic,
    produce: Produce,
    definition: Definition,
    pipeline: Callable[..., Done],
    tmp_path: Path,
) -> None:
    topic = make_topic("repaired", cleanup_policy="compact")
    file = definition(topic)
    produce(*(NewRecord(topic, b"%d" % n, b"1") for n in range(3)))
    assert pipeline("run", file, "--once").code == 0
    with closing(sqlite3.connect(tmp_path / "table.db")) as db, db:
        db.execute("DELETE FROM people WHERE id = '1'")
        db.execute("UPDATE people SET said = 'wrong' WHERE id = '2'")

    differs = pipeline("verify", file, "--json")
    repaired = pipeline("verify", file, "--repair", "--json")
    in_words = pipeline("verify", file)

    assert (differs.code, json.loads(differs.stdout)["is_equal"]) == (3, False)
    said = json.loads(repaired.stdout)
    assert (repaired.code, said["is_equal"]) == (0, True)
    assert said["repaired"] == {"missing": 1, "extra": 0, "stale": 1}
    assert (in_words.code, "is_equal         True" in in_words.stdout) == (0, True)


def test_status_tells_the_lag_of_the_table_whatever_the_last_run_wrote_down(
    make_topic: MakeTopic,
    produce: Produce,
    definition: Definition,
    pipeline: Callable[..., Done],
    tmp_path: Path,
) -> None:
    topic = make_topic("status")
    file = definition(topic, work="work")
    produce(*(NewRecord(topic, b"%d" % n, b"1") for n in range(3)))
    nothing = pipeline("status", file)
    assert pipeline("run", file, "--once").code == 0
    produce(NewRecord(topic, b"late", b"1"))
    path = tmp_path / "work" / "status.json"
    # As left by a run that is killed between the table's commit and the status file.
    path.write_text(json.dumps({**json.loads(path.read_text()), "positions": {}}))

    status = json.loads(pipeline("status", file, "--json").stdout)
    path.unlink()
    without = json.loads(pipeline("status", file, "--json").stdout)

    assert "has not run yet" in nothing.stdout
    assert (status["positions"], status["lag"]) == ({"0": 3}, 1)
    assert (without["positions"], without["lag"]) == ({"0": 3}, 1)
