"""Kafka's own tools and directories: what each side formats, the other one reads."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.config.properties import parse_properties
from ledgerstone.metadata.features import METADATA_VERSION
from ledgerstone.metadata.releases import feature_records, name_of
from ledgerstone.protocol.messages.control_records import SnapshotHeaderRecord, VotersRecord
from ledgerstone.raft.control_batches import (
    control_records,
    snapshot_foot,
    snapshot_head,
    voters_of,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.server.formatting.bootstrap_file import bootstrap_file, read_bootstrap_file
from ledgerstone.server.formatting.writing import FIRST_SNAPSHOT, METADATA_DIR
from tests.kit.cluster_settings import BROKER, COMBINED, STATIC
from tests.kit.quorum_processes import (
    NodeProcess,
    add_when_it_follows,
    nodes,
    replicas,
    voters,
)
from tests.kit.storage_tool import (
    CLUSTER_ID,
    kafka_storage,
    kafka_tool,
    ledgerstone,
    properties_file,
)

pytestmark = pytest.mark.kafka

_VOTERS = "1@10.0.0.1:19093:A1bT0I2ARi-9QjC6IfFiQA,2@node2:19093:lrV-YEpURrKf-vj9bL4I6w"
# Of Kafka's features, those that this release has too.
_FEATURES = ["group.version=0", "share.version=0", "streams.version=0"]


def _batches(data: bytes) -> list[tuple[int, bytes]]:
    return [
        (header.base_timestamp, data[position : position + header.size])
        for position, header in iter_headers(data)
    ]


def _formatted(tmp_path: Path, who: str, settings: dict[str, str], *options: str) -> Path:
    """A directory formatted by `kafka` or by `ours`."""
    data = tmp_path / who
    file = properties_file(tmp_path / f"{who}.properties", {**settings, "log.dirs": str(data)})
    run = kafka_storage if who == "kafka" else ledgerstone
    arguments = ["format", "-c", str(file), "-t", CLUSTER_ID, *options]
    if who == "kafka":
        arguments += [word for feature in _FEATURES for word in ("-f", feature)]
    if who == "kafka" and "--release-version" not in options:
        arguments += ["--release-version", name_of(METADATA_VERSION)]
    done = run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return data


def _names(data: Path) -> list[str]:
    found = [path.relative_to(data) for path in data.rglob("*")]
    return sorted(str(path) for path in found if path.name != ".lock")


_WAYS = {
    "standalone": (COMBINED, ("--standalone",)),
    "initial controllers": (COMBINED, ("--initial-controllers", _VOTERS)),
    "no initial controllers": (COMBINED, ("--no-initial-controllers",)),
    "broker": (BROKER, ()),
    "static": (STATIC, ()),
    "an older release": (COMBINED, ("--standalone", "--release-version", "3.9")),
}


@pytest.mark.parametrize("name", _WAYS)
def test_both_format_the_same_directory(tmp_path: Path, name: str) -> None:
    """Byte for byte, apart from times, the order of properties, and ids that dice have made."""
    settings, options = _WAYS[name]
    kafka = _formatted(tmp_path, "kafka", settings, *options)
    ours = _formatted(tmp_path, "ours", settings, *options)

    assert _names(kafka) == _names(ours)
    theirs = parse_properties((kafka / "meta.properties").read_bytes())
    mine = parse_properties((ours / "meta.properties").read_bytes())
    assert theirs.keys() == mine.keys()
    for key in theirs.keys() - {"directory.id"}:
        assert theirs[key] == mine[key]
    assert len(mine["directory.id"]) == len(theirs["directory.id"]) == 22
    if name == "initial controllers":
        assert mine == theirs
    _compare_bootstrap(kafka / "bootstrap.checkpoint", ours / "bootstrap.checkpoint")
    snapshot = kafka / METADATA_DIR / FIRST_SNAPSHOT
    if snapshot.exists():
        _compare_snapshots(snapshot, ours / METADATA_DIR / FIRST_SNAPSHOT)


def _compare_bootstrap(theirs: Path, ours: Path) -> None:
    data = theirs.read_bytes()
    records = read_bootstrap_file(str(theirs), data)
    assert records == read_bootstrap_file(str(ours), ours.read_bytes())
    # Kafka looks at its clock for each batch.
    rebuilt = [
        _batches(bootstrap_file(records, wall_ms=wall_ms))[number][1]
        for number, (wall_ms, _) in enumerate(_batches(data))
    ]
    assert b"".join(rebuilt) == data


def _compare_snapshots(theirs: Path, ours: Path) -> None:
    data = theirs.read_bytes()
    found = [each.record for each in control_records(data)]
    (header,) = [each for each in found if isinstance(each, SnapshotHeaderRecord)]
    (voters,) = [voters_of(each) for each in found if isinstance(each, VotersRecord)]
    (first_ms, _), (last_ms, _) = _batches(data)
    head = snapshot_head(
        epoch=0,
        wall_ms=first_ms,
        last_timestamp=header.last_contained_log_timestamp,
        version=1,
        voters=voters,
    )
    foot = snapshot_foot(base_offset=3, epoch=0, wall_ms=last_ms)
    assert bytes(head) + bytes(foot) == data
    (mine,) = [
        voters_of(each.record)
        for each in control_records(ours.read_bytes())
        if isinstance(each.record, VotersRecord)
    ]
    assert [(each.key.id, each.listeners) for each in mine.voters] == [
        (each.key.id, each.listeners) for each in voters.voters
    ]


@pytest.mark.parametrize("name", ["standalone", "broker"])
def test_kafka_knows_our_directory_as_formatted(tmp_path: Path, name: str) -> None:
    settings, options = _WAYS[name]
    data = _formatted(tmp_path, "ours", settings, *options)
    file = str(tmp_path / "ours.properties")

    info = kafka_storage("info", "-c", file)
    again = kafka_storage("format", "-c", file, "-t", CLUSTER_ID, *options)

    assert info.returncode == 0, info.stdout + info.stderr
    assert f"cluster.id={CLUSTER_ID}" in info.stdout
    assert again.returncode != 0
    assert f"{data} is already formatted" in again.stdout + again.stderr


def test_we_know_kafkas_directory_as_formatted(tmp_path: Path) -> None:
    data = _formatted(tmp_path, "kafka", COMBINED, "--standalone")

    again = ledgerstone(
        "format", "-c", str(tmp_path / "kafka.properties"), "-t", CLUSTER_ID, "--standalone"
    )

    assert again.returncode == 1
    assert f"{data} is formatted already" in again.stderr


def test_kafkas_dump_tool_reads_what_we_format(tmp_path: Path) -> None:
    data = _formatted(tmp_path, "ours", COMBINED, "--initial-controllers", _VOTERS)

    said = {
        path.name: kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--files",
            str(path),
        ).stdout
        for path in (data / "bootstrap.checkpoint", data / METADATA_DIR / FIRST_SNAPSHOT)
    }

    assert "KRaft bootstrap snapshot" in said["bootstrap.checkpoint"]
    assert '"name":"metadata.version"' in said["bootstrap.checkpoint"]
    assert "node2" in said[FIRST_SNAPSHOT]
    assert all("isvalid: false" not in text for text in said.values())


_REFUSED = {
    "no way named": (COMBINED, ()),
    "standalone beside static voters": (STATIC, ("--standalone",)),
    "standalone broker": (BROKER, ("--standalone",)),
    "two ways": (COMBINED, ("--standalone", "--no-initial-controllers")),
    "a voter twice": (
        COMBINED,
        ("--initial-controllers", f"{_VOTERS},{_VOTERS.partition(',')[0]}"),
    ),
    "a voter without directory": (COMBINED, ("--initial-controllers", "1@host:9093")),
    "release and level": (
        COMBINED,
        ("--standalone", "--release-version", "3.9", "--feature", "metadata.version=21"),
    ),
    "unknown release": (COMBINED, ("--standalone", "--release-version", "2.8")),
    "unknown feature": (COMBINED, ("--standalone", "--feature", "no.such.version=1")),
    "kraft.version 0 without static voters": (
        COMBINED,
        ("--standalone", "--feature", "kraft.version=0"),
    ),
    "kraft.version 1 with static voters": (STATIC, ("--feature", "kraft.version=1")),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_both_refuse_the_same(tmp_path: Path, name: str) -> None:
    settings, options = _REFUSED[name]
    for who, run in (("kafka", kafka_storage), ("ours", ledgerstone)):
        data = tmp_path / who
        file = properties_file(tmp_path / f"{who}.properties", {**settings, "log.dirs": str(data)})
        done: subprocess.CompletedProcess[str] = run(
            "format", "-c", str(file), "-t", CLUSTER_ID, *options
        )
        assert done.returncode != 0, (who, done.stdout)
        assert not data.exists(), who


def test_our_features_are_in_kafkas_order() -> None:
    levels = {"transaction.version": 2, "metadata.version": 25, "group.version": 1}

    assert [each.name for each in feature_records(levels)] == [
        "metadata.version",
        "group.version",
        "transaction.version",
    ]


# -- Kafka's tools on a quorum of ours ------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    """Two voters, and a controller that follows."""
    with nodes(tmp_path_factory.mktemp("cluster"), 3) as made:
        first, second, third = made
        first.format("--cluster-id", CLUSTER_ID, "--standalone")
        for each in (second, third):
            each.format("--cluster-id", CLUSTER_ID, "--no-initial-controllers")
        for each in made:
            each.start(waits=False)
        for each in made:
            each.wait_ready()
        add_when_it_follows(first, second)
        yield made


def _ways(node: NodeProcess) -> list[list[str]]:
    return [["--bootstrap-server", node.bootstrap], ["--bootstrap-controller", node.controller]]


def _said(tool: str, *arguments: str) -> str:
    done = kafka_tool(tool, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


def test_metadata_quorum_tool_describes_our_quorum(cluster: list[NodeProcess]) -> None:
    first, second, _ = cluster
    for way in _ways(second):
        status = _said(_QUORUM, *way, "describe", "--status")
        shown = dict(re.findall(r"^(\w+): +(.*)$", status, re.MULTILINE))
        assert shown["ClusterId"] == CLUSTER_ID
        assert shown["LeaderId"] == "1"
        assert f"CONTROLLER://{first.controller}" in shown["CurrentVoters"]
        assert f"CONTROLLER://{second.controller}" in shown["CurrentVoters"]

        rows = _said(_QUORUM, *way, "describe", "--replication").splitlines()
        roles = {row.split()[0]: row.split()[-1] for row in rows if row[:1].isdigit()}
        assert (roles["1"], roles["2"], roles["3"]) == ("Leader", "Follower", "Observer")


def test_metadata_quorum_tool_adds_and_removes_our_voters(cluster: list[NodeProcess]) -> None:
    first, _, third = cluster
    directory = replicas(first.bootstrap)[3]["directory"]
    for way in _ways(first):
        _said(_QUORUM, *way, "--command-config", str(third.properties), "add-controller")
        assert voters(first.bootstrap) == [1, 2, 3]
        ids = ["--controller-id", "3", "--controller-directory-id", directory]
        _said(_QUORUM, *way, "remove-controller", *ids)
        assert voters(first.bootstrap) == [1, 2]


def test_features_tool_describes_our_features(cluster: list[NodeProcess]) -> None:
    for way in _ways(cluster[1]):
        said = _said("org.apache.kafka.tools.FeatureCommand", *way, "describe")
        levels = dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", said))
        assert levels["metadata.version"] == name_of(METADATA_VERSION)
        assert levels["kraft.version"] == "1"
        assert levels["transaction.version"] == "2"


def test_cluster_tool_knows_our_id_and_nodes(cluster: list[NodeProcess]) -> None:
    tool = "org.apache.kafka.tools.ClusterTool"
    for way, port in zip(_ways(cluster[1]), ("port", "controller_port"), strict=True):
        assert CLUSTER_ID in _said(tool, "cluster-id", *way)
        listed = _said(tool, "list-endpoints", *way)
        for node in cluster:
            assert str(getattr(node, port)) in listed


def test_storage_tool_knows_directories_in_use(cluster: list[NodeProcess]) -> None:
    info = kafka_storage("info", "-c", str(cluster[0].properties))

    assert info.returncode == 0, info.stdout + info.stderr
    assert f"cluster.id={CLUSTER_ID}" in info.stdout


# -- each side starts on what the other one formatted ---------------------------------------------


def test_kafka_starts_on_our_directory(tmp_path: Path) -> None:
    from golden.kafka_broker import BROKER_CONFIG, KafkaBroker
    from golden.kafka_tools import fetch_jars

    kafka = KafkaBroker(jars=fetch_jars(), work=tmp_path / "work")
    at = f"127.0.0.1:{kafka.controller_port}"
    settings = {
        **BROKER_CONFIG,
        "listeners": f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://{at}",
        "controller.quorum.bootstrap.servers": at,
        "log.dirs": str(kafka.data),
    }
    file = properties_file(kafka.work / "server.properties", settings)
    made = ledgerstone("format", "-c", str(file), "-t", CLUSTER_ID, "--standalone")
    assert made.returncode == 0, made.stderr

    kafka.start()
    try:
        said = _said(_QUORUM, "--bootstrap-server", kafka.bootstrap, "describe", "--status")
        features = _said(
            "org.apache.kafka.tools.FeatureCommand",
            *("--bootstrap-server", kafka.bootstrap, "describe"),
        )
    finally:
        kafka.stop()

    directory = parse_properties((kafka.data / "meta.properties").read_bytes())["directory.id"]
    assert directory in said
    levels = dict(re.findall(r"Feature: (\S+) .*FinalizedVersionLevel: (\S+)", features))
    assert levels["metadata.version"] == name_of(METADATA_VERSION)
    # Left out by our format, since our brokers do not serve such groups.
    assert levels["share.version"] == "0"


def test_we_start_on_kafkas_directory(tmp_path: Path) -> None:
    with nodes(tmp_path, 1) as (node,):
        options = [word for feature in _FEATURES for word in ("-f", feature)]
        made = kafka_storage(
            *("format", "-c", str(node.properties), "-t", CLUSTER_ID, "--standalone"), *options
        )
        assert made.returncode == 0, made.stdout + made.stderr
        node.start()

        found = replicas(node.bootstrap)[1]

        meta = parse_properties((node.data / "meta.properties").read_bytes())
        assert found["role"] == "leader"
        assert found["directory"] == meta["directory.id"]
