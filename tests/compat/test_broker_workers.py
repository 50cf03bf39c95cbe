"""Worker processes under a real broker: a hung one is replaced, none outlives the broker."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Producer
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import compact, get, post
from tests.kit.erasures import base64
from tests.kit.worker_processes import (
    ANALYST,
    CLEANER,
    SCANNER,
    is_alive,
    worker_running,
    zombies_of,
)

TOPIC = "customers"
TIMEOUT_MS = 4_000  # a worker takes a second to start where the machine is busy
AFTER_REST_S = 120.0  # a log rests ten times as long as its worker was waited for
RETRY_MS = 16_000  # wall time; longer than a failed search rests


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"ledgerstone.cleaner.worker.timeout.ms": str(TIMEOUT_MS)}
    with BrokerProcess(tmp_path, settings=settings, arguments=("--clock", "virtual")) as process:
        host, _, port = process.bootstrap.rpartition(":")
        with Client([Endpoint(host, int(port))]) as client:
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            create_topic(client, NewTopic(name=TOPIC, partitions=1, configs=configs))
            Producer(client).send([NewRecord(TOPIC, key, b"1") for key in (b"alice", b"bob")])
        yield process


def erase(broker: BrokerProcess, key: bytes) -> str:
    fields = {"reason": "ticket 4711", "requested_by": "clerk", "key": base64(key)}
    (made,) = post(broker, f"topics/{TOPIC}/erasures", **fields)["erasures"]
    return str(made["id"])


def stage(broker: BrokerProcess, erasure_id: str) -> str:
    return str(get(broker, f"erasures/{erasure_id}")["stage"])


def waits_for(broker: BrokerProcess, erasure_id: str) -> str:
    return str(get(broker, f"erasures/{erasure_id}")["waits_for"])


def stop_worker(broker: BrokerProcess, module: str) -> int:
    """Stops the worker as soon as it exists: importing takes it longer than that."""
    pid = await_worker(broker, module)
    os.kill(pid, signal.SIGSTOP)
    return pid


def await_worker(broker: BrokerProcess, module: str) -> int:
    pid = wait_until(lambda: worker_running(broker.pid, module), f"{module} is started")
    assert pid is not None
    return pid


def test_hung_scan_is_given_up_and_erasures_go_on_with_a_new_worker(broker: BrokerProcess) -> None:
    alice = erase(broker, b"alice")
    hung = stop_worker(broker, SCANNER)
    bob = erase(broker, b"bob")

    wait_until(lambda: "was killed" in waits_for(broker, alice), "the hang is noticed")
    reason = waits_for(broker, alice)
    wait_until(lambda: not is_alive(hung), "the hung worker is gone")
    post(broker, "clock/advance", ms=RETRY_MS)
    wait_until(lambda: stage(broker, alice) != "requested", "alice was searched for")
    wait_until(lambda: stage(broker, bob) != "requested", "bob was searched for")

    silence = f"it said nothing for {TIMEOUT_MS} ms"
    assert reason == f"the search is incomplete: the scanning worker was killed: {silence}"
    assert "worker given up worker=scanning" in broker.log_text
    assert silence in broker.log_text
    assert worker_running(broker.pid, SCANNER) != hung
    broker.stop()


def is_divided(broker: BrokerProcess) -> bool:
    """Asking is what starts an analysis."""
    (partition,) = get(broker, f"topics/{TOPIC}/anatomy")["partitions"]
    return partition["segments"][0]["division"] is not None


@pytest.mark.slow
def test_hung_analysis_is_given_up_and_the_next_look_gets_its_figures(
    broker: BrokerProcess,
) -> None:
    assert not is_divided(broker)
    hung = stop_worker(broker, ANALYST)

    wait_until(lambda: is_divided(broker), "a new worker has divided the log", AFTER_REST_S)

    assert not is_alive(hung)
    assert "worker given up worker=analysing" in broker.log_text
    broker.stop()


@pytest.fixture
def one_of_each(broker: BrokerProcess) -> list[int]:
    """An idle cleaner, scanner and analyst."""
    compact(broker, TOPIC)
    erasure = erase(broker, b"nobody")
    wait_until(lambda: stage(broker, erasure) == "not_found", "its key was searched for")
    wait_until(lambda: is_divided(broker), "the log is divided")
    return [await_worker(broker, module) for module in (CLEANER, SCANNER, ANALYST)]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux can end them")
def test_stopped_workers_do_not_outlive_a_broker_that_is_killed(
    broker: BrokerProcess, one_of_each: list[int]
) -> None:
    for pid in one_of_each:
        os.kill(pid, signal.SIGSTOP)

    broker.kill()

    wait_until(lambda: not any(map(is_alive, one_of_each)), "the workers are gone")


def test_broker_that_is_stopped_leaves_no_worker_and_a_dead_worker_no_zombie(
    broker: BrokerProcess, one_of_each: list[int]
) -> None:
    os.kill(one_of_each[0], signal.SIGKILL)
    wait_until(lambda: zombies_of(broker.pid) == [], "the dead one was waited for")

    broker.stop()

    assert not any(map(is_alive, one_of_each))
    assert "worker died" not in broker.log_text
