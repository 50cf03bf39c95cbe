"""The driver killed in the middle of micro-batches, at any time: the table is right in the end."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.postgres import postgres, postgres_server  # noqa: F401 - fixtures
from tests.spark.conftest import MakeTopic, Produce
from tests.spark.killing import KILLS, KilledPipeline, table  # noqa: F401 - a fixture

# Twenty starts of Spark, or of an executor, for each sink.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
MASTER = "local[2]"
# A start takes seconds on an idle machine and minutes on a busy one.
TIMEOUT_S = 600.0


def test_table_is_right_after_its_driver_was_killed_again_and_again(
    broker: BrokerProcess,
    make_topic: MakeTopic,
    produce: Produce,
    table: dict[str, Any],  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    topic = make_topic("killed", partitions=2, cleanup_policy="compact")
    pipeline = KilledPipeline(
        directory=tmp_path, bootstrap=broker.bootstrap, topic=topic, table=table
    )

    killed = 0
    for _ in range(KILLS):
        pipeline.write_records(produce)
        killed += _run_and_kill(pipeline)
    done = pipeline.start(master=MASTER, once=True)

    assert done.wait(TIMEOUT_S) == 0, pipeline.log_text
    pipeline.assert_table_is_the_model()
    assert killed == KILLS


def _run_and_kill(pipeline: KilledPipeline) -> bool:
    """Lets some micro-batches through, then kills at once or somewhere within the next."""
    wanted, delay_s = pipeline.dice.randrange(1, 6), pipeline.dice.random() * 0.3
    process = pipeline.start(master=MASTER, once=True)

    def has_come_far() -> bool:
        status = pipeline.status()
        is_this_run = status.get("pid") == process.pid
        return process.poll() is not None or (is_this_run and status["batches"] >= wanted)

    wait_until(has_come_far, "some batches are applied", TIMEOUT_S)
    threading.Event().wait(delay_s)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL
