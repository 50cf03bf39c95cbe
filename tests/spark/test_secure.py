"""Spark, a pipeline and a mirror over TLS with a login: the files of `up --secure` as they are."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord
from ledgerstone.client.properties import VARIABLE, read_client_properties
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.definition_files import load_definition
from ledgerstone.pipeline.mirror.rounds import Mirror, mirror_round
from ledgerstone.pipeline.mirror.verifying import verify_mirror
from ledgerstone.pipeline.runner import run_pipeline
from tests.kit.broker import FAST_GROUPS, BrokerProcess
from tests.spark.conftest import producing_to

DEFINITION = """
name: people
source: {topic: people, bootstrap: "%s", command_config: client.properties}
key: {format: string, column: id}
value: {format: json, columns: {name: string}}
table: {type: sqlite, path: people.db}
"""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Its listener is `--secure`'s own, and takes what --listen says.
    broker = BrokerProcess(
        tmp_path_factory.mktemp("secure"), dict(FAST_GROUPS), arguments=("--secure",)
    )
    with broker:
        yield broker


@pytest.fixture
def config(secure: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    """Nothing is taken from the environment."""
    monkeypatch.delenv(VARIABLE, raising=False)
    return str(secure.data / "secure" / "client.properties")


def spark_options(secure: BrokerProcess) -> Mapping[str, str]:
    return read_client_properties(str(secure.data / "secure" / "spark.conf"))


def make(client: Client, topic: str, *records: tuple[bytes, bytes | None]) -> None:
    configs = {"cleanup.policy": "compact"}
    create_topic(client, NewTopic(name=topic, partitions=1, replication_factor=1, configs=configs))
    producing_to(client)(*(NewRecord(topic, *each) for each in records))


def test_connector_writes_and_reads(
    spark: SparkSession, secure: BrokerProcess, config: str
) -> None:
    options = spark_options(secure)
    with connect_to(secure.bootstrap, config) as client:
        make(client, "words")
    rows = spark.createDataFrame([(b"a", b"1"), (b"b", None)], "key binary, value binary")

    rows.write.format("ledgerstone").options(**options, topic="words").mode("append").save()
    found = spark.read.format("ledgerstone").options(**options, subscribe="words").load().collect()

    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert {bytes(row.key): row.value for row in found} == {b"a": bytearray(b"1"), b"b": None}


def test_pipeline_names_the_file_of_its_cluster(
    spark: SparkSession, secure: BrokerProcess, config: str, tmp_path: Path
) -> None:
    (tmp_path / "client.properties").write_bytes(Path(config).read_bytes())
    (tmp_path / "people.yaml").write_text(DEFINITION % secure.bootstrap, encoding="utf-8")
    with connect_to(secure.bootstrap, config) as client:
        ann, bob = b'{"name": "Ann"}', b'{"name": "Bob"}'
        make(client, "people", (b"1", ann), (b"2", bob), (b"2", None))

    definition = load_definition(tmp_path / "people.yaml")
    run_pipeline(definition, once=True, spark=spark)

    assert definition.source.command_config == str(tmp_path / "client.properties")
    with closing(sqlite3.connect(tmp_path / "people.db")) as table:
        assert table.execute("SELECT id, name FROM people").fetchall() == [("1", "Ann")]


def test_mirror_has_a_file_for_each_side(
    spark: SparkSession,
    secure: BrokerProcess,
    broker: BrokerProcess,
    config: str,
    tmp_path: Path,
    new_name: Callable[[str], str],
) -> None:
    """From a cluster with a login to one without, which the source's file would not suit."""
    topic = new_name("people")
    plain = tmp_path / "plain.properties"
    plain.write_text("security.protocol=PLAINTEXT\n", encoding="utf-8")
    with connect_to(secure.bootstrap, config) as client:
        make(client, topic, (b"1", b"Ann"), (b"2", b"Bob"), (b"2", None))
    mirror = Mirror(
        source=secure.bootstrap,
        target=broker.bootstrap,
        topics={topic: topic},
        work=str(tmp_path / "work"),
        group=new_name("mirror"),
        source_config=config,
        target_config=str(plain),
    )

    report = mirror_round(spark, mirror)
    (check,) = verify_mirror(mirror)

    assert [each.records for each in report.copied] == [3]
    assert check.is_equal
