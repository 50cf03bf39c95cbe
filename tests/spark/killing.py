"""Kills parts of a pipeline that runs in its own process, and checks the table it ends with.

With the processes of this machine, by their ids, parents and marks."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.definition_files import load_definition
from ledgerstone.pipeline.shapes import spark_environment
from ledgerstone.pipeline.status import STATUS_FILE, read_json
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.table_targets import place_of, table_at
from tests.spark.conftest import Produce

KILLS = int(os.environ.get("LEDGERSTONE_DRIVER_KILLS", "20"))
SINKS = ("sqlite", "parquet", "delta", "postgres", "duckdb", "iceberg", "sql-sqlite")
RECORDS_PER_TURN = 400
KEYS = 60
# In the environment of every process that a pipeline starts.
MARK = "LEDGERSTONE_KILLED_PIPELINE"
PYTHON_WORKER = b"pyspark.worker"


@pytest.fixture(params=SINKS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return table_at(request.param, place_of(request.param, request, tmp_path), buckets=2)


@dataclass(slots=True, kw_only=True)
class KilledPipeline:
    """`live` is the model: what the topic says so far."""

    directory: Path
    bootstrap: str
    topic: str
    table: dict[str, Any]
    dice: random.Random = field(default_factory=lambda: random.Random(5))
    live: dict[str, str] = field(default_factory=dict)
    written: int = 0

    def __post_init__(self) -> None:
        source = {"bootstrap": self.bootstrap, "topic": self.topic, "max_offsets_per_batch": 40}
        write_definition(self.definition, self.topic, source, self.table, work="work")

    @property
    def definition(self) -> Path:
        return self.directory / "pipeline.json"

    @property
    def log_text(self) -> str:
        return (self.directory / "run.log").read_text(encoding="utf-8", errors="replace")

    def status(self) -> dict[str, Any]:
        return read_json(self.directory / "work" / STATUS_FILE) or {}

    def write_records(self, produce: Produce, count: int = RECORDS_PER_TURN) -> None:
        first, self.written = self.written, self.written + count
        produce(*(self._record(number) for number in range(first, self.written)))

    def _record(self, number: int) -> NewRecord:
        return change_of(self.live, self.topic, self.dice, f"k{self.dice.randrange(KEYS)}", number)

    def start(self, *, master: str, once: bool) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ledgerstone", "pipeline", "run", str(self.definition)]
        command += ["--master", master, *(["--once"] if once else [])]
        environment = {**spark_environment(), MARK: str(self.directory)}
        with (self.directory / "run.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def assert_table_is_the_model(self) -> None:
        assert_rows_are(self.definition, self.live)


def write_definition(
    path: Path, name: str, source: dict[str, Any], table: dict[str, Any], *, work: str
) -> None:
    content = {
        "name": name,
        "source": source,
        "key": {"format": "string", "column": "id"},
        "value": {"format": "string", "column": "said"},
        "table": table,
        "work": work,
        "every": "100ms",
    }
    # JSON is YAML.
    path.write_text(json.dumps(content), encoding="utf-8")


def change_of(
    live: dict[str, str], topic: str, dice: random.Random, key: str, number: int
) -> NewRecord:
    """A new value, or a tombstone for the key, whether or not it is there; `live` follows."""
    if dice.random() < 0.3:
        live.pop(key, None)
        return NewRecord(topic, key.encode(), None)
    live[key] = str(number)
    return NewRecord(topic, key.encode(), live[key].encode())


def assert_rows_are(definition: Path, live: dict[str, str]) -> None:
    with closing(open_target(load_definition(definition))) as target:
        target.prepare()
        rows = [row for piece in target.rows() for row in piece.to_pylist()]
    assert {row["id"]: row["said"] for row in rows} == live
    assert len(rows) == len(live)


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def descendants(pid: int) -> list[int]:
    known = parents()
    found = [pid]
    for one in found:
        found += [child for child, parent in known.items() if parent == one]
    return found[1:]


def parents() -> dict[int, int]:
    return {int(each.name): _parent(each) for each in Path("/proc").glob("[0-9]*")}


def _parent(process: Path) -> int:
    try:
        # Behind the name, which is in parentheses and may hold anything: state, parent, …
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def words(pid: int, name: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:
        return []
