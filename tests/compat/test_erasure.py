"""A person erased from a stream by the command line, with real clients looking on."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from ledgerstone.client.partitioner import partition_of
from tests.compat.clients import CLIENTS, CODECS, Client, Confluent, Record
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.kit import command_line
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import get, post, workers_of
from tests.kit.erasures import await_receipt, base64, files_with

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("virtual")
    with BrokerProcess(directory, arguments=("--clock", "virtual")) as process:
        yield process
        process.stop()
        assert " ERROR " not in process.log_text, process.log_text


def create(broker: BrokerProcess, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {"cleanup.policy": "compact", **{k.replace("_", "."): v for k, v in config.items()}}
    asked = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([asked])[topic].result(20)


def ledgerstone(
    broker: BrokerProcess | None, *arguments: str, expect: int = 0
) -> command_line.Done:
    at = () if broker is None else ("--bootstrap", broker.bootstrap)
    done = command_line.ledgerstone(*arguments, *at)
    assert done.code == expect, done.stdout + done.stderr
    return done


def erase(broker: BrokerProcess, topic: str, key: bytes, **content: Any) -> str:
    fields = {"reason": "ticket 4711", "requested_by": "clerk", "key": base64(key), **content}
    (made,) = post(broker, f"topics/{topic}/erasures", **fields)["erasures"]
    return str(made["id"])


def test_command_line_goes_from_where_to_a_verified_receipt(
    virtual: BrokerProcess, tmp_path: Path
) -> None:
    topic, key, paper = "customers", "alice@example.org", tmp_path / "receipt.json"
    create(virtual, topic, partitions=3)
    Confluent(virtual.bootstrap).produce(topic, [Record(b"in Ulm", key.encode())])

    where = ledgerstone(virtual, "where", topic, key).stdout
    done = ledgerstone(
        virtual, "erase", topic, key, "--by", "30d", "--reason", "ticket 4711", "--wait",
        "--receipt", str(paper),
    ).stdout  # fmt: skip
    erasure_id = json.loads(paper.read_text())["id"]
    text = ledgerstone(virtual, "receipt", erasure_id).stdout
    listed = ledgerstone(virtual, "erasures", "--all").stdout
    overdue = ledgerstone(virtual, "erasures", "--overdue").stdout
    checked = ledgerstone(
        None, "verify-receipt", str(paper), "--keys-file", str(virtual.data / "erasure.keys"),
        "--key", key,
    ).stdout  # fmt: skip
    gone = ledgerstone(virtual, "where", topic, key).stdout

    assert "live" in where
    shown = [line.split()[1] for line in done.splitlines() if line.startswith("20")]
    assert shown == [
        "requested", "searched", "tombstoned", "stamped", "removed", "unlinked", "verified",
        "receipted",
    ]  # fmt: skip
    assert "evidence of technical deletion" in text
    assert erasure_id in listed
    assert "no erasures are overdue" in overdue
    assert "ok: it is about the key given" in checked
    assert "no record" in gone
    assert (virtual.data / "erasure.keys").stat().st_mode & 0o777 == 0o600
    for page in ("/metrics", "/api/v1/erasures", f"/api/v1/erasures/{erasure_id}"):
        assert key not in virtual.get(page)
    assert key not in virtual.log_text
    assert key not in paper.read_text()
    assert not files_with(virtual.data, key.encode())


def test_receipt_that_was_fetched_here_is_trusted_here_and_nowhere_else(
    virtual: BrokerProcess, tmp_path: Path
) -> None:
    create(virtual, "trusted", delete_retention_ms="0", file_delete_delay_ms="0")
    Confluent(virtual.bootstrap).produce("trusted", [Record(b"1", b"carol@example.org")])
    paper = tmp_path / "receipt.json"
    elsewhere = {"LEDGERSTONE_RECEIPT_KEYS": str(tmp_path / "none")}
    # As in README.md.
    ledgerstone(
        virtual, "erase", "trusted", "carol@example.org", "--by", "30d", "--reason", "ticket 4711",
        "--wait", "--receipt", str(paper),
    )  # fmt: skip
    here = ledgerstone(None, "verify-receipt", str(paper)).stdout
    there = command_line.ledgerstone("verify-receipt", str(paper), environment=elsewhere)
    name = ledgerstone(virtual, "erasures", "public-key", "--fingerprint").stdout.strip()
    told = [
        command_line.ledgerstone("verify-receipt", str(paper), option, value, environment=elsewhere)
        for option, value in (
            ("--public-key", name),
            ("--broker", virtual.bootstrap),
            ("--broker", virtual.http),
        )
    ]

    assert "ok: signed with" in here
    assert there.code == 3
    assert "UNPROVEN" in there.stdout
    assert [each.code for each in told] == [0, 0, 0], told


def test_many_keys_are_paired_with_their_ids(virtual: BrokerProcess, tmp_path: Path) -> None:
    topic, papers = "paired", tmp_path / "papers"
    create(virtual, topic, partitions=2)
    keys = [f"customer-{number}@example.org" for number in range(5)]
    records = [Record(b"1", key.encode()) for key in keys[:4]]
    Confluent(virtual.bootstrap).produce(topic, records)
    file = tmp_path / "keys.txt"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(keys).encode() + b"\r\n")

    done = ledgerstone(
        virtual, "erase", topic, "--keys-from", str(file), "--receipt", str(papers), "--by", "30d",
        expect=3,
    )  # fmt: skip

    pairs = [json.loads(line) for line in (papers / "erasures.jsonl").read_text().splitlines()]
    assert [each["key"] for each in pairs] == keys
    for each in pairs:
        shown = [line for line in done.stdout.splitlines() if line.startswith(each["id"])]
        assert shown[0].endswith(f'key "{each["key"]}"')
    for each in pairs:
        paper = papers / f"{each['id']}.json"
        checked = ledgerstone(
            None, "verify-receipt", str(paper), "--keys-file", str(virtual.data / "erasure.keys"),
            "--key", each["key"],
        ).stdout  # fmt: skip
        assert "it is about the key given" in checked
    kinds = [json.loads((papers / f"{each['id']}.json").read_text())["kind"] for each in pairs]
    assert kinds == ["erasure"] * 4 + ["not_found"]
    assert "5 keys: 1 not_found, 4 receipted" in done.stdout
    assert done.stderr == ""
    for key in keys:
        assert key not in virtual.log_text


def test_deadline_that_cannot_be_met_is_said_at_once(
    virtual: BrokerProcess, tmp_path: Path
) -> None:
    create(virtual, "hasty")
    file = tmp_path / "keys.txt"
    file.write_text("".join(f"customer-{number}@example.org\n" for number in range(12)))

    asked = ledgerstone(
        virtual, "erase", "hasty", "--keys-from", str(file), "--after", "1h", "--by", "2h", "--json"
    )
    erasures = [json.loads(line) for line in asked.stdout.splitlines()]
    for each in erasures:
        post(virtual, f"erasures/{each['id']}/cancel", by="clerk")

    # Once, although it is true of each.
    assert asked.stderr.count("cannot be met") == 1
    assert "set delete.retention.ms of hasty to at most 34" in asked.stderr
    assert len(erasures) == 12
    assert all(each["will_miss"] for each in erasures)


def test_other_machine_searches_and_erases_with_the_token(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, arguments=("--http", "0.0.0.0:0")) as broker:
        create(broker, "far", delete_retention_ms="0", file_delete_delay_ms="0")
        Confluent(broker.bootstrap).produce("far", [Record(b"1", b"dora@example.org")])
        token = json.loads((tmp_path / "ready.json").read_text())["token"]
        paper = tmp_path / "receipt.json"
        erase = ("erase", "far", "dora@example.org", "--receipt", str(paper))

        refused = [
            ledgerstone(broker, *words, expect=1).stderr
            for words in (("where", "far", "dora@example.org"), erase)
        ]
        where = ledgerstone(broker, "where", "far", "dora@example.org", "--token", token).stdout
        done = command_line.ledgerstone(
            *erase, "--bootstrap", broker.bootstrap, environment={"LEDGERSTONE_HTTP_TOKEN": token}
        )

        assert all("Authorization: Bearer" in each for each in refused)
        assert "live" in where
        assert done.code == 0, done
        assert paper.exists()
        broker.stop()


def test_receipt_with_any_byte_changed_is_refused(virtual: BrokerProcess, tmp_path: Path) -> None:
    create(virtual, "changed", delete_retention_ms="0", file_delete_delay_ms="0")
    Confluent(virtual.bootstrap).produce("changed", [Record(b"1", b"bob@example.org")])
    receipt = await_receipt(virtual, erase(virtual, "changed", b"bob@example.org"))
    paper, public_key = tmp_path / "receipt.json", tmp_path / "public.hex"
    paper.write_bytes(receipt)
    public_key.write_text(ledgerstone(virtual, "erasures", "public-key").stdout)
    check = ("verify-receipt", str(paper), "--public-key", str(public_key), "--json")

    good = ledgerstone(None, *check).stdout
    paper.write_bytes(receipt.replace(b'"residue": 0', b'"residue": 1'))
    changed = ledgerstone(None, *check, expect=1).stdout
    paper.write_bytes(receipt)
    public_key.write_text("00" * 32)
    foreign = ledgerstone(None, *check, expect=1).stdout

    assert json.loads(good)["ok"] is True
    assert "the signature does not fit" in json.loads(changed)["reasons"][0]
    assert "not by 0000" in json.loads(foreign)["reasons"][0]


def test_stray_of_another_partitioner_is_found_and_buried(virtual: BrokerProcess) -> None:
    topic = "strays"
    create(virtual, topic, partitions=7, delete_retention_ms="0", file_delete_delay_ms="0")
    # librdkafka's own partitioner hashes with CRC-32.
    producer = confluent_kafka.Producer({"bootstrap.servers": virtual.bootstrap})
    placed: dict[bytes | None, int | None] = {}
    keys = [b"customer-%d" % number for number in range(20)]
    for key in keys:
        producer.produce(
            topic, key=key, value=b"1",
            on_delivery=lambda _, message: placed.update({message.key(): message.partition()}),
        )  # fmt: skip
    producer.flush(20)
    key = next(key for key in keys if placed[key] != partition_of(key, 7))

    erasure_id = erase(virtual, topic, key)
    receipt = json.loads(await_receipt(virtual, erasure_id))

    expected = sorted([placed[key] or 0, partition_of(key, 7)])
    assert [each["partition"] for each in receipt["tombstones"]] == expected
    assert not files_with(virtual.data, key + b"1")


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
def test_clients_see_the_tombstone_with_its_headers(
    virtual: BrokerProcess, kind: type[Client]
) -> None:
    topic = f"seen-{kind.name}"
    create(virtual, topic)
    client = kind(virtual.bootstrap)
    client.produce(topic, [Record(b"in Ulm", b"carol")])

    erasure_id = erase(virtual, topic, b"carol", within_ms=30 * DAY_MS)
    wait_until(lambda: get(virtual, f"erasures/{erasure_id}")["tombstones"], "it is written")
    seen = [each for each in client.consume(topic, 1, offset=1) if each.offset == 1]

    headers = dict(seen[0].record.headers)
    assert (seen[0].record.key, seen[0].record.value) == (b"carol", None)
    assert headers["ledgerstone.erasure.id"] == erasure_id.encode()
    assert headers["ledgerstone.erasure.reason"] == b"ticket 4711"
    assert headers["ledgerstone.erasure.requested-by"] == b"clerk"
    assert headers["ledgerstone.erasure.requested-at"].endswith(b"Z")
    assert headers["ledgerstone.erasure.deadline"].endswith(b"Z")


def test_key_is_erased_out_of_every_codec(virtual: BrokerProcess) -> None:
    create(virtual, "packed", delete_retention_ms="0", file_delete_delay_ms="0")
    client = Confluent(virtual.bootstrap)
    for codec in CODECS:
        records = [Record(codec.encode() * 50, b"dave@example.org"), Record(b"2" * 50, b"other")]
        client.produce("packed", records, codec=codec)

    receipt = json.loads(await_receipt(virtual, erase(virtual, "packed", b"dave@example.org")))

    seen = client.consume("packed", 1)
    assert [each.record.key for each in seen] == [b"other"]
    assert receipt["replicas"][0]["residue"] == 0


def test_residue_in_any_file_is_told_by_the_command(virtual: BrokerProcess, tmp_path: Path) -> None:
    create(virtual, "planted", delete_retention_ms="0", file_delete_delay_ms="0")
    Confluent(virtual.bootstrap).produce("planted", [Record(b"1", b"erin@example.org")])
    planted = virtual.data / "notes.txt"
    planted.write_text("call erin@example.org")

    told = ledgerstone(
        virtual, "erase", "planted", "erin@example.org", "--receipt", str(tmp_path / "none"),
        expect=4,
    ).stdout  # fmt: skip
    planted.unlink()

    assert "residue found" in told
    assert "notes.txt" in told
    assert not (tmp_path / "none").exists()


def test_key_that_is_nowhere_is_said_so_by_the_exit_code(virtual: BrokerProcess) -> None:
    create(virtual, "empty")

    told = ledgerstone(virtual, "erase", "empty", "nobody", "--wait", expect=3).stdout

    assert "no partition of empty holds the key" in told


def test_scheduled_erasure_is_cancelled_by_command(virtual: BrokerProcess) -> None:
    create(virtual, "later")
    Confluent(virtual.bootstrap).produce("later", [Record(b"1", b"frank")])

    asked = json.loads(
        ledgerstone(virtual, "erase", "later", "frank", "--after", "7d", "--json").stdout
    )
    cancelled = ledgerstone(virtual, "erasures", "cancel", asked["id"], "--by-user", "me").stdout
    again = ledgerstone(virtual, "erasures", "cancel", asked["id"], expect=1).stderr

    assert asked["stage"] == "scheduled"
    assert "cancelled by me" in cancelled
    assert "can no longer be cancelled" in again


def test_many_keys_of_a_file_are_one_batch(virtual: BrokerProcess, tmp_path: Path) -> None:
    create(virtual, "many", delete_retention_ms="0", file_delete_delay_ms="0")
    keys = [b"customer-%04d@example.org" % number for number in range(60)]
    Confluent(virtual.bootstrap).produce("many", [Record(b"1", key) for key in keys])
    listed = tmp_path / "keys"
    listed.write_bytes(b"\n".join(keys))

    ledgerstone(
        virtual, "erase", "many", "--keys-from", str(listed), "--receipt", str(tmp_path),
        "--reason", "all of them",
    )  # fmt: skip

    passes = get(virtual, "cleaner/history?topic=many")["runs"]
    assert len(list(tmp_path.glob("ER-*.json"))) == 60
    assert len(passes) <= 3
    assert not files_with(virtual.data, b"@example.org")


def test_scanning_worker_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        create(broker, "topic", delete_retention_ms="0", file_delete_delay_ms="0")
        Confluent(broker.bootstrap).produce("topic", [Record(b"1", b"grace@example.org")])
        ledgerstone(broker, "where", "topic", "grace@example.org")
        workers = workers_of(broker.pid)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)

        receipt = await_receipt(broker, erase(broker, "topic", b"grace@example.org"))
        broker.stop()

        assert workers
        assert json.loads(receipt)["topic"] == "topic"


def has_receipt_in_time(broker: BrokerProcess, erasure_id: str) -> bool:
    """Lets the time pass that it waits for: a scan that met a change of the journal rests, and long
    where the clock was moved while it ran."""
    shown = get(broker, f"erasures/{erasure_id}")
    until_ms = shown["waits_until_ms"]
    if not shown["has_receipt"] and until_ms is not None:
        post(broker, "clock/advance", ms=max(until_ms - shown["now_ms"], 0))
    return bool(shown["has_receipt"])


def test_what_stands_in_the_way_is_accepted_or_the_erasure_abandoned(
    virtual: BrokerProcess, tmp_path: Path
) -> None:
    create(virtual, "blocked")
    keys = ["carol@example.org", "dave@example.org"]
    records = [Record(b"in Ulm", key.encode()) for key in keys]
    Confluent(virtual.bootstrap).produce("blocked", records)
    (virtual.data / "notes.txt").write_text(" ".join(keys))
    ids = []
    for key in keys:
        said = ledgerstone(virtual, "erase", "blocked", key, "--wait", expect=4).stdout
        ids.append(next(word for word in said.split() if word.startswith("ER-")))
        assert "0/notes.txt" in said

    shown = ledgerstone(virtual, "erasures", "show", ids[0]).stdout
    ledgerstone(
        virtual, "erasures", "accept", ids[0], "--file", "0/notes.txt", "--reason", "a court file",
        "--by-user", "operator",
    )  # fmt: skip
    wait_until(lambda: has_receipt_in_time(virtual, ids[0]), "what was accepted ends in a receipt")
    receipt = json.loads(await_receipt(virtual, ids[0]))
    given_up = ledgerstone(virtual, "erasures", "abandon", ids[1], "--reason", "asked twice").stdout
    paper = tmp_path / "receipt.json"
    ledgerstone(virtual, "receipt", ids[0], "--out", str(paper))
    keys_file = str(virtual.data / "erasure.keys")
    checked = ledgerstone(None, "verify-receipt", str(paper), "--keys-file", keys_file).stdout

    assert "found    1 times in 0/notes.txt" in shown
    assert [each["by"] for each in receipt["exceptions"]] == ["operator"]
    assert "abandoned" in given_up
    assert "Accepted by the operator" in checked
    assert "VIRTUAL" in checked
    ledgerstone(virtual, "receipt", ids[1], expect=1)
    (virtual.data / "notes.txt").unlink()


def test_key_that_is_nowhere_gets_a_statement_that_verifies(
    virtual: BrokerProcess, tmp_path: Path
) -> None:
    create(virtual, "without")
    paper = tmp_path / "receipt.json"

    ledgerstone(
        virtual, "erase", "without", "erin@example.org", "--wait", "--receipt", str(paper), expect=3
    )
    keys_file = str(virtual.data / "erasure.keys")
    checked = ledgerstone(
        None, "verify-receipt", str(paper), "--keys-file", keys_file, "--key", "erin@example.org"
    ).stdout

    assert "Key not found, erasure" in checked
    assert "0 records of the key" in checked
