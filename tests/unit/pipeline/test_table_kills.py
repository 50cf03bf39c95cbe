"""Tables whose writer is killed in the middle: what is there in the end is what has to be there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.table_targets import place_of

ROOT = Path(__file__).parents[3]
TABLES: dict[str, dict[str, Any]] = {
    "sqlite": {},
    "parquet": {"buckets": 2},
    "delta": {"buckets": 2},
    "postgres": {},
    "duckdb": {},
    "iceberg": {"buckets": 2},
    "sql-sqlite": {},
}


# Iceberg makes so many calls that two kills take twenty seconds.
@pytest.mark.parametrize(
    "target",
    [pytest.param(each, marks=[pytest.mark.slow] if each == "iceberg" else []) for each in TABLES],
)
def test_table_survives_two_kills(
    target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    outcome = be_killed(target, "hard", 2, tmp_path, request)

    assert outcome["same"]
    assert outcome["killed"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("deletes", ["hard", "soft", "history"])
@pytest.mark.parametrize("target", TABLES)
def test_table_survives_forty_kills(
    target: str, deletes: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    outcome = be_killed(target, deletes, 40, tmp_path, request)

    assert outcome["same"]
    assert outcome["killed"] >= 20


def be_killed(
    target: str, deletes: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> dict[str, Any]:
    arguments = {
        "kind": target,
        "location": place_of(target, request, tmp_path),
        "scratch": str(tmp_path),
        "deletes": deletes,
        "table": TABLES[target],
        "kills": kills,
        "seed": 11,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.table_victim", json.dumps(arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
