"""The driver killed in the middle of micro-batches, at any time: the table is right in the end."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.definition_files import load_definition
from ledgerstone.pipeline.status import STATUS_FILE, read_json
from ledgerstone.pipeline.tables.opening import open_target
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.postgres import postgres, postgres_server  # noqa: F401 - fixtures
from tests.spark.conftest import MakeTopic, Produce

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("LEDGERSTONE_DRIVER_KILLS", "20"))
RECORDS_PER_RUN = 400
KEYS = 60


@pytest.fixture(params=["sqlite", "parquet", "delta", "postgres"])
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    if request.param == "postgres":
        yield {"type": "postgres", "connection": request.getfixturevalue("postgres")}
    else:
        yield {"type": request.param, "path": "table", "buckets": 2}


def test_table_is_right_after_its_driver_was_killed_again_and_again(
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    table: dict[str, Any],
    tmp_path: Path,
) -> None:
    topic = make_topic("killed", partitions=2, cleanup_policy="compact")
    definition = tmp_path / "pipeline.json"  # JSON is YAML
    definition.write_text(
        json.dumps(
            {
                "name": topic,
                "source": {
                    "bootstrap": broker.bootstrap,
                    "topic": topic,
                    "max_offsets_per_batch": 40,
                },
                "key": {"format": "string", "column": "id"},
                "value": {"format": "string", "column": "said"},
                "table": table,
                "work": "work",
            }
        ),
        encoding="utf-8",
    )
    dice = random.Random(5)
    live: dict[str, str] = {}

    killed = 0
    for turn in range(KILLS):
        records = [_record(topic, dice, live, turn, n) for n in range(RECORDS_PER_RUN)]
        produce(*records)
        killed += _run_and_kill(definition, tmp_path, dice)
    done = _start(definition, tmp_path)
    assert done.wait(300) == 0, (tmp_path / "run.log").read_text(encoding="utf-8")

    pipeline = load_definition(definition)
    with closing(open_target(pipeline)) as target:
        target.prepare()
        rows = [row for piece in target.rows() for row in piece.to_pylist()]
    assert {row["id"]: row["said"] for row in rows} == live
    assert len(rows) == len(live)
    assert killed == KILLS


def _record(
    topic: str, dice: random.Random, live: dict[str, str], turn: int, number: int
) -> NewRecord:
    key = f"k{dice.randrange(KEYS)}"
    if dice.random() < 0.3:
        live.pop(key, None)
        return NewRecord(topic, key.encode(), None)
    live[key] = f"{turn}/{number}"
    return NewRecord(topic, key.encode(), live[key].encode())


def _start(definition: Path, directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ledgerstone", "pipeline", "run", str(definition), "--once"]
    with (directory / "run.log").open("ab") as log:
        return subprocess.Popen([*command, "--master", "local[2]"], stdout=log, stderr=log)


def _run_and_kill(definition: Path, directory: Path, dice: random.Random) -> bool:
    """Lets some micro-batches through, then kills at once or somewhere within the next."""
    wanted, delay_s = dice.randrange(1, 6), dice.random() * 0.3
    status_file = directory / "work" / STATUS_FILE
    process = _start(definition, directory)

    def has_come_far() -> bool:
        status = read_json(status_file) or {}
        is_this_run = status.get("pid") == process.pid
        return process.poll() is not None or (is_this_run and status["batches"] >= wanted)

    wait_until(has_come_far, "some batches are applied", 180.0)
    threading.Event().wait(delay_s)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
