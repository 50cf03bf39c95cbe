"""A process under sabotage: its fsync fails and its wall clock is off, when it is asked for."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.nemesis.sabotage import Sabotage, compiled

HOUR_MS = 3_600_000
PROBE = """
import json, os, sys, tempfile, time

def fails(sync):
    with tempfile.TemporaryFile() as file:
        try:
            sync(file.fileno())
        except OSError as error:
            return error.errno
    return 0

for _ in sys.stdin:
    found = [time.time(), time.monotonic(), fails(os.fsync), fails(os.fdatasync)]
    print(json.dumps(found), flush=True)
"""


def test_sabotage_starts_and_ends_while_the_process_runs(tmp_path: Path) -> None:
    library = compiled(tmp_path)
    if library is None:
        pytest.skip("no C compiler")
    sabotage = Sabotage(library, tmp_path / "control")
    command = [*sabotage.prefix, sys.executable, "-c", PROBE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def probe() -> tuple[float, float, int, int]:
            """Shifts of both clocks in hours, and errors of both calls."""
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            wall, monotonic, *errors = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            shift = round((wall - time.time()) / 3600, 2)
            return shift, round((monotonic - time.monotonic()) / 3600, 2), *errors

        assert probe() == (0, 0, 0, 0)
        sabotage.fail_fsync(True)
        sabotage.shift_clock(-2 * HOUR_MS)
        assert probe() == (-2, 0, 5, 5)
        sabotage.fail_fsync(False)
        sabotage.shift_clock(0)
        assert probe() == (0, 0, 0, 0)
        process.stdin.close()
