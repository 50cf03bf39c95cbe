"""A topic into a table, and the table into another topic, while both commands are killed: the
second topic is the first one's model in the end, and has each change once."""

import json
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import Fetcher
from ledgerstone.records.record import Record
from ledgerstone.types import TopicPartition
from tests.kit.broker import BrokerProcess, wait_until
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.killing import KILLS, KilledPipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]

MASTER = "local[2]"
PARTITIONS = 2
# A start takes seconds on an idle machine and minutes on a busy one.
TIMEOUT_S = 600.0


@dataclass(slots=True, kw_only=True)
class Chain:
    """`pipeline` keeps the table in step with the first topic, and a source writes the table's
    changes to the second. Both run until they are killed, and are started again."""

    pipeline: KilledPipeline
    client: Client
    out: str
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: dict[str, int] = field(default_factory=lambda: {"run": 0, "source": 0})

    def start(self, half: str, *, once: bool = False) -> subprocess.Popen[bytes]:
        if half == "run":
            started = self.pipeline.start(master=MASTER, once=once)
        else:
            how = ["--once"] if once else ["--every", "0.1"]
            command = [sys.executable, "-m", "ledgerstone", "pipeline", "source"]
            with (self.directory / "source.log").open("ab") as log:
                started = subprocess.Popen(
                    [*command, str(self.directory / "source.json"), *how], stdout=log, stderr=log
                )
        self.running[half] = started
        return started

    @property
    def directory(self) -> Path:
        return self.pipeline.directory

    def define_source(self, database: Path, table: str) -> None:
        content = {
            "name": "back",
            "bootstrap": self.pipeline.bootstrap,
            "topic": self.out,
            "work": str(self.directory / "source"),
            "from": {
                "type": "sqlite",
                "location": str(database),
                "table": table,
                "key": ["id"],
                "columns": ["id", "said"],
            },
        }
        # JSON is YAML.
        (self.directory / "source.json").write_text(json.dumps(content), encoding="utf-8")

    def written(self) -> list[Record]:
        """Committed records of the second topic."""
        found: list[Record] = []
        for number in range(PARTITIONS):
            at = TopicPartition(self.out, number)
            for fetched in Fetcher(self.client).read_range(at, 0, 1 << 60):
                found += list(records_of(fetched))
        return found

    def strike(self, half: str, produce: Produce) -> None:
        """Kills one half while there is work for it."""
        before, batches = len(self.written()), self._batches()
        self.pipeline.write_records(produce, 160)
        victim = self.running[half]

        def is_in_work() -> bool:
            assert victim.poll() is None, f"{half} ended: {self.log_of(half)}"
            if half == "run":
                return self._batches() > batches
            return len(self.written()) > before

        wait_until(is_in_work, f"{half} is in work", TIMEOUT_S)
        threading.Event().wait(self.dice.random() * 0.3)
        victim.send_signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
        self.kills[half] += 1
        self.start(half)

    def _batches(self) -> int:
        """Of the run that is alive; none while it starts."""
        status = self.pipeline.status()
        return int(status["batches"]) if status.get("pid") == self.running["run"].pid else 0

    def log_of(self, half: str) -> str:
        return (self.directory / f"{half}.log").read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """Both to the end of what there is, one after the other."""
        for half in ("run", "source"):
            process = self.running[half]
            process.terminate()
            process.wait(TIMEOUT_S)
            assert self.start(half, once=True).wait(TIMEOUT_S) == 0, self.log_of(half)


def test_a_topic_through_a_table_is_the_model_whatever_was_killed(
    broker: BrokerProcess, client: Client, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    names = [
        make_topic(name, partitions=PARTITIONS, cleanup_policy="compact") for name in ("in", "out")
    ]
    database = tmp_path / "people.db"
    table = {"type": "sqlite", "path": str(database), "name": "people"}
    pipeline = KilledPipeline(
        directory=tmp_path, bootstrap=broker.bootstrap, topic=names[0], table=table
    )
    chain = Chain(pipeline=pipeline, client=client, out=names[1])
    chain.define_source(database, "people")
    pipeline.write_records(produce)
    assert chain.start("run", once=True).wait(TIMEOUT_S) == 0, chain.log_of("run")

    try:
        for half in ("run", "source"):
            chain.start(half)
        for _ in range(KILLS):
            for half in ("run", "source"):
                chain.strike(half, produce)
        chain.end()
    finally:
        for process in chain.running.values():
            process.kill()
            process.wait()

    state: dict[bytes, bytes | None] = {}
    for record in chain.written():
        key = bytes(record.key or b"")
        value = None if record.value is None else bytes(record.value)
        # A repetition would be the same value again, or a tombstone for what is not there.
        assert state.get(key) != value, key
        state[key] = value
    rows = {key.decode(): json.loads(value) for key, value in state.items() if value is not None}
    assert {key: row["said"] for key, row in rows.items()} == pipeline.live
    assert chain.kills == {"run": KILLS, "source": KILLS}
