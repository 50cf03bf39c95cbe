"""`ledgerstone dump` of a transaction log: what each record says, whoever wrote it."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ledgerstone.cli.main import app
from ledgerstone.coordinator.transactions.transaction_records import transaction_key
from ledgerstone.records.builder import build_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_transactions" / "__transaction_state-0"
NAME = "00000000000000000000.log"


def dump(path: Path, *options: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["dump", "--records", *options, str(path)])
    return ran.exit_code, ran.stdout


def log_of(directory: Path, key: bytes | None, value: bytes | None) -> Path:
    (directory / "__transaction_state-7").mkdir()
    path = directory / "__transaction_state-7" / NAME
    path.write_bytes(build_batch([(0, key, value, ())]))
    return path


def transactions(text: str) -> list[dict[str, Any]]:
    facts = [json.loads(line) for line in text.splitlines()]
    return [each for each in facts if each["type"] == "transaction"]


def test_last_record_of_each_id_that_kafka_wrote_has_its_state() -> None:
    code, text = dump(GOLDEN / NAME, "--json")

    last = {each["transactional_id"].removeprefix("id of "): each for each in transactions(text)}
    assert code == 0
    assert {name: each["state"] for name, each in last.items()} == {
        "ended commit": "CompleteCommit",
        "ended abort": "CompleteAbort",
        "fenced": "Empty",
        "ongoing": "Ongoing",
        "ongoing old": "Ongoing",
        "only added": "Ongoing",
        "prepared commit": "PrepareCommit",
        "prepared abort": "PrepareAbort",
    }
    ongoing = last["ongoing"]
    assert set(ongoing["partitions"]) == {"exchanged-0", "exchanged-1", "__consumer_offsets-0"}
    assert (ongoing["client_version"], ongoing["producer_epoch"]) == (2, 0)
    assert (last["prepared commit"]["producer_epoch"], last["only added"]["client_version"]) == (
        1,
        0,
    )


def test_line_behind_a_record_decodes_it() -> None:
    _, text = dump(GOLDEN / NAME)

    first = next(line for line in text.splitlines() if "transactional_id=" in line)
    assert first.startswith('      transactional_id="id of ended commit" Empty producer=')
    assert "timeout=60000ms" in first
    # Nothing began yet.
    assert "started=" not in first


def test_tombstone_says_that_the_id_expired(tmp_path: Path) -> None:
    path = log_of(tmp_path, transaction_key("gone"), None)

    code, text = dump(path)
    (fact,) = transactions(dump(path, "--json")[1])

    assert code == 0
    assert '      transactional_id="gone" EXPIRED' in text.splitlines()
    assert (fact["transactional_id"], fact["state"]) == ("gone", None)


def test_record_that_a_coordinator_would_not_load_is_a_problem(tmp_path: Path) -> None:
    code, text = dump(log_of(tmp_path, transaction_key("odd"), b"\0\0\1"))

    assert code == 1
    assert "PROBLEM" in text


def test_value_of_an_unknown_version_is_passed_over(tmp_path: Path) -> None:
    code, text = dump(log_of(tmp_path, transaction_key("new"), b"\0\x09 anything"), "--json")

    assert (code, transactions(text)) == (0, [])


def test_other_topics_are_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(build_batch([(0, transaction_key("x"), None, ())]))

    assert transactions(dump(path, "--json")[1]) == []
