"""What a client feels of cleaning: produce latency with and without passes, in one run.

librdkafka produces at a steady rate to one topic while the cleaner is kept busy on another one, all
of whose keys are distinct, so that every pass copies the whole of it. Rounds alternate between
idle and cleaning. Once with large segments, where the worker's work is what there is to feel, and
once with small ones, where it is the swaps.

python -m bench.cleaner_load [--quick]
"""

import argparse
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final
from urllib.request import Request, urlopen

from confluent_kafka import Producer

from bench.broker_process import BrokerProcess, broker_process
from bench.cleaner import MIB, scratch
from bench.client_loop import BULK, TIMEOUT_S, Latency, produce_latency
from bench.table import Row, render
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint

RATE: Final = 500
VALUE_BYTES: Final = 500
# How much slower the slowest produce of a hundred may be while the cleaner works.
P99_TARGET: Final = 2.0
SEGMENTS: Final = {"large segments": 64 * MIB, "segments of 1 MiB": MIB}


@dataclass(slots=True)
class Cleaning:
    """Passes one after the other until the block ends."""

    http: str
    topic: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._keep_busy)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _keep_busy(self) -> None:
        while not self._is_over.is_set():
            (ticket,) = self._ask(f"topics/{self.topic}/compact", b"{}")["tickets"]
            number = ticket["ticket"]
            while not self._is_over.wait(0.02):
                found = self._ask(f"tickets/{number}")
                if found["done"]:
                    self.runs.append(found["run"])
                    break

    def _ask(self, path: str, data: bytes | None = None) -> Any:  # noqa: ANN401 - any JSON
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self.http}/api/v1/{path}", data=data, headers=headers)
        with urlopen(request, timeout=TIMEOUT_S) as response:
            return json.load(response)


def measure(
    label: str, segment_bytes: int, *, total: int, seconds: float, rounds: int
) -> list[Row]:
    idle: list[Latency] = []
    busy: list[Latency] = []
    runs: list[dict[str, Any]] = []
    with scratch() as path, broker_process(path) as broker:
        http = json.loads((path / "ready.json").read_text(encoding="utf-8"))["http"]
        _prepare(broker, segment_bytes, total)
        for _ in range(rounds):
            idle.append(_latency(broker, seconds))
            cleaning = Cleaning(http, "dirty")
            with cleaning.at_work():
                busy.append(_latency(broker, seconds))
            runs += cleaning.runs
    if not runs:
        raise RuntimeError("no pass came to its end, so nothing was measured")
    return _rows(label, idle, busy, runs)


def _latency(broker: BrokerProcess, seconds: float) -> Latency:
    return produce_latency(broker.bootstrap, "load", rate=RATE, seconds=seconds)


def _rows(
    label: str, idle: list[Latency], busy: list[Latency], runs: list[dict[str, Any]]
) -> list[Row]:
    rows = []
    for name, target in (("p50", None), ("p99", 1 / P99_TARGET)):
        value = median(getattr(each, name) for each in busy)
        limit = median(getattr(each, name) for each in idle)
        text = f"produce {name} while cleaning, {label}"
        rows.append(Row(text, value, "µs", "idle", limit, limit / value, target))
    read = sum(run["stats"]["bytes_read"] for run in runs)
    swaps = sum(run["segments_after"] for run in runs)
    took_s = sum(run["duration_ms"] for run in runs) / 1000
    rate = read / MIB / took_s if took_s else 0
    rows.append(Row(f"cleaned meanwhile, {label}", rate, "MiB/s", "", 0, 0, None))
    rows.append(Row(f"swaps in {len(runs)} passes, {label}", swaps, "", "", 0, 0, None))
    return rows


def _prepare(broker: BrokerProcess, segment_bytes: int, total: int) -> None:
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(segment_bytes),
        # Passes come when they are asked for.
        "min.cleanable.dirty.ratio": "1.0",
    }
    with Client([Endpoint(broker.host, broker.port)]) as client:
        create_topic(client, NewTopic(name="load", partitions=1, configs={}))
        create_topic(client, NewTopic(name="dirty", partitions=1, configs=configs))
    producer = Producer({**BULK, "bootstrap.servers": broker.bootstrap, "batch.size": 200_000})
    value = bytes(VALUE_BYTES)
    for number in range(total // VALUE_BYTES):
        producer.produce("dirty", value, b"%d" % number, partition=0)
        if number % 10_000 == 0:
            producer.flush(TIMEOUT_S)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("the topic to clean could not be written")


def run(*, quick: bool = False) -> list[Row]:
    total, seconds, rounds = (32 * MIB, 3.0, 1) if quick else (256 * MIB, 8.0, 3)
    return [
        row
        for label, segment_bytes in SEGMENTS.items()
        for row in measure(label, segment_bytes, total=total, seconds=seconds, rounds=rounds)
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and one round")
    print(render(run(quick=parser.parse_args().quick)))
