"""Executors, Python workers and drivers killed at random on a standalone cluster of two workers:
every kind of table and of stream operator is equal to the model in the end. `make crash KILLS=20`.

LEDGERSTONE_STRIKES has the number of kills of executors, and of drivers; LEDGERSTONE_STRIKES_SEED
decides what is struck and when; LEDGERSTONE_STRIKES_KINDS, a list, limits the jobs, and
LEDGERSTONE_STRIKES_MINUTES the time of each family."""

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic
from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.shapes import StandaloneCluster
from tests.kit.both_brokers import create_topic_and_wait
from tests.kit.broker import BrokerProcess
from tests.kit.postgres import postgres, postgres_server  # noqa: F401 - fixtures
from tests.kit.table_targets import place_of, table_at
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.quick_jvms import set_quick_jvms
from tests.spark.strikes import Strikes, StruckDriver, put_behind_drivers, tell
from tests.spark.struck_streams import EVENTS, INPUTS, KINDS, StruckStreams, result_of
from tests.spark.struck_tables import StruckTables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * 3600)]

TABLES = ("sqlite", "parquet", "delta", "postgres", "duckdb", "iceberg", "sql-sqlite")
COUNT = int(os.environ.get("LEDGERSTONE_STRIKES", "20"))
SEED = int(os.environ.get("LEDGERSTONE_STRIKES_SEED") or random.randrange(1_000_000))
MINUTES = float(os.environ.get("LEDGERSTONE_STRIKES_MINUTES") or "inf")
WANTED = os.environ.get("LEDGERSTONE_STRIKES_KINDS", "").split(",")
# Compacted again and again while it is read.
CHURNING = {
    "cleanup.policy": "compact",
    "segment.bytes": "16384",
    "min.cleanable.dirty.ratio": "0.1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with pytest.MonkeyPatch.context() as patch:
        set_quick_jvms(patch)
        with StandaloneCluster(directory=tmp_path_factory.mktemp("cluster"), workers=2) as made:
            put_behind_drivers(made)
            yield made


def _wanted(kinds: Sequence[str]) -> list[str]:
    found = [kind for kind in kinds if WANTED == [""] or kind in WANTED]
    if not found:
        pytest.skip(f"none of {kinds} is wanted")
    return found


def test_tables_are_equal_to_the_model(
    request: pytest.FixtureRequest,
    cluster: StandaloneCluster,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("struck", partitions=2, cleanup_policy="compact")
    tables = {}
    for kind in _wanted(TABLES):
        (tmp_path / f"at-{kind}").mkdir()
        place = place_of(kind, request, tmp_path / f"at-{kind}")
        tables[kind] = table_at(kind, place, buckets=2)
    driver = StruckTables(
        directory=tmp_path, bootstrap=broker.bootstrap, topic=topic,
        tables=tables, produce=produce, dice=random.Random(SEED),
    )  # fmt: skip

    _strike(cluster, driver)

    driver.assert_equal_to_the_model()


def test_stream_operators_are_equal_to_the_model(
    cluster: StandaloneCluster,
    broker: BrokerProcess,
    client: Client,
    produce: Produce,
    tmp_path: Path,
) -> None:
    kinds, prefix = _wanted(KINDS), tmp_path.name
    for name in (*INPUTS, *map(result_of, kinds)):
        # What is copied has to stay, and so do results, so that one that is there twice is seen.
        configs = CHURNING if name in INPUTS and name != EVENTS else {}
        topic = NewTopic(
            name=f"{prefix}-{name}", partitions=2, replication_factor=1, configs=configs
        )
        create_topic_and_wait(client, topic)
    driver = StruckStreams(
        directory=tmp_path, bootstrap=broker.bootstrap, prefix=prefix,
        kinds=kinds, produce=produce, dice=random.Random(SEED),
    )  # fmt: skip

    _strike(cluster, driver)

    driver.assert_equal_to_the_model(client)


def _strike(cluster: StandaloneCluster, driver: StruckDriver) -> None:
    tell(f"\nseed {SEED}, {driver.directory}")
    strikes = Strikes(cluster=cluster, driver=driver, dice=random.Random(SEED))
    strikes.run(executors=COUNT, python_workers=COUNT // 4, drivers=COUNT, minutes=MINUTES)
    tell(strikes.table())
    assert strikes.ended_by_itself == 0, driver.log_text[-8000:]
