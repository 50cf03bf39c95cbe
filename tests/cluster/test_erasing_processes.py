"""An erasure on real processes: `erase --wait` while the broker that runs it is killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from ledgerstone.cli.options import parse_bootstrap
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.errors import KafkaError
from tests.cluster.erasing_story import files_under
from tests.kit.broker import broker_environment, wait_until
from tests.kit.cluster_up import ClusterUp
from tests.kit.command_line import ledgerstone

TOPIC = "customers"
KEY = b"alice@example.org"
SETTINGS = (
    "-c", "log.cleaner.delete.retention.ms=6000",
    "-c", "log.segment.delete.delay.ms=0",
    "-c", "log.cleaner.backoff.ms=200",
    "-c", "min.insync.replicas=2",
)  # fmt: skip


def test_receipt_comes_although_the_coordinator_is_killed_in_the_middle(tmp_path: Path) -> None:
    with ClusterUp(tmp_path, arguments=SETTINGS) as cluster:
        produce(cluster)
        before = files_with_key(cluster)
        assert {each.split("/")[0] for each in before} == {"1", "2", "3"}, before
        paper = tmp_path / "receipt.json"
        erasing = subprocess.Popen(
            [
                sys.executable, "-m", "ledgerstone", "erase", TOPIC, KEY.decode(),
                "--bootstrap", cluster.bootstrap, "--reason", "ticket 4711", "--wait",
                "--receipt", str(paper), "--timeout", "120",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**broker_environment(), "LEDGERSTONE_RECEIPT_KEYS": str(tmp_path / "keys")},
        )  # fmt: skip
        try:
            found = wait_until(lambda: stamped(cluster), "the first pass is over", 90)
            assert found is not None
            coordinator = int(found["coordinator"])
            os.kill(cluster.pid(coordinator), signal.SIGKILL)
            said, _ = erasing.communicate(timeout=150)
        finally:
            erasing.kill()

        text = said.decode()
        assert erasing.returncode == 0, f"{text}\n{cluster.text[-4000:]}"
        check(cluster, tmp_path, paper)
        assert files_with_key(cluster) == []


def check(cluster: ClusterUp, work: Path, paper: Path) -> None:
    """As somebody does who gets the receipt, and as an operator who looks at any node."""
    environment = {"LEDGERSTONE_RECEIPT_KEYS": str(work / "keys")}
    verified = ledgerstone("verify-receipt", str(paper), environment=environment)
    assert verified.code == 0, verified
    receipt = json.loads(paper.read_bytes())
    assert [each["node_id"] for each in receipt["replicas"]] == [1, 2, 3]
    assert [each["records"] + each["residue"] for each in receipt["replicas"]] == [0, 0, 0]
    for node in ("1", "2", "3"):
        at = cluster.read()["nodes"][node]["bootstrap"]
        shown = ledgerstone("receipt", receipt["id"], "--json", "--bootstrap", at)
        assert shown.code == 0, shown
        assert shown.stdout.encode() == paper.read_bytes()
        listed = ledgerstone("erasures", "--all", "--json", "--bootstrap", at)
        assert [json.loads(each)["id"] for each in listed.stdout.splitlines()] == [receipt["id"]]
        where = ledgerstone("where", TOPIC, KEY.decode(), "--bootstrap", at)
        assert "no record of customers has the key" in where.stdout, where


def produce(cluster: ClusterUp) -> None:
    with Client(parse_bootstrap(cluster.bootstrap)) as client:
        configs = {"cleanup.policy": "compact"}
        create_topic(client, NewTopic(name=TOPIC, partitions=2, configs=configs))
        records = [
            NewRecord(TOPIC, key, value) for value in (b"Ulm", b"Aachen") for key in (KEY, b"bob")
        ]
        answers = Producer(client, ProducerConfig()).send(records)
        assert not [each for each in answers if isinstance(each, KafkaError)], answers
    # Followers write what they fetch a moment later.
    wait_until(lambda: len(files_with_key(cluster)) == 3, "every replica has it", 30)


def files_with_key(cluster: ClusterUp) -> list[str]:
    """As node/directory/file."""
    found = []
    for node in ("1", "2", "3"):
        for path in files_under(cluster.data / f"node-{node}"):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            if KEY in data:
                found.append(f"{node}/{path.parent.name}/{path.name}")
    return found


def stamped(cluster: ClusterUp) -> dict[str, Any] | None:
    for node in cluster.read()["nodes"].values():
        try:
            with urlopen(f"http://{node['http']}/api/v1/erasures", timeout=10) as answer:
                erasures = json.load(answer)["erasures"]
        except OSError:
            continue
        for each in erasures:
            if each["stage"] == "stamped":
                found: dict[str, Any] = each
                return found
    return None
