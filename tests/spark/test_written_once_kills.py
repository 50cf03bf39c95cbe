"""Drivers, executors and Python workers killed while a query writes: each record is seen once.

Against Apache Kafka and against a broker of ours. The number of kills is LEDGERSTONE_DRIVER_KILLS.
"""

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.pipeline.shapes import StandaloneCluster, spark_environment
from tests.kit.both_brokers import BOTH_BROKERS, running_broker
from tests.kit.broker import wait_until
from tests.spark import copying_once
from tests.spark.killing import (
    KILLS,
    MARK,
    PYTHON_WORKER,
    descendants,
    kill,
    parents,
    words,
)
from tests.transactions.kit import committed, visible

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]

TIMEOUT_S = 600.0
RECORDS_PER_KILL = 160  # four micro-batches
ATTEMPTS = 8


@pytest.fixture(scope="module", params=BOTH_BROKERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with running_broker(request.param, tmp_path_factory.mktemp("broker")) as found:
        yield found.bootstrap


@dataclass(slots=True, kw_only=True)
class CopiedTopic:
    """A source with unique keys, and a query that copies it."""

    client: Client
    bootstrap: str
    directory: Path
    dice: random.Random = field(default_factory=lambda: random.Random(3))
    written: int = 0

    def __post_init__(self) -> None:
        for name, partitions in ((self.source, 2), (self.target, 3)):
            topic = NewTopic(name=name, partitions=partitions, replication_factor=1, configs={})
            create_topic(self.client, topic)

    @property
    def source(self) -> str:
        return f"from-{self.directory.name}"

    @property
    def target(self) -> str:
        return f"to-{self.directory.name}"

    @property
    def log_text(self) -> str:
        return (self.directory / "run.log").read_text(encoding="utf-8", errors="replace")

    def batches(self) -> int:
        """How many Spark has noted as done."""
        commits = self.directory / "checkpoint" / "commits"
        names = os.listdir(commits) if commits.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1) + 1

    def write_records(self, count: int = RECORDS_PER_KILL) -> None:
        first, self.written = self.written, self.written + count
        producer = Producer(self.client, ProducerConfig(idempotent=True))
        outcomes = producer.send(
            [NewRecord(self.source, b"%d" % n, b"v") for n in range(first, self.written)]
        )
        assert not [each for each in outcomes if isinstance(each, Exception)]

    def start(self, *, master: str, mode: str) -> subprocess.Popen[bytes]:
        checkpoint = self.directory / "checkpoint"
        places = (self.bootstrap, self.source, self.target, str(checkpoint), master, mode)
        root = Path(copying_once.__file__).parents[2]
        paths = os.pathsep.join([str(root / "src"), str(root)])
        environment = {**spark_environment(), MARK: str(self.directory), "PYTHONPATH": paths}
        with (self.directory / "run.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, copying_once.__file__, *places],
                stdout=log, stderr=log, env=environment,
            )  # fmt: skip

    def await_batches(self, process: subprocess.Popen[bytes], wanted: int) -> None:
        def is_there() -> bool:
            assert process.poll() is None, self.log_text
            return self.batches() >= wanted

        wait_until(is_there, f"{wanted} batches are done", TIMEOUT_S)

    def finish(self) -> None:
        done = self.start(master="local[2]", mode="once")
        assert done.wait(TIMEOUT_S) == 0, self.log_text

    def assert_each_once(self) -> None:
        found = Counter(key for key, _ in committed(self.client, self.target))
        assert found == Counter(b"%d" % n for n in range(self.written))


@pytest.fixture
def copied(bootstrap: str, tmp_path: Path) -> Iterator[CopiedTopic]:
    host, _, port = bootstrap.rpartition(":")
    with Client([Endpoint(host, int(port))]) as client:
        yield CopiedTopic(client=client, bootstrap=bootstrap, directory=tmp_path)


def test_each_record_once_after_drivers_were_killed(copied: CopiedTopic) -> None:
    for _ in range(KILLS):
        copied.write_records()
        _run_and_kill(copied)

    copied.finish()

    copied.assert_each_once()


def _run_and_kill(copied: CopiedTopic) -> None:
    """Kills the driver and its JVM at once, somewhere within a micro-batch. Python workers are
    left to find out by themselves: they are the zombies."""
    wanted = copied.batches() + copied.dice.randrange(0, 3)
    process = copied.start(master="local[2]", mode="on")
    try:
        copied.await_batches(process, wanted)
        threading.Event().wait(copied.dice.random() * (20 if wanted == 0 else 1))
    finally:
        for pid in (process.pid, *descendants(process.pid)):
            if PYTHON_WORKER not in words(pid, "cmdline"):
                kill(pid)
        process.wait()


def test_each_record_once_after_python_workers_were_killed(copied: CopiedTopic) -> None:
    with _running(copied, f"local[2,{ATTEMPTS}]") as process:
        for _ in range(KILLS):
            _write_and_kill(copied, process, lambda: _kill_python_worker(copied))
        _await_all(copied, process)

    copied.assert_each_once()


def test_each_record_once_after_executors_were_killed(copied: CopiedTopic) -> None:
    with (
        StandaloneCluster(directory=copied.directory / "cluster", workers=2) as cluster,
        _running(copied, cluster.url) as process,
    ):
        for turn in range(KILLS):
            number = turn % 2
            _write_and_kill(copied, process, lambda: _kill_worker_of(cluster, number))  # noqa: B023
            cluster.restart_worker(number)
        _await_all(copied, process)

    copied.assert_each_once()


@contextmanager
def _running(copied: CopiedTopic, master: str) -> Iterator[subprocess.Popen[bytes]]:
    process = copied.start(master=master, mode="on")
    try:
        yield process
    finally:
        for pid in (process.pid, *descendants(process.pid)):
            kill(pid)
        process.wait()


def _write_and_kill(
    copied: CopiedTopic, process: subprocess.Popen[bytes], strike: Callable[[], bool]
) -> None:
    is_killed = False
    while not is_killed:
        wanted = copied.batches() + copied.dice.randrange(1, 4)
        copied.write_records()
        copied.await_batches(process, wanted)
        threading.Event().wait(copied.dice.random() * 0.3)
        is_killed = strike()


def _await_all(copied: CopiedTopic, process: subprocess.Popen[bytes]) -> None:
    def is_there() -> bool:
        assert process.poll() is None, copied.log_text
        return len(visible(copied.client, copied.target)) >= copied.written

    wait_until(is_there, "every record is there", TIMEOUT_S)


def _kill_python_worker(copied: CopiedTopic) -> bool:
    mark = f"{MARK}={copied.directory}".encode()
    found = {
        pid: parent
        for pid, parent in parents().items()
        if PYTHON_WORKER in words(pid, "cmdline") and mark in words(pid, "environ")
    }
    workers = [pid for pid in found if pid not in found.values()]
    return bool(workers) and kill(copied.dice.choice(workers))


def _kill_worker_of(cluster: StandaloneCluster, number: int) -> bool:
    worker = cluster.worker_pid(number)
    executors = descendants(worker)
    for pid in (worker, *executors) if executors else ():
        kill(pid)
    return bool(executors)
