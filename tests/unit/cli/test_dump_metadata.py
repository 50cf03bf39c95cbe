"""`ledgerstone dump` of the metadata log and of what a format writes: what each record says."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledgerstone.cli.main import app
from ledgerstone.metadata.records import encode_record
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    UserScramCredentialRecord,
)
from ledgerstone.records.builder import build_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka" / "log-dir" / "__cluster_metadata-0"
NAME = "00000000000000000000.log"


def run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, list(arguments))
    return ran.exit_code, ran.stdout


def said(text: str) -> list[dict[str, Any]]:
    facts = [json.loads(line) for line in text.splitlines()]
    return [each for each in facts if each["type"] == "metadata"]


def test_every_record_of_a_metadata_log_that_kafka_wrote_is_decoded() -> None:
    code, text = run("dump", "--records", "--json", str(GOLDEN / NAME))

    found = said(text)
    kinds = {each["record"] for each in found}
    assert code == 0
    assert {"FeatureLevel", "RegisterBroker", "Topic", "Partition"} <= kinds
    partition = next(each for each in found if each["record"] == "Partition")
    assert partition["fields"]["replicas"] == [1]


def test_line_behind_a_record_decodes_what_a_format_wrote(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:19193\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:19193\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    assert run("format", "-c", str(properties), "--standalone")[0] == 0

    code, text = run("dump", "--records", str(tmp_path / "data" / "bootstrap.checkpoint"))

    assert code == 0
    assert 'FeatureLevel {"name": "metadata.version", "feature_level": 30}' in text


def test_record_that_is_none_of_the_metadata_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    path = tmp_path / "__cluster_metadata-0" / NAME
    path.write_bytes(build_batch([(0, None, b"\x01\x7f\x00", ())]))

    code, text = run("dump", "--records", str(path))

    assert code != 0
    assert "PROBLEM" in text
    assert "the record at offset 0 is none of the metadata" in text


@pytest.mark.parametrize("form", [("--json",), ("--full",)], ids=str)
def test_secrets_are_shown_only_to_those_who_ask_for_them(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    path = tmp_path / "__cluster_metadata-0" / NAME
    records = [
        UserScramCredentialRecord("ann", 1, b"PEPPER", b"STORED", b"SERVER", 8192),
        ConfigRecord(4, "1", "listener.name.x.ssl.keystore.password", "HUSH"),
        ConfigRecord(2, "t", "cleanup.policy", "compact"),
    ]
    values = [encode_record(each) for each in records]
    path.write_bytes(build_batch([(0, None, value, ()) for value in values]))

    code, text = run("dump", "--records", *form, str(path))
    code_of_all, everything = run("dump", "--records", "--secrets", *form, str(path))

    secrets = [b"PEPPER", b"STORED", b"SERVER", b"HUSH"]
    words = [word for each in secrets for word in (each.decode(), each.hex())]
    assert (code, code_of_all) == (0, 0)
    assert not [word for word in words if word in text]
    assert b"STORED".hex() in everything
    assert "HUSH" in everything
    assert "ann" in text
    assert "compact" in text
