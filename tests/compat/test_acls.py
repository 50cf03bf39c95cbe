"""ACLs on a broker of its own process: `ledgerstone acls`, `kafka-acls`, records for Kafka.

Everybody is `User:ANONYMOUS` here, and a super user: who may do what is shown by
`test_authorization_matrix.py`.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import command_line
from tests.kit.broker import BrokerProcess

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
needs_kafka = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, settings=dict(SETTINGS)) as process:
        yield process


def _acls(broker: BrokerProcess, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    here = {"LEDGERSTONE_BOOTSTRAP": broker.bootstrap}
    done = command_line.ledgerstone("acls", *arguments, "--json", environment=here)
    assert done.code == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _short(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (row["resource"], row["name"], row["pattern"], row["operation"], row["permission"])
        for row in rows
    ]


def test_acls_are_added_listed_kept_over_a_restart_and_removed(broker: BrokerProcess) -> None:
    who = ("--allow-principal", "User:ann")
    _acls(broker, "add", *who, "--topic", "tea", "--resource-pattern-type", "prefixed",
          "--operation", "Read", "--operation", "describe-configs")  # fmt: skip
    _acls(broker, "add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--cluster")
    broker.kill()
    broker.start()

    everything = _acls(broker, "list")
    matching = _acls(broker, "list", "--topic", "teapot", "--resource-pattern-type", "match")
    removed = _acls(broker, "remove", *who, "--topic", "tea", "--operation", "Read",
                    "--resource-pattern-type", "any")  # fmt: skip
    _acls(broker, "remove", "--cluster", "--force")

    assert _short(everything) == [
        ("TOPIC", "tea", "PREFIXED", "READ", "ALLOW"),
        ("TOPIC", "tea", "PREFIXED", "DESCRIBE_CONFIGS", "ALLOW"),
        ("CLUSTER", "kafka-cluster", "LITERAL", "ALL", "DENY"),
    ]
    assert (everything[2]["principal"], everything[2]["host"]) == ("User:*", "10.0.0.1")
    assert _short(matching) == _short(everything)[:2]
    assert _short(removed) == [("TOPIC", "tea", "PREFIXED", "READ", "ALLOW")]
    assert _short(_acls(broker, "list")) == _short(everything)[1:2]


def test_what_producers_and_consumers_need_is_added_at_once(broker: BrokerProcess) -> None:
    added = _acls(
        broker, "add", "--allow-principal", "User:ann", "--producer", "--consumer", "--idempotent",
        "--topic", "tea", "--group", "g", "--transactional-id", "x",
    )  # fmt: skip

    assert [(row["resource"], row["operation"]) for row in added] == [
        ("TOPIC", "WRITE"),
        ("TOPIC", "DESCRIBE"),
        ("TOPIC", "CREATE"),
        ("TRANSACTIONAL_ID", "WRITE"),
        ("TRANSACTIONAL_ID", "DESCRIBE"),
        ("TOPIC", "READ"),
        ("GROUP", "READ"),
        ("CLUSTER", "IDEMPOTENT_WRITE"),
    ]
    assert len(_acls(broker, "list", "--principal", "User:ann")) == len(added)


@pytest.mark.parametrize(
    "wrong",
    [
        ("add", "--topic", "t"),
        ("add", "--topic", "t", "--allow-principal", "ann"),
        ("add", "--allow-principal", "User:ann"),
        ("add", "--topic", "t", "--allow-principal", "User:a", "--operation", "Fly"),
        ("add", "--topic", "t", "--allow-principal", "User:a", "--operation", "ClusterAction"),
        ("add", "--topic", "t", "--allow-principal", "User:a", "--deny-host", "10.0.0.1"),
        ("add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "any"),
        ("add", "--topic", "t", "--allow-principal", "User:a", "--consumer"),
        ("add", "--group", "g", "--allow-principal", "User:a", "--producer"),
        ("add", "--topic", "t", "--allow-principal", "User:a", "--idempotent"),
        ("remove", "--force"),
        ("list", "--resource-pattern-type", "odd"),
    ],
)
def test_command_that_means_nothing_is_refused_before_it_connects(wrong: tuple[str, ...]) -> None:
    done = command_line.ledgerstone("acls", *wrong, "--bootstrap-server", "127.0.0.1:1")

    assert done.code == 2, done.stderr


def test_host_that_is_no_address_is_refused_with_the_reason(broker: BrokerProcess) -> None:
    here = {"LEDGERSTONE_BOOTSTRAP": broker.bootstrap}
    done = command_line.ledgerstone(
        "acls", "add", "--topic", "t", "--allow-principal", "User:a", "--allow-host", "some.host",
        environment=here,
    )  # fmt: skip

    assert done.code == 1
    assert "some.host" in done.stderr


class TestWithKafka:
    pytestmark = needs_kafka

    def test_kafka_acls_adds_lists_and_removes(self, broker: BrokerProcess) -> None:
        who = ("--allow-principal", "User:ann", "--allow-host", "10.0.0.1")
        added = _kafka_acls(broker, "--add", *who, "--topic", "tea", "--producer")
        _kafka_acls(broker, "--add", "--deny-principal", "User:bob", "--operation", "Read",
                    "--group", "g", "--resource-pattern-type", "prefixed")  # fmt: skip

        listed = _kafka_acls(broker, "--list")
        removed = _kafka_acls(broker, "--remove", "--topic", "tea", "--force")

        assert "operation=CREATE, permissionType=ALLOW" in added
        assert "resourceType=GROUP, name=g, patternType=PREFIXED" in listed
        assert "principal=User:ann, host=10.0.0.1, operation=WRITE, permissionType=ALLOW" in listed
        assert "User:ann" not in removed
        assert [row["principal"] for row in _acls(broker, "list")] == ["User:bob"]

    def test_kafkas_dump_tool_reads_our_records(self, broker: BrokerProcess) -> None:
        _acls(broker, "add", "--allow-principal", "User:ann", "--topic", "tea",
              "--operation", "write")  # fmt: skip
        _acls(broker, "remove", "--topic", "tea", "--force")
        broker.stop()
        (log,) = broker.directory.glob("**/__cluster_metadata-0/00000000000000000000.log")

        said = _java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder",
                     "--files", str(log))  # fmt: skip

        (line,) = (each for each in said.splitlines() if '"ACCESS_CONTROL_ENTRY_RECORD"' in each)
        assert '"resourceType":2,"resourceName":"tea","patternType":3' in line
        assert '"principal":"User:ann","host":"*","operation":4,"permissionType":3' in line
        assert '"REMOVE_ACCESS_CONTROL_ENTRY_RECORD"' in said


def _java(*arguments: str) -> str:
    from golden.kafka_tools import fetch_jars

    done = subprocess.run(
        fetch_jars().java(*arguments), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _kafka_acls(broker: BrokerProcess, *arguments: str) -> str:
    bootstrap = ("--bootstrap-server", broker.bootstrap)
    return _java("org.apache.kafka.tools.AclCommand", *bootstrap, *arguments)
