"""Every kind of table follows one topic, in one `pipeline serve`, for strikes."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledgerstone.pipeline.shapes import StandaloneCluster
from ledgerstone.pipeline.status import STATUS_FILE, read_json
from tests.spark.conftest import Produce
from tests.spark.killing import KEYS, MARK, assert_rows_are, change_of, write_definition


@dataclass(slots=True, kw_only=True)
class StruckTables:
    """`tables` has the section of a definition for each kind."""

    directory: Path
    bootstrap: str
    topic: str
    tables: dict[str, dict[str, Any]]
    produce: Produce
    dice: random.Random
    live: dict[str, str] = field(default_factory=dict)
    written: int = 0

    def __post_init__(self) -> None:
        for kind, table in self.tables.items():
            source = {
                "bootstrap": self.bootstrap,
                "topic": self.topic,
                "max_offsets_per_batch": 60,
                "group": f"{self.topic}-{kind}",
            }
            write_definition(self._definition(kind), kind, source, table, work=f"work/{kind}")

    @property
    def kinds(self) -> list[str]:
        return list(self.tables)

    @property
    def log_text(self) -> str:
        return (self.directory / "serve.log").read_text(encoding="utf-8", errors="replace")

    def _definition(self, kind: str) -> Path:
        return self.directory / f"{kind}.yaml"

    def start(self, master: str, *, once: bool) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "ledgerstone", "pipeline", "serve", str(self.directory)]
        command += ["--json", "--master", master, *(["--once"] if once else [])]
        environment = {**StandaloneCluster.environment(), MARK: str(self.directory)}
        with (self.directory / "serve.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def write(self, count: int) -> None:
        first, self.written = self.written, self.written + count
        self.produce(
            *(
                change_of(self.live, self.topic, self.dice, f"k{self.dice.randrange(KEYS)}", number)
                for number in range(first, self.written)
            )
        )

    def progress(self) -> Mapping[str, int]:
        return {kind: self._applied(kind) for kind in self.tables}

    def _applied(self, kind: str) -> int:
        status = read_json(self.directory / "work" / kind / STATUS_FILE) or {}
        return sum(map(int, status.get("positions", {}).values()))

    def in_work(self) -> set[str]:
        return {kind for kind, applied in self.progress().items() if applied < self.written}

    def restarts(self) -> Counter[str]:
        """How often a run failed and `serve` started it again."""
        found: Counter[str] = Counter()
        for line in self.log_text.splitlines():
            if line.startswith("{"):
                told = json.loads(line)
                if told.get("state") == "waiting":
                    found[told["pipeline"]] += 1
        return found

    def assert_equal_to_the_model(self) -> None:
        for kind in self.tables:
            assert_rows_are(self._definition(kind), self.live)
