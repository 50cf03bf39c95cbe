"""Spark's own Kafka connector and ours on one topic: the same rows, and each goes on from where
the other stopped."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.client.producer import NewRecord
from tests.kit.broker import BrokerProcess
from tests.kit.official_connector import connector_jars
from tests.spark.conftest import MakeTopic, Produce

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(shutil.which("mvn") is None, reason="the connector's jars need Maven"),
]
PROGRAM = Path(__file__).with_name("both_connectors.py")
RECORDS = 40


def test_both_connectors_see_the_same_and_share_their_checkpoints(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("both", partitions=2)
    produce(*(_record(topic, number) for number in range(RECORDS)))

    said = _run(broker.bootstrap, topic, str(tmp_path), *map(str, connector_jars()))

    assert said["ledgerstone"] == said["kafka"]
    assert len(said["kafka"]["rows"]) == RECORDS
    everything = sorted(row[3:5] for row in said["kafka"]["rows"])
    beginnings = []
    for way in ("kafka then ledgerstone", "ledgerstone then kafka"):
        first, then = said[way]["seen"]
        beginnings.append(sorted(first))
        assert sorted(first + then) == everything
        assert sum(said[way]["offsets"][-1][topic].values()) == RECORDS
    # Two micro-batches of five, less what rounding each partition's share down leaves out: where
    # records without a key go is up to the client.
    assert 8 <= len(beginnings[0]) <= 10
    assert beginnings[0] == beginnings[1]


def _record(topic: str, number: int) -> NewRecord:
    headers = [("h", b"%d" % number), ("none", None)] if number % 3 == 0 else []
    key = None if number % 7 == 0 else b"k%d" % number
    return NewRecord(topic, key, None if number % 5 == 0 else b"v%d" % number, headers)


def _run(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, timeout=1_200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
