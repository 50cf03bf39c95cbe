"""What a pipeline finds of an erased key becomes part of a real erasure."""

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from typer.testing import CliRunner

from ledgerstone.cli.pipeline_flows import FAILED_EXIT, app
from ledgerstone.client.producer import NewRecord
from tests.kit.broker import BrokerProcess
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
    db = sqlite3.connect(tmp_path / "people.db")
    db.execute("CREATE TABLE people(id TEXT PRIMARY KEY, text TEXT)")
    db.execute("INSERT INTO people VALUES (?, 'personal')", (KEY,))
    db.commit()
    db.close()
    definition = tmp_path / "people.yaml"
    definition.write_text(
        f"name: people\nsource: {{topic: {topic}, bootstrap: '{broker.bootstrap}'}}\n"
        "key: {format: string, column: id}\nvalue: {format: string, column: text}\n"
        "table: {type: sqlite, path: people.db}\n"
    )
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
