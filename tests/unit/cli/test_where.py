"""What `where` makes of the brokers' answers."""

import json

import pytest

from ledgerstone.cli.where import show
from ledgerstone.erasure.places import places_json, replicas_json
from ledgerstone.records.builder import build_batch
from tests.kit.planted_keys import LOG, PARTITION, disk_with, searched


def test_places_of_a_key_are_shown_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    data = build_batch([(1_700_000_000_000, b"alice", b"1", ()), (5, b"alice", None, ())])
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

    show("customers", b"alice", [places_json(searched(fs, b"alice"))], as_json=False)

    title, first, second = capsys.readouterr().out.splitlines()
    assert title.split()[:4] == ["PARTITION", "OFFSET", "STATE", "WRITTEN"]
    assert first.split() == [
        "0", "0", "superseded", "2023-11-14T22:13:20.000Z", f"customers-0/{LOG}", "0",
        "uncompressed", "-",
    ]  # fmt: skip
    assert second.split()[1:3] == ["1", "tombstone"]


def test_places_of_a_key_are_objects_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    data = build_batch([(5, b"alice", b"1", ())])
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(data)})

    show("customers", b"alice", [places_json(searched(fs, b"alice"))], as_json=True)

    assert json.loads(capsys.readouterr().out) == {
        "topic": "customers",
        "partition": 0,
        "offset": 0,
        "state": "live",
        "is_tombstone": False,
        "timestamp_ms": 5,
        "file": LOG,
        "file_state": "live",
        "position": 0,
        "codec": "uncompressed",
        "erasure_id": None,
    }


def test_key_that_is_nowhere_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": b"torn"})

    show("customers", b"alice", [places_json(searched(fs, b"alice"))], as_json=False)

    output = capsys.readouterr()
    assert output.out == 'no record of customers has the key "alice"\n'
    assert "the search is incomplete" in output.err


def test_every_replica_is_shown_with_its_broker(capsys: pytest.CaptureFixture[str]) -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": bytes(build_batch([(5, b"alice", b"1", ())]))})
    report = searched(fs, b"alice")

    show("customers", b"alice", [replicas_json({2: report, 1: report}, [])], as_json=False)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["BROKER", "PARTITION", "OFFSET"]
    assert [line.split()[:3] for line in lines[1:]] == [["1", "0", "0"], ["2", "0", "0"]]
