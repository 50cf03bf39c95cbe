"""Runs whose JVM, worker or own process dies: one line, an exit code, a correct status."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.client.producer import NewRecord
from ledgerstone.pipeline.status import read_status
from tests.kit.broker import BrokerProcess, wait_until
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.killing import MARK, KilledPipeline

# Each starts its own Spark.
pytestmark = pytest.mark.slow

TIMEOUT_S = 300.0


@pytest.fixture
def running(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> "Iterator[tuple[KilledPipeline, subprocess.Popen[bytes]]]":
    """A run with a hundred micro-batches before it, the first of which is done."""
    topic = make_topic("ends", cleanup_policy="compact")
    pipeline = KilledPipeline(
        directory=tmp_path,
        bootstrap=broker.bootstrap,
        topic=topic,
        table={"type": "sqlite", "path": "table"},
    )
    pipeline.write_records(produce, 4000)
    process = pipeline.start(master="local[2]", once=True)
    try:
        wait_until(lambda: pipeline.status().get("batches", 0) >= 1, "a batch is done", TIMEOUT_S)
        yield pipeline, process
    finally:
        process.kill()
        process.wait()


def kill_jvm(process: "subprocess.Popen[bytes]", pipeline: KilledPipeline) -> None:
    (jvm,) = (pid for pid in _marked(pipeline) if b"org.apache.spark.deploy" in _words(pid))
    os.kill(jvm, signal.SIGKILL)


def kill_workers(process: "subprocess.Popen[bytes]", pipeline: KilledPipeline) -> None:
    def killed() -> bool:
        for pid in _marked(pipeline):
            if b"pyspark.daemon" in _words(pid) or b"pyspark.worker" in _words(pid):
                os.kill(pid, signal.SIGKILL)
        return process.poll() is not None

    wait_until(killed, "the run ends without workers", TIMEOUT_S)


@pytest.mark.parametrize(
    ("kill", "meaning"),
    [(kill_jvm, "Spark's JVM was killed (SIGKILL)"), (kill_workers, "Python")],
)
def test_death_of_a_part_is_one_line_and_a_failed_run(
    running: "tuple[KilledPipeline, subprocess.Popen[bytes]]",
    kill: Callable[["subprocess.Popen[bytes]", KilledPipeline], None],
    meaning: str,
) -> None:
    pipeline, process = running

    kill(process, pipeline)
    code = process.wait(TIMEOUT_S)

    # A machine as busy as this one may start its query more than once.
    lines = pipeline.log_text.splitlines()
    said = [each for each in lines if not each.startswith(("batch ", "pipeline="))]
    status = read_status(pipeline.directory / "work")
    assert (code, len(said)) == (1, 1), said
    assert said[0].startswith("ledgerstone: ")
    assert meaning in said[0]
    assert status is not None
    assert (status["state"], meaning in status["error"]) == ("failed", True)


def test_interrupted_run_says_that_it_was_stopped(
    running: "tuple[KilledPipeline, subprocess.Popen[bytes]]",
) -> None:
    pipeline, process = running

    process.send_signal(signal.SIGINT)
    code = process.wait(TIMEOUT_S)

    status = read_status(pipeline.directory / "work")
    assert status is not None
    assert (code, status["state"]) == (128 + signal.SIGINT, "stopped")
    assert 0 < status["positions"]["0"] < pipeline.written
    assert process.returncode != 0
    assert pipeline.start(master="local[2]", once=True).wait(TIMEOUT_S) == 0
    pipeline.assert_table_is_the_model()


def test_one_interrupt_stops_every_served_pipeline_also_one_with_a_session_of_its_own(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    names = {"first": "local[1]", "second": "local[1]", "other": "local[2]"}
    for name, master in names.items():
        topic = make_topic(name)
        produce(NewRecord(topic, b"k", b"v"))
        content = {
            "name": name,
            "source": {"bootstrap": broker.bootstrap, "topic": topic},
            "key": {"format": "string", "column": "id"},
            "value": {"format": "string", "column": "said"},
            "table": {"type": "sqlite", "path": f"{name}.db"},
            "master": master,
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(content), encoding="utf-8")

    def states() -> dict[str, tuple[str, int]]:
        found = {name: read_status(tmp_path / ".ledgerstone" / name) or {} for name in names}
        return {
            name: (status.get("state", ""), status.get("upserts", 0))
            for name, status in found.items()
        }

    command = [sys.executable, "-m", "ledgerstone", "pipeline", "serve", str(tmp_path)]
    with subprocess.Popen(command) as process:
        try:
            is_running = dict.fromkeys(names, ("running", 1))
            wait_until(lambda: states() == is_running, "all have a batch", TIMEOUT_S)
            process.send_signal(signal.SIGINT)
            code = process.wait(TIMEOUT_S)
        finally:
            process.kill()

    assert (code, states()) == (0, dict.fromkeys(names, ("stopped", 1)))


def test_bad_record_is_one_line(
    broker: BrokerProcess, make_topic: MakeTopic, produce: Produce, tmp_path: Path
) -> None:
    topic = make_topic("bad")
    table = {"type": "sqlite", "path": "table"}
    pipeline = KilledPipeline(
        directory=tmp_path, bootstrap=broker.bootstrap, topic=topic, table=table
    )
    produce(NewRecord(topic, b"\xff", b"v"))

    code = pipeline.start(master="local[2]", once=True).wait(TIMEOUT_S)

    (line,) = pipeline.log_text.splitlines()
    assert (code, f"ledgerstone: {topic}-0 offset 0: " in line) == (1, True)


def _marked(pipeline: KilledPipeline) -> list[int]:
    mark = f"{MARK}={pipeline.directory}".encode()
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [pid for pid in pids if mark in _words(pid, "environ")]


def _words(pid: int, file: str = "cmdline") -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""  # It ended, or is not ours.
