"""Python workers and the workers of a cluster killed while a pipeline runs: the run goes on, and
the table is right in the end."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.pipeline.shapes import StandaloneCluster
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.postgres import postgres, postgres_server  # noqa: F401 - fixtures
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.killing import (
    KILLS,
    MARK,
    PYTHON_WORKER,
    KilledPipeline,
    descendants,
    kill,
    parents,
    table,  # noqa: F401 - a fixture
    words,
)

# Twenty starts of Spark, or of an executor, for each sink.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]

# Of one task: several attempts may meet a worker that was killed while it was idle.
ATTEMPTS = 8
TIMEOUT_S = 600.0
RECORDS_PER_KILL = 160  # some four micro-batches


def test_table_is_right_after_python_workers_were_killed(
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    table: dict[str, Any],  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    topic = make_topic("python-killed", partitions=2, cleanup_policy="compact")
    pipeline = KilledPipeline(
        directory=tmp_path, bootstrap=broker.bootstrap, topic=topic, table=table
    )

    with _running(pipeline, f"local[2,{ATTEMPTS}]") as process:
        for _ in range(KILLS):
            _write_and_kill(pipeline, produce, partial(_kill_python_worker, pipeline))
        _await_all_applied(pipeline, process)

    pipeline.assert_table_is_the_model()


def test_table_is_right_after_workers_of_the_cluster_were_killed(
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    table: dict[str, Any],  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    topic = make_topic("cluster-killed", partitions=2, cleanup_policy="compact")
    pipeline = KilledPipeline(
        directory=tmp_path, bootstrap=broker.bootstrap, topic=topic, table=table
    )

    with (
        StandaloneCluster(directory=tmp_path / "cluster", workers=2) as cluster,
        _running(pipeline, cluster.url) as process,
    ):
        for turn in range(KILLS):
            number = turn % 2
            _write_and_kill(pipeline, produce, partial(_kill_worker_of, cluster, number))
            cluster.restart_worker(number)
        _await_all_applied(pipeline, process)

    pipeline.assert_table_is_the_model()


@contextmanager
def _running(pipeline: KilledPipeline, master: str) -> Iterator[subprocess.Popen[bytes]]:
    process = pipeline.start(master=master, once=False)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0, pipeline.log_text
    finally:
        process.kill()
        process.wait()


def _write_and_kill(pipeline: KilledPipeline, produce: Produce, strike: Callable[[], bool]) -> None:
    """Kills during one of the next micro-batches that has a worker."""
    is_killed = False
    while not is_killed:
        wanted = pipeline.status().get("batches", 0) + pipeline.dice.randrange(1, 4)
        pipeline.write_records(produce, RECORDS_PER_KILL)
        wait_until(
            lambda: pipeline.status().get("batches", 0) >= wanted,  # noqa: B023 - called at once
            "some batches are applied",
            TIMEOUT_S,
        )
        threading.Event().wait(pipeline.dice.random() * 0.1)
        is_killed = strike()


def _await_all_applied(pipeline: KilledPipeline, process: subprocess.Popen[bytes]) -> None:

    def is_applied() -> bool:
        assert process.poll() is None, pipeline.log_text
        positions = pipeline.status().get("positions", {})
        return sum(map(int, positions.values())) >= pipeline.written

    wait_until(is_applied, "every record is applied", TIMEOUT_S)


def _kill_python_worker(pipeline: KilledPipeline) -> bool:
    """One that runs tasks, or now and then the daemon that they are forked from.

    Workers whose daemon was killed go on, as children of nobody; so they are known by a mark."""
    found = {pid: parent for pid, parent in parents().items() if _is_worker_of(pipeline, pid)}
    daemons = [parent for parent in found.values() if parent in found]
    chosen = (
        daemons if pipeline.dice.random() < 0.2 else [pid for pid in found if pid not in daemons]
    )
    return bool(chosen) and kill(pipeline.dice.choice(chosen))


def _is_worker_of(pipeline: KilledPipeline, pid: int) -> bool:
    mark = f"{MARK}={pipeline.directory}".encode()
    return PYTHON_WORKER in words(pid, "cmdline") and mark in words(pid, "environ")


def _kill_worker_of(cluster: StandaloneCluster, number: int) -> bool:
    """With its executor; the worker first, so that it starts no other in its place."""
    worker = cluster.worker_pid(number)
    executors = descendants(worker)
    if executors:
        for pid in (worker, *executors):
            kill(pid)
    return bool(executors)
