"""What a new user waits for: installing the wheel, the first start, the first fixture.

    python -m bench.first_use [--quick]

The wheel goes into an empty venv, with nothing cached. Home, cache and PATH are empty: no compiler
is in reach. The demo's figure is of a clone that has never been set up, so it includes set-up;
`--quick` leaves it out.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.broker_process import BrokerProcess, broker_process
from bench.raw_client import RawClient, check_produce, create_topic, produce_load
from bench.table import Row, at_most, published, render

REPOSITORY = Path(__file__).resolve().parent.parent
ROUNDS = 5
FIRST_UP_S = 1.0
FIXTURE_S = 0.5
# What they were before there was a metadata quorum, on a machine of 2 CPUs (AMD EPYC).
START_CPU_MS = 490
READY_RSS_MB = 46.5
LOADED_RSS_MB = 55
COLD_DEMO_S = 100
PRODUCED_REQUESTS = 2000
_FIXTURE_TEST = """
def test_produce(ledgerstone):
    assert ledgerstone.bootstrap
"""
_SETUP_TIME = re.compile(r"([\d.]+)s setup .*test_produce")


def run(*, quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="first-use-") as name:
        directory = Path(name)
        wheel = _build_wheel(directory)
        python, rows = _install(directory, wheel)
        rows += _starts(directory, python)
        rows.append(_fixture(directory, python))
        if not quick:
            rows.append(_cold_demo(directory))
    return rows


def _call(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    words = [str(each) for each in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _build_wheel(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(directory), str(REPOSITORY)]
    _call(command)
    (wheel,) = directory.glob("ledgerstone-*.whl")
    return wheel


def _install(directory: Path, wheel: Path) -> tuple[Path, list[Row]]:
    target = directory / "venv"
    venv.create(target, with_pip=True)
    before = _size_mb(target)
    python = target / "bin" / "python"
    began = time.monotonic()
    _call([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", wheel])
    taken = time.monotonic() - began
    rows = [
        published("pip install of the wheel, nothing cached", "s", taken),
        published("the wheel", "MB", wheel.stat().st_size / 1e6),
        published("installed, dependencies included", "MB", _size_mb(target) - before),
    ]
    return python, rows


def _size_mb(directory: Path) -> float:
    return sum(each.lstat().st_size for each in directory.rglob("*") if each.is_file()) / 1e6


def _starts(directory: Path, python: Path) -> list[Row]:
    """The very first start has the cold page cache of a fresh install; the median has not."""
    ready, cpu_ms, idle_mb, loaded_mb = [], [], [], []
    for number in range(ROUNDS):
        home = directory / f"home{number}"
        home.mkdir()
        with broker_process(home, python=python, environment=_nothing_there(home)) as broker:
            ready.append(broker.ready_s)
            cpu_ms.append(broker.cpu_s * 1000)
            idle_mb.append(broker.rss_bytes / 1e6)
            loaded_mb.append(_rss_after_load(broker))
    return [
        at_most("first `up` to ready, empty home, no compiler", "s", ready[0], FIRST_UP_S),
        at_most("`up` to ready, median", "s", median(ready), FIRST_UP_S),
        at_most("CPU of `up` to ready, least of five", "ms", min(cpu_ms), START_CPU_MS),
        at_most("resident memory when ready", "MB", median(idle_mb), READY_RSS_MB),
        at_most("resident memory after a load", "MB", median(loaded_mb), LOADED_RSS_MB),
    ]


def _rss_after_load(broker: BrokerProcess) -> float:
    with RawClient(broker.host, broker.port) as client:
        create_topic(client, "loaded", 1)
        load = produce_load("loaded", 16_384, 1000)
        for _ in range(PRODUCED_REQUESTS):
            check_produce(client, load)
    return broker.rss_bytes / 1e6


def _fixture(directory: Path, python: Path) -> Row:
    _call([python, "-m", "pip", "install", "--quiet", "pytest"])
    home = directory / "fixture"
    home.mkdir()
    (home / "test_first.py").write_text(_FIXTURE_TEST)
    command: list[str | Path] = [python, "-m", "pytest", "--durations=0", "-vv", home]
    printed = _call(command, env=_nothing_there(home), cwd=home)
    found = _SETUP_TIME.search(printed)
    if found is None:
        raise SystemExit(printed)
    return at_most("first use of the pytest fixture", "s", float(found[1]), FIXTURE_S)


def _cold_demo(directory: Path) -> Row:
    clone = directory / "clone"
    _call(["git", "clone", "--quiet", REPOSITORY, clone])
    home = directory / "cold"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment |= {"PIP_NO_CACHE_DIR": "1", "DEMO": "--no-wait"}
    began = time.monotonic()
    _call(["make", "demo"], cwd=clone, env=environment)
    taken = time.monotonic() - began
    return at_most("`make demo` in a fresh clone, set-up included", "s", taken, COLD_DEMO_S)


def _nothing_there(home: Path) -> Mapping[str, str]:
    return {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": str(home)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the demo in a fresh clone")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
