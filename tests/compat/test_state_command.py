"""`ledgerstone state` against a broker: what it shows and keeps, and which snapshots it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compat.clients import CLIENTS, Record
from tests.compat.confluent_admin import AdminClient
from tests.compat.conftest import CreateTopic
from tests.kit import command_line
from tests.kit.broker import BrokerProcess, wait_until


class Done(NamedTuple):
    code: int
    lines: list[str]
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        (line,) = self.lines
        found: dict[str, Any] = json.loads(line)
        return found


class Shell:
    """Runs `ledgerstone`, and writes records, as a user would."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._bootstrap = broker.bootstrap
        self._client = CLIENTS[0](broker.bootstrap)

    def run(self, *arguments: str) -> Done:
        here = {"LEDGERSTONE_BOOTSTRAP": self._bootstrap}
        done = command_line.ledgerstone(*arguments, environment=here)
        return Done(done.code, done.stdout.splitlines(), done.stderr)

    def state(self, *arguments: str) -> dict[str, Any]:
        done = self.run("state", *arguments, "--json")
        assert done.code == 0, done.stderr
        return done.json

    def put(self, topic: str, **values: str | None) -> None:
        for key, value in values.items():
            encoded = None if value is None else value.encode()
            self._client.produce(topic, [Record(encoded, key.encode())])


@pytest.fixture
def shell(broker: BrokerProcess) -> Shell:
    return Shell(broker)


def test_state_is_the_same_before_and_after_compaction(
    shell: Shell, create_topic: CreateTopic
) -> None:
    topic = create_topic("state", cleanup_policy="compact")
    for number in range(3):
        shell.put(topic, alice=f"a{number}", bob=f"b{number}")
    shell.put(topic, bob=None)

    before = shell.state(topic)
    shell.run("compact", topic, "--wait")
    after = shell.state(topic)

    assert (before["live_keys"], before["deleted_keys"]) == (1, 1)
    assert before["counts"]["deletes_applied"] == 1
    assert before["counts"]["records"] == 7
    assert after["counts"]["records"] == 2
    assert after["counts"]["missing"] == 5
    same = ("live_keys", "deleted_keys", "distinct_keys", "checksum", "complete")
    assert [after[name] for name in same] == [before[name] for name in same]


def test_keys_are_listed_live_deleted_or_never_seen(
    shell: Shell, create_topic: CreateTopic
) -> None:
    topic = create_topic("listed")
    shell.put(topic, alice="1", bob="2", carol="3")
    shell.put(topic, bob=None)

    listed = shell.run("state", topic, "--list")
    deleted = shell.run("state", topic, "--deleted")
    one = shell.run("state", topic, "--list", "--limit", "1", "--json").json
    statuses = [shell.state(topic, "--key", key)["status"] for key in ("alice", "bob", "zoe")]

    assert [line.split(" ", 2)[2] for line in listed.lines] == ['"alice" "1"', '"carol" "3"']
    assert [line.split(" ", 2)[2] for line in deleted.lines] == ['"bob" DELETED']
    assert (one["partition"], one["offset"], one["key"], one["value"]) == (0, 0, "alice", "1")
    assert statuses == ["live", "deleted", "never seen"]


def test_one_key_is_printed_as_a_client_folds_it(
    shell: Shell, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("got", partitions=2)
    shell.put(topic, alice='{"n": 1}', bob="2")
    shell.put(topic, alice='{"n": 2}', bob=None)

    alice, bob, zoe = (shell.run("state", "get", topic, key) for key in ("alice", "bob", "zoe"))
    wrong = shell.run("state", "get", topic)
    nothing = shell.run("state", "get", "x", "--work", str(tmp_path))

    assert (alice.code, alice.lines) == (0, ['{"n": 2}'])
    assert (bob.code, zoe.code) == (4, 4)
    assert "deleted in partition" in bob.stderr
    assert "never seen" in zoe.stderr
    assert wrong.code == 2
    assert nothing.code == 1
    assert "state.json cannot be read" in nothing.stderr


def test_key_in_two_partitions_is_told(shell: Shell, create_topic: CreateTopic) -> None:
    topic = create_topic("stray", partitions=2)
    for partition in ("0", "1"):
        shell.run("produce", topic, "--key", "k", "--value", "v", "--partition", partition)

    found = shell.state(topic)
    key = shell.state(topic, "--key", "k")

    assert (found["live_keys"], found["distinct_keys"]) == (2, 1)
    assert found["keys_in_several_partitions"] == 1
    assert [each["partition"] for each in key["partitions"]] == [0, 1]


def test_past_is_shown_and_doubted_once_it_was_compacted(
    shell: Shell, create_topic: CreateTopic
) -> None:
    topic = create_topic("past", cleanup_policy="compact")
    shell.put(topic, alice="1", bob="2")
    shell.put(topic, alice="3")

    by_offset = shell.state(topic, "--at", "1")
    by_partition = shell.state(topic, "--at", '{"0": 2}')
    by_time = shell.state(topic, "--at", "2001-01-01T00:00:00Z")
    shell.run("compact", topic, "--wait")
    doubted = shell.run("state", topic, "--at", "1", "--json")

    assert [each["live_keys"] for each in (by_offset, by_partition, by_time)] == [1, 2, 0]
    assert by_offset["complete"] is True
    assert doubted.code == 3
    assert doubted.json["complete"] is False
    assert "no longer have a record" in doubted.json["because"]
    assert "may be incomplete" in doubted.stderr


def test_snapshot_is_gone_on_from_and_read_without_a_broker(
    shell: Shell, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("kept", cleanup_policy="compact")
    path = str(tmp_path / "kept.snapshot")
    shell.put(topic, alice="1", bob="2")
    first = shell.state(topic, "--snapshot", path)
    shell.put(topic, alice=None, carol="3")

    second = shell.state(topic, "--snapshot", path)
    whole = shell.state(topic)
    environment = {**os.environ, "LEDGERSTONE_BOOTSTRAP": "127.0.0.1:1"}
    command = [sys.executable, "-m", "ledgerstone", "state", "--from", path, "--deleted", "--json"]
    offline = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    other = shell.run("state", create_topic("other"), "--snapshot", path)

    assert other.code == 1
    assert f"is of {topic} (read_committed), not of other" in other.stderr
    assert second["bytes_read"] < whole["bytes_read"]
    assert second["partitions"][0]["start_offset"] == first["partitions"][0]["end_offset"] == 2
    assert second["counts"] == whole["counts"]
    assert second["checksum"] == whole["checksum"] != first["checksum"]
    assert json.loads(offline.stdout)["key"] == "alice"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept.snapshot"]


def test_snapshot_is_refused_where_a_delete_may_have_been_missed(
    shell: Shell, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("missed", cleanup_policy="compact", delete_retention_ms="0")
    path = str(tmp_path / "missed.snapshot")
    shell.put(topic, alice="1")
    shell.state(topic, "--snapshot", path)
    shell.put(topic, alice=None, bob="2")

    def tombstone_is_gone() -> bool:
        shell.run("compact", topic, "--wait")
        return bool(shell.state(topic)["deleted_keys"] == 0)

    wait_until(tombstone_is_gone, "the tombstone is compacted away")
    refused = shell.run("state", topic, "--snapshot", path)
    rebuilt = shell.state(topic, "--snapshot", path, "--rebuild")

    assert refused.code == 1
    assert "deletes may have been missed; use --rebuild" in refused.stderr
    assert rebuilt["live_keys"] == 1


def test_snapshot_of_a_topic_that_was_created_again_is_refused(
    shell: Shell, create_topic: CreateTopic, admin: AdminClient, tmp_path: Path
) -> None:
    topic = create_topic("again")
    path = str(tmp_path / "again.snapshot")
    shell.put(topic, alice="1")
    shell.state(topic, "--snapshot", path)
    admin.delete_topics([topic])[topic].result(20)
    wait_until(lambda: shell.run("topics", "create", topic).code == 0, "the topic is there again")
    shell.put(topic, bob="1", carol="2")

    refused = shell.run("state", topic, "--snapshot", path)
    rebuilt = shell.state(topic, "--snapshot", path, "--rebuild")

    assert refused.code == 1
    assert "it was deleted and recreated; use --rebuild" in refused.stderr
    assert rebuilt["live_keys"] == 2


def test_errors_are_one_line_and_usage_is_two(
    shell: Shell, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic("wrong", partitions=2)
    torn = tmp_path / "torn"
    torn.write_bytes(b"LSSTATE\n")

    nowhere = shell.run("state", "no-such-topic")
    half = shell.run("state", topic, "--at", '{"0": 0}')
    damaged = shell.run("state", "--from", str(torn))
    usage = [
        shell.run("state"),
        shell.run("state", topic, "--from", str(torn)),
        shell.run("state", topic, "--at", '{"0": "x"}'),
        shell.run("state", "--from", str(tmp_path / "missing")),
    ]

    assert [nowhere.code, half.code, damaged.code] == [1, 1, 1]
    assert f"no offset is given for {topic}-1" in half.stderr
    assert "torn at 0: 8 bytes" in damaged.stderr
    assert [each.code for each in usage] == [2, 2, 2, 2]
