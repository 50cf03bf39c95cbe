"""Cleaner workers that hang or die under a real broker are noticed, reported and replaced."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Producer
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import (
    ask_for_a_pass,
    await_ticket,
    compact,
    is_in_progress,
    metric,
    readiness,
    workers_of,
)

TOPIC = "topic"
TIMEOUT_MS = 4_000  # a worker takes a second to start where the machine is busy


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "ledgerstone.cleaner.worker.timeout.ms": str(TIMEOUT_MS),
        "ledgerstone.cleaner.retry.ms": "200",
        "log.cleaner.backoff.ms": "200",
    }
    with BrokerProcess(tmp_path, settings=settings) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    host, _, port = broker.bootstrap.rpartition(":")
    with Client([Endpoint(host, int(port))]) as client:
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        create_topic(client, NewTopic(name=TOPIC, partitions=1, configs=configs))
        yield client


@pytest.fixture
def worker(broker: BrokerProcess, client: Client) -> int:
    """An idle one, as a pass leaves it."""
    put(client, b"1")
    compact(broker, TOPIC)
    (pid,) = workers_of(broker.pid)
    return pid


def complaint(broker: BrokerProcess) -> str:
    """Why the broker is not ready; empty while it is."""
    status, page = readiness(broker)
    return page if status == 503 else ""


def put(client: Client, value: bytes) -> None:
    Producer(client).send([NewRecord(TOPIC, b"key", value)])


def test_hanging_worker_is_killed_and_replaced_and_the_broker_says_so_meanwhile(
    broker: BrokerProcess, client: Client, worker: int
) -> None:
    put(client, b"2")
    os.kill(worker, signal.SIGSTOP)

    ticket = ask_for_a_pass(broker, TOPIC)
    why_not = wait_until(lambda: complaint(broker), "the hang is noticed")
    hung = await_ticket(broker, ticket)["run"]
    wait_until(lambda: readiness(broker)[0] == 200, "a new worker has cleaned the partition")

    assert "the cleaning worker" in why_not or "uncleanable" in why_not
    assert hung["outcome"] == "failed"
    assert hung["detail"] == f"the cleaning worker was killed: it said nothing for {TIMEOUT_MS} ms"
    assert worker not in workers_of(broker.pid)
    assert metric(broker, "ledgerstone_cleaner_silent_workers_total") >= 1
    assert metric(broker, "ledgerstone_cleaner_worker_deaths_total") >= 1
    assert metric(broker, "ledgerstone_cleaner_passes_total") >= 2
    broker.stop()


def test_worker_that_dies_in_a_pass_is_replaced_and_the_partition_is_tried_again(
    broker: BrokerProcess, client: Client
) -> None:
    put(client, b"1")
    put(client, b"2")

    # A worker that has just been started is caught before it can be done.
    ticket = ask_for_a_pass(broker, TOPIC)
    (worker,) = wait_until(lambda: workers_of(broker.pid), "a worker is started")
    os.kill(worker, signal.SIGSTOP)
    assert is_in_progress(broker, TOPIC)
    os.kill(worker, signal.SIGKILL)
    died = await_ticket(broker, ticket)["run"]
    wait_until(lambda: readiness(broker)[0] == 200, "a new worker has cleaned the partition")

    assert died["outcome"] == "failed"
    assert died["detail"].startswith("the cleaning worker died")
    assert metric(broker, "ledgerstone_cleaner_worker_deaths_total") >= 1
    broker.stop()


def test_worker_killed_while_it_was_idle_costs_no_pass(
    broker: BrokerProcess, client: Client, worker: int
) -> None:
    """Even if the broker has not noticed yet."""
    put(client, b"2")

    # The broker cannot notice while it is stopped, and is asked before it can.
    broker.pause()
    os.kill(worker, signal.SIGKILL)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(compact, broker, TOPIC)
        broker.resume()
        run = asked.result()["run"]

    assert run["outcome"] == "cleaned", run["detail"]
    assert metric(broker, "ledgerstone_cleaner_worker_deaths_total") == 0
    broker.stop()


def test_stop_in_the_middle_of_a_pass_is_nothing_to_warn_of(
    broker: BrokerProcess, client: Client, worker: int
) -> None:
    put(client, b"2")
    os.kill(worker, signal.SIGSTOP)
    ask_for_a_pass(broker, TOPIC)
    wait_until(lambda: is_in_progress(broker, TOPIC), "the pass begins")

    broker.stop()

    assert "worker stopped worker=cleaning" in broker.log_text
    assert " WARNING " not in broker.log_text
