"""`restore --into`, `run`, `verify`, `reconcile` and `erase` on tables that clients of their own
read: DuckDB, Iceberg and databases by SQLAlchemy. The topic is on a real broker."""

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.definition_files import load_definition
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import compact, get, post
from tests.kit.command_line import Done, ledgerstone
from tests.kit.table_model import Record, changes_of
from tests.kit.table_targets import place_of, table_at
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.killing import write_definition
from tests.spark.test_pipeline_commands import own_signals  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

ERASED = "someone@example.com"


@pytest.fixture(params=["duckdb", "iceberg", "sql-sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> str:
    return place_of(kind, request, tmp_path)


def pipeline(command: str, *arguments: object) -> Done:
    return ledgerstone("pipeline", command, *map(str, arguments))


def said_in(kind: str, place: str) -> dict[str, str]:
    """The rows as somebody else reads them."""
    match kind:
        case "duckdb":
            with duckdb.connect(place, read_only=True) as db:
                return dict(db.execute("SELECT id, said FROM life").fetchall())
        case "iceberg":
            # Imported here: it takes half a second, which every worker would pay.
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog("ledgerstone", type="sql", uri=f"sqlite:///{place}/catalog.db")
            rows = catalog.load_table("default.life").scan().to_arrow().to_pylist()
            return {row["id"]: row["said"] for row in rows}
        case _:
            with closing(sqlite3.connect(place.removeprefix("sqlite:///"))) as db:
                return dict(db.execute("SELECT id, said FROM life").fetchall())


@pytest.mark.usefixtures("spark")
def test_a_table_through_its_whole_life_by_commands(
    kind: str,
    place: str,
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    tmp_path: Path,
) -> None:
    topic = make_topic("life", cleanup_policy="compact", delete_retention_ms="0")
    file = tmp_path / "life.yaml"
    source = {"topic": topic, "bootstrap": broker.bootstrap}
    write_definition(file, "life", source, table_at(kind, place, buckets=2), work="work")
    written = {"a": "1", "b": "1", "ghost": "1", ERASED: "personal"}
    produce(*(NewRecord(topic, key.encode(), said.encode()) for key, said in written.items()))

    point = ("--at", 4, "--to", tmp_path / "out", "--into", file, "--bootstrap", broker.bootstrap)
    restored = pipeline("restore", topic, "--snapshots", tmp_path / "none", *point)
    assert (restored.code, said_in(kind, place)) == (0, written), restored
    produce(NewRecord(topic, b"b", b"2"))
    run = pipeline("run", file, "--once", "--json")
    assert (run.code, last_of(run)["changes"]) == (0, 1), run
    _damage(file)
    differs = pipeline("verify", file, "--json")
    repaired = pipeline("verify", file, "--repair", "--json")
    assert (differs.code, repaired.code) == (3, 0), (differs, repaired)
    assert last_of(repaired)["repaired"] == {"missing": 1, "extra": 1, "stale": 1}
    assert said_in(kind, place) == {**written, "b": "2"}

    produce(NewRecord(topic, b"ghost", None), NewRecord(topic, b"a", b"3"))
    for _ in range(2):  # The first pass marks the tombstone, the second removes it.
        compact(broker, topic)
    refused = pipeline("run", file, "--once")
    reconciled = pipeline("reconcile", file, "--json")
    run = pipeline("run", file, "--once")
    assert (refused.code, reconciled.code, run.code) == (1, 0, 0), (refused, reconciled, run)
    assert last_of(reconciled)["deleted_rows"] == 1

    erasure_id = _asked_to_erase(broker, topic)
    command = (file, "--key", ERASED, "--erasure", erasure_id)
    found = pipeline("erase", *command, "--search")
    erased = pipeline("erase", *command)
    verdicts = {each["verdict"] for each in get(broker, f"erasures/{erasure_id}")["evidence"]}
    # The files of a database that SQLAlchemy reaches are its own.
    known = (3, {"clean", "unknown"}) if kind == "sql-sqlite" else (0, {"clean"})
    assert (found.code, (erased.code, verdicts)) == (3, known), (found, erased)
    assert said_in(kind, place) == {"a": "3", "b": "2"}
    # The table has not read the tombstone, and it is gone by now.
    wait_until(lambda: "removed" in stages_of(broker, erasure_id), f"{erasure_id} is removed")
    caught_up = [pipeline(each, file, *more) for each, *more in (("reconcile",), ("run", "--once"))]
    assert [each.code for each in caught_up] == [0, 0], caught_up
    verified = pipeline("verify", file, "--json")
    assert (verified.code, last_of(verified)["is_equal"]) == (0, True), verified


def stages_of(broker: BrokerProcess, erasure_id: str) -> set[str]:
    return {each["stage"] for each in get(broker, f"erasures/{erasure_id}")["stages"]}


def last_of(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _damage(file: Path) -> None:
    """A row less, a row that differs, a row too many."""
    wrong = [Record(0, 0, b"a", None, 1), Record(0, 4, b"b", b"x", 1), Record(0, 9, b"z", b"1", 1)]
    definition = load_definition(file)
    with closing(open_target(definition)) as target:
        target.prepare()
        target.repair(changes_of(definition, wrong))


def _asked_to_erase(broker: BrokerProcess, topic: str) -> str:
    key = base64.b64encode(ERASED.encode()).decode()
    asked = {"key": key, "reason": "asked for", "requested_by": "tests"}
    answer = post(broker, f"topics/{topic}/erasures", **asked, verifiers=["pipelines"])
    return str(answer["erasures"][0]["id"])
