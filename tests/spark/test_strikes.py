"""A blow waits for one job, whatever becomes of the others."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledgerstone.pipeline.shapes import StandaloneCluster
from tests.spark import strikes
from tests.spark.strikes import Strikes


@dataclass(slots=True, kw_only=True)
class OneOfTwoFails:
    """Two jobs: one applies all that is written, the other failed and waits for its next start."""

    directory: Path
    kinds: tuple[str, ...] = ("fine", "failed")
    log_text: str = ""
    written: int = 0
    applied: int = 0

    def start(self, master: str, *, once: bool) -> "subprocess.Popen[bytes]":
        code = "" if once else "import signal; signal.pause()"
        return subprocess.Popen([sys.executable, "-S", "-c", code])

    def write(self, count: int) -> None:
        self.written += count

    def progress(self) -> Mapping[str, int]:
        # All of it at once, so that nothing more comes of what is written already.
        if self.written - self.applied > strikes.MOST_TRICKLED:
            self.applied = self.written
        return {"fine": self.applied, "failed": 0}

    def in_work(self) -> set[str]:
        return {"failed"}

    def restarts(self) -> Counter[str]:
        return Counter(failed=1)


def test_records_are_written_while_another_job_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strikes, "PAUSE_S", 0.0)
    monkeypatch.setattr(strikes, "TIMEOUT_S", 5.0)
    monkeypatch.setattr(strikes, "EARLY", 0.0)
    cluster = StandaloneCluster(directory=tmp_path)
    # Of these two jobs it waits for the first.
    dice = next(each for each in map(random.Random, range(100)) if _waits_for_fine(each))
    struck = Strikes(cluster=cluster, driver=OneOfTwoFails(directory=tmp_path), dice=dice)

    struck.run(executors=0, python_workers=0, drivers=1)

    assert struck.struck == {"driver": 1}


def _waits_for_fine(dice: random.Random) -> bool:
    ahead = random.Random()
    ahead.setstate(dice.getstate())
    ahead.random()
    return ahead.choice(["fine", "failed"]) == "fine" and ahead.randrange(1, 3) == 2
