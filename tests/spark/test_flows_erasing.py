"""What a pipeline finds of an erased key becomes part of a real erasure."""

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from typer.testing import CliRunner

from ledgerstone.cli.options import connect
from ledgerstone.cli.pipeline_flows import FAILED_EXIT, app
from ledgerstone.client.producer import NewRecord
from ledgerstone.spark.progress import publish
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess
from tests.kit.command_line import ledgerstone
from tests.kit.erasures import await_receipt
from tests.spark.conftest import MakeTopic, Produce

KEY = "someone@example.com"


def call(broker: BrokerProcess, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{broker.http}/api/v1/{path}", data, headers)) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_findings_reach_the_erasure_by_the_brokers_own_address(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("erased", cleanup_policy="compact")
    produce(NewRecord(topic, KEY.encode(), b"personal"))
    definition = _definition(tmp_path, topic, broker)
    asked = {
        "key": base64.b64encode(KEY.encode()).decode(),
        "reason": "asked for",
        "requested_by": "tests",
        "verifiers": ["pipelines"],
    }
    erasure_id = call(broker, f"topics/{topic}/erasures", asked)["erasures"][0]["id"]
    command = ["erase", str(definition), "--key", KEY, "--erasure", erasure_id]

    before = CliRunner().invoke(app, [*command, "--search"])
    said_before = call(broker, f"erasures/{erasure_id}")["evidence"]
    after = CliRunner().invoke(app, command)
    said_after = call(broker, f"erasures/{erasure_id}")["evidence"]

    assert (before.exit_code, after.exit_code) == (FAILED_EXIT, 0), after.output
    table = f"sqlite:{tmp_path / 'people.db'}"
    assert _verdicts(said_before)[table] == "residue"
    assert _verdicts(said_after)[table] == "clean"


def _verdicts(evidence: list[dict[str, Any]]) -> dict[str, str]:
    return {each["output"]: each["verdict"] for each in evidence}


def test_pipeline_that_missed_the_tombstone_adds_a_supplement_to_the_receipt(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    short = {"delete_retention_ms": "0", "file_delete_delay_ms": "0"}
    topic = make_topic("missed", cleanup_policy="compact", **short)
    produce(NewRecord(topic, KEY.encode(), b"personal"), NewRecord(topic, b"other", b"1"))
    definition = _definition(tmp_path, topic, broker)
    with connect(broker.bootstrap) as client:
        # It has read the row, and stops.
        assert publish(client, "ledgerstone-pipeline-people", {TopicPartition(topic, 0): 1})
    asked = {
        "key": base64.b64encode(KEY.encode()).decode(),
        "reason": "asked for",
        "requested_by": "tests",
        "outputs_wait_ms": 0,
    }
    erasure_id = call(broker, f"topics/{topic}/erasures", asked)["erasures"][0]["id"]
    receipt = await_receipt(broker, erasure_id)
    named = call(broker, f"erasures/{erasure_id}")["outputs"]
    at = ("--bootstrap", broker.bootstrap)
    listed = ledgerstone("erasures", "--all", *at).stdout
    one = ledgerstone("erasures", "show", erasure_id, *at).stdout
    command = ["erase", str(definition), "--key", KEY, "--erasure", erasure_id]

    sent = CliRunner().invoke(app, command)
    again = CliRunner().invoke(app, command)
    paper = tmp_path / "receipt.json"
    shown = ledgerstone("receipt", erasure_id, "--out", str(paper), *at)
    checked = ledgerstone("verify-receipt", str(paper), "--broker", broker.http)

    assert [(each["name"], each["status"], each["reason"]) for each in named] == [
        ("ledgerstone-pipeline-people", "not_verified", "missed_tombstone")
    ]
    assert "receipted; 1 output not verified" in listed
    assert "output   group ledgerstone-pipeline-people: NOT VERIFIED, it had committed" in one
    assert (sent.exit_code, again.exit_code) == (0, 0), sent.output + again.output
    assert "supplement 1 holds this evidence" in sent.output
    assert "supplement 1 holds this evidence" in again.output
    assert paper.read_bytes() == receipt
    assert (shown.code, checked.code) == (0, 0), checked
    assert "Supplement 1" in shown.stdout
    assert "ok: supplement 1 belongs to the receipt" in checked.stdout
    assert "Every output that was not verified is by now." in checked.stdout


def _definition(directory: Path, topic: str, broker: BrokerProcess) -> Path:
    """A pipeline whose table holds the row of the key."""
    db = sqlite3.connect(directory / "people.db")
    db.execute("CREATE TABLE people(id TEXT PRIMARY KEY, text TEXT)")
    db.execute("INSERT INTO people VALUES (?, 'personal')", (KEY,))
    db.commit()
    db.close()
    definition = directory / "people.yaml"
    definition.write_text(
        f"name: people\nsource: {{topic: {topic}, bootstrap: '{broker.bootstrap}'}}\n"
        "key: {format: string, column: id}\nvalue: {format: string, column: text}\n"
        "table: {type: sqlite, path: people.db}\n"
    )
    return definition
