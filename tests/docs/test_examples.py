"""Examples that take a broker's address run against a given broker.

Without an address each starts its own; tests/compat and tests/spark run them that way.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.kit.broker import BrokerProcess

CLIENTS = ["plain_client.py", "with_aiokafka.py", "with_faststream.py"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        yield broker
        broker.stop()


def run_example(name: str, bootstrap: str, directory: Path, timeout_s: float) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), bootstrap],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CLIENTS)
def test_client_example_runs_against_a_broker_it_is_given(
    name: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    said = run_example(name, broker.bootstrap, tmp_path, timeout_s=120)

    assert said
    assert list(tmp_path.iterdir()) == []


def test_every_example_says_how_it_is_run() -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))

    silent = [
        path.name
        for path in examples
        if f"examples/{path.name}" not in path.read_text(encoding="utf-8")
    ]

    assert silent == []
