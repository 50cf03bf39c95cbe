"""Kafka's own command line tools, from its jars, against a broker of ours.

Each either does its work, or says within seconds why it cannot. A tool that waits for a time-out of
its own counts as a failure, whatever it prints then. Needs Java, and Maven for the first run:
`make kafka-reads`.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from golden.kafka_tools import fetch_jars
from tests.kit.broker import BrokerProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

TOOLS = "org.apache.kafka.tools"
TOPIC_TOOL = f"{TOOLS}.TopicCommand"
GROUP_TOOL = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIG_TOOL = "kafka.admin.ConfigCommand"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
# Tools give up after a minute; a busy machine starts a JVM in a few seconds.
SOON_S = 30.0


class Ran(NamedTuple):
    code: int
    text: str


Tool = Callable[..., Ran]


@pytest.fixture
def tool(broker: BrokerProcess) -> Tool:
    jars = fetch_jars()

    def run(name: str, *arguments: str, stdin: str = "") -> Ran:
        address = ("--bootstrap-server", broker.bootstrap)
        # Sub-commands come behind the address, but not with this one.
        is_last = name.endswith(".ClusterTool")
        words = (*arguments, *address) if is_last else (*address, *arguments)
        command = jars.java(name, *words)
        started_s = time.monotonic()
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )
        text = done.stdout + done.stderr
        assert time.monotonic() - started_s < SOON_S, text
        return Ran(done.returncode, text)

    return run


@pytest.fixture
def done(tool: Tool) -> Callable[..., str]:
    """Runs a tool that has to succeed."""

    def run(name: str, *arguments: str, stdin: str = "") -> str:
        ran = tool(name, *arguments, stdin=stdin)
        assert ran.code == 0, ran.text
        return ran.text

    return run


Done = Callable[..., str]


def test_topic_is_created_altered_described_and_deleted(done: Done) -> None:
    done(TOPIC_TOOL, "--create", "--topic", "java-topic", "--partitions", "2")
    done(TOPIC_TOOL, "--alter", "--topic", "java-topic", "--partitions", "3")

    described = done(TOPIC_TOOL, "--describe", "--topic", "java-topic")
    listed = done(TOPIC_TOOL, "--list")
    done(TOPIC_TOOL, "--delete", "--topic", "java-topic")

    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert described.count("Leader: 1") == 3
    assert "java-topic" in listed.splitlines()
    assert "java-topic" not in done(TOPIC_TOOL, "--list").splitlines()


def test_lines_are_produced_consumed_committed_and_reset(done: Done) -> None:
    done(TOPIC_TOOL, "--create", "--topic", "java-lines", "--partitions", "1")
    pairs = "".join(f"k{number}:v{number}\n" for number in range(20))
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]

    done(f"{TOOLS}.ConsoleProducer", "--topic", "java-lines", *keyed, stdin=pairs)
    read = done(
        CONSUMER, "--topic", "java-lines", "--from-beginning", "--max-messages", "20",
        "--group", "java-group", "--formatter-property", "print.key=true",
    )  # fmt: skip
    behind = done(GROUP_TOOL, "--describe", "--group", "java-group")
    done(
        GROUP_TOOL, "--reset-offsets", "--group", "java-group", "--topic", "java-lines",
        "--shift-by", "-5", "--execute",
    )  # fmt: skip
    reset = done(GROUP_TOOL, "--describe", "--group", "java-group")
    done(GROUP_TOOL, "--delete-offsets", "--group", "java-group", "--topic", "java-lines")
    done(GROUP_TOOL, "--delete", "--group", "java-group")

    assert "k7\tv7" in read.splitlines()
    assert _columns(behind, "java-group")[3:6] == ["20", "20", "0"]
    assert _columns(reset, "java-group")[3:6] == ["15", "20", "5"]
    assert "java-group" not in done(GROUP_TOOL, "--list").splitlines()


def _columns(text: str, first: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [first])


def test_settings_are_shown_and_changed(done: Done) -> None:
    done(TOPIC_TOOL, "--create", "--topic", "java-configs", "--partitions", "1")
    topic = ["--topic", "java-configs"]

    done(CONFIG_TOOL, "--alter", *topic, "--add-config", "retention.ms=5000,segment.bytes=2097152")
    done(CONFIG_TOOL, "--alter", *topic, "--delete-config", "segment.bytes")
    described = done(CONFIG_TOOL, "--describe", *topic)

    assert "retention.ms=5000" in described
    assert "segment.bytes=2097152" not in described
    assert "log.dirs=" in done(CONFIG_TOOL, "--describe", "--broker", "1", "--all")


def test_quotas_are_set_shown_and_removed(done: Done) -> None:
    pair = ["--entity-type", "users", "--entity-name", "ann"]
    pair += ["--entity-type", "clients", "--entity-default"]
    address = ["--entity-type", "ips", "--entity-name", "10.9.8.7"]

    wanted = "producer_byte_rate=1024,request_percentage=50"
    done(CONFIG_TOOL, "--alter", *pair, "--add-config", wanted)
    done(CONFIG_TOOL, "--alter", *address, "--add-config", "connection_creation_rate=5")
    described = done(CONFIG_TOOL, "--describe", *pair)
    by_address = done(CONFIG_TOOL, "--describe", *address)
    done(CONFIG_TOOL, "--alter", *pair, "--delete-config", "producer_byte_rate,request_percentage")
    done(CONFIG_TOOL, "--alter", *address, "--delete-config", "connection_creation_rate")

    assert "Quota configs for user-principal 'ann', the default client-id are" in described
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=50.0" in described
    assert "connection_creation_rate=5.0" in by_address
    assert "producer_byte_rate" not in done(CONFIG_TOOL, "--describe", *pair)


def test_offsets_and_deleted_records(done: Done, tmp_path: Path) -> None:
    done(TOPIC_TOOL, "--create", "--topic", "java-offsets", "--partitions", "1")
    done(f"{TOOLS}.ConsoleProducer", "--topic", "java-offsets", stdin="a\nb\nc\n")
    wanted = [{"topic": "java-offsets", "partition": 0, "offset": 2}]
    (tmp_path / "delete.json").write_text(json.dumps({"partitions": wanted, "version": 1}))

    done(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "delete.json"))
    first = done(f"{TOOLS}.GetOffsetShell", "--topic", "java-offsets", "--time", "earliest")
    last = done(f"{TOOLS}.GetOffsetShell", "--topic", "java-offsets", "--time", "latest")

    assert "java-offsets:0:2" in first
    assert "java-offsets:0:3" in last


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("BrokerApiVersionsCommand", (), "Produce(0): 0 to"),
        ("ClusterTool", ("cluster-id",), "Cluster ID: "),
        ("ClusterTool", ("list-endpoints",), "unfenced"),
        ("FeatureCommand", ("describe",), "SupportedMinVersion: 3.3-IV3"),
        ("GroupsCommand", ("--list",), ""),
        ("LeaderElectionCommand", ("--election-type", "preferred", "--all-topic-partitions"), ""),
        ("LogDirsCommand", ("--describe",), '"logDirs":'),
        ("MetadataQuorumCommand", ("describe", "--status"), "LeaderId:               1"),
        ("TransactionsCommand", ("list",), "TransactionalId"),
        ("TransactionsCommand", ("find-hanging", "--broker-id", "1"), ""),
        ("ClientMetricsCommand", ("--list",), ""),
        ("reassign.ReassignPartitionsCommand", ("--list",), "No partition reassignments found."),
    ],
)
def test_what_only_looks_works(
    done: Done, name: str, arguments: tuple[str, ...], expected: str
) -> None:
    assert expected in done(f"{TOOLS}.{name}", *arguments)


@pytest.mark.parametrize("entity", ["topics", "brokers", "users", "clients", "ips", "groups"])
def test_settings_of_every_kind_can_be_asked_for(done: Done, entity: str) -> None:
    done(CONFIG_TOOL, "--describe", "--entity-type", entity)


def test_performance_tools_and_the_streams_resetter(done: Done) -> None:
    done(TOPIC_TOOL, "--create", "--topic", "java-perf", "--partitions", "2")
    amount = ["--topic", "java-perf", "--num-records", "2000"]

    sent = done(
        f"{TOOLS}.ProducerPerformance", *amount, "--record-size", "100", "--throughput", "-1"
    )
    read = done(f"{TOOLS}.ConsumerPerformance", *amount)
    reset = done(
        f"{TOOLS}.StreamsResetter", "--application-id", "java-app", "--input-topics", "java-perf",
        "--to-earliest",
    )  # fmt: skip

    assert "2000 records sent" in sent
    assert ", 2000, " in read
    assert "Topic: java-perf Partition: 0 Offset: 0" in reset


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        (TOPIC_TOOL, ("--describe", "--topic", "nope"), "does not exist as expected"),
        (f"{TOOLS}.AclCommand", ("--list",), "SecurityDisabledException"),
        (
            f"{TOOLS}.TransactionsCommand",
            ("describe", "--transactional-id", "x"),
            "Failed to describe transaction state",
        ),
        (
            f"{TOOLS}.FeatureCommand",
            ("upgrade", "--feature", "group.version=1"),
            "Broker 1 does not support this feature",
        ),
        (
            CONSUMER,
            ("--topic", "__consumer_offsets", "--command-property", "group.protocol=consumer"),
            "Set group.protocol=classic",
        ),
    ],
    ids=lambda value: value.rpartition(".")[2] if isinstance(value, str) and "." in value else None,
)  # fmt: skip
def test_what_is_not_served_is_said_at_once(
    tool: Tool, name: str, arguments: tuple[str, ...], reason: str
) -> None:
    assert reason in tool(name, *arguments).text


def test_login_is_refused_at_once(tool: Tool, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    (tmp_path / "sasl.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="u" password="p";\n'
    )

    ran = tool(TOPIC_TOOL, "--list", "--command-config", str(tmp_path / "sasl.properties"))

    assert ran.code == 1
    assert "Unexpected handshake request with client mechanism PLAIN" in ran.text


def test_tls_is_refused_at_once(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "tls.properties").write_text("security.protocol=SSL\n")

    ran = tool(TOPIC_TOOL, "--list", "--command-config", str(tmp_path / "tls.properties"))

    assert ran.code == 1
    assert "SSL handshake failed" in ran.text
