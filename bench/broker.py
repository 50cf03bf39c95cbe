"""One broker on loopback, beside what the same machine can do in the same minute.

    python -m bench.broker [--quick]

librdkafka is the load, through confluent-kafka, and the peer is the broker librdkafka has inside:
the same loop against both. What no client reaches is found with requests made in advance, against
processes that do nothing but move the same bytes. CPU is what the kernel charges the broker.
"""

import argparse
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.bare_peers import Peer, bare_sink, bare_source, mock_cluster
from bench.broker_process import BrokerProcess, broker_process
from bench.client_loop import (
    CONSUME_COUNT,
    Latency,
    Loop,
    Target,
    consume_loop,
    end_to_end_latency,
    produce_latency,
    produce_loop,
)
from bench.raw_client import (
    Load,
    RawClient,
    ask_versions,
    check_fetch,
    check_produce,
    create_topic,
    fetch_frame,
    produce_load,
)
from bench.storage import scratch
from bench.table import Row, at_most, paired, published, render
from ledgerstone.records.kernels import load as load_kernels

GB = 1e9
BULK_TARGET = 0.8  # of the peer's rate
CPU_S_PER_GB = 0.8
LATENCY_TARGET = 1 / 2.5  # the peer's p50 over ours
START_S = 1.0
IDLE_RSS_MB = 80
CONNECTION_KB = 4
LATENCY_RATE = 500

# The mock gives every topic four partitions, so six of them are half of two topics.
ONE: Sequence[Target] = [("one", 0)]
SIX: Sequence[Target] = [(topic, number) for number in range(3) for topic in ("left", "right")]
TOPICS = {"one": 1, "left": 4, "right": 4}


def produce(*, scale: int, rounds: int) -> list[Row]:
    rows = []
    with scratch() as path, broker_process(path) as broker, mock_cluster() as mock:
        with RawClient(broker.host, broker.port) as client:
            for topic, partitions in TOPICS.items():
                create_topic(client, topic, partitions)
        for warmed in (broker, mock):
            produce_loop(warmed.bootstrap, SIX, value_bytes=1000, messages=5000)
        for value_bytes, messages in ((1000, 200_000 // scale), (100, 800_000 // scale)):
            for targets in (ONE, SIX):
                rows += _produce_rows(broker, mock, targets, value_bytes, messages, rounds)
        rows.append(published("memory after this load", "MB", broker.rss_bytes / 1e6))
    return rows


def _produce_rows(
    broker: BrokerProcess,
    mock: Peer,
    targets: Sequence[Target],
    value_bytes: int,
    messages: int,
    rounds: int,
) -> list[Row]:
    loops: list[tuple[Loop, Loop]] = []
    cpu_s = 0.0
    for _ in range(rounds):
        before = broker.cpu_s
        ours = produce_loop(broker.bootstrap, targets, value_bytes=value_bytes, messages=messages)
        cpu_s += broker.cpu_s - before
        theirs = produce_loop(mock.bootstrap, targets, value_bytes=value_bytes, messages=messages)
        loops.append((ours, theirs))
    name = f"produce {value_bytes} B, {_partitions(targets)}"
    peer = "librdkafka's mock"
    rows = [
        paired(name, "MB/s", peer, [(a.mb_s, b.mb_s) for a, b in loops]),
        paired(name, "kmsg/s", peer, [(a.kmsg_s, b.kmsg_s) for a, b in loops]),
    ]
    per_gb = cpu_s / (rounds * messages * value_bytes / GB)
    rows = [row._replace(target=BULK_TARGET) for row in rows]
    return [*rows, _cpu_row(name, per_gb, value_bytes)]


def _cpu_row(name: str, per_gb: float, value_bytes: int) -> Row:
    name = f"{name}: broker CPU"
    if value_bytes < 1000:
        return published(name, "s/GB", per_gb)
    return at_most(name, "s/GB", per_gb, CPU_S_PER_GB)


def _partitions(targets: Sequence[Target]) -> str:
    return "1 partition" if len(targets) == 1 else f"{len(targets)} partitions"


def consume(*, scale: int, rounds: int) -> list[Row]:
    with (
        scratch() as path,
        broker_process(path) as broker,
        RawClient(broker.host, broker.port) as client,
    ):
        rows = _fetch_rows(broker, client, path, 400 // scale, rounds)
        for value_bytes in (1000, 100):
            rows += _consume_rows(broker, client, value_bytes, 60 + 180 // scale, rounds)
    return rows


def _fetch_rows(
    broker: BrokerProcess, client: RawClient, path: Path, batches: int, rounds: int
) -> list[Row]:
    """Four batches of 1 MB an answer, only counted, against sendfile of the very same log file."""
    topic_id = create_topic(client, "bulk")
    load = produce_load("bulk", 1_000_000, 1000)
    check_produce(client, load)
    client.exchange([load.frame] * (batches - 1), depth=5)
    size = 4 * load.batch_bytes
    count = batches // 4
    frames = [fetch_frame(topic_id, n * 4 * load.record_count, size) for n in range(count)]
    check_fetch(client, frames[0], size)
    (log,) = (path / "data").glob("bulk-0/*.log")
    rates, cpu_s = [], 0.0
    with bare_source(log, size) as peer, RawClient(peer.host, peer.port) as plain:
        for _ in range(2 * rounds):
            before = broker.cpu_s
            rates.append((_rate(client, frames, size), _rate(plain, frames, size)))
            cpu_s += broker.cpu_s - before
    name = "fetch 4 MB, answers only counted"
    row = paired(name, "MB/s", "sendfile of the same file", rates)
    per_gb = cpu_s / (2 * rounds * count * size / GB)
    return [
        row._replace(target=BULK_TARGET),
        at_most(f"{name}: broker CPU", "s/GB", per_gb, CPU_S_PER_GB),
    ]


def _consume_rows(
    broker: BrokerProcess, client: RawClient, value_bytes: int, batches: int, rounds: int
) -> list[Row]:
    """`batches` of 1 MB in one partition, and as many in six."""
    rows = []
    for count in (1, 6):
        topic = f"values-{value_bytes}-{count}"
        create_topic(client, topic, count)
        targets = [(topic, number) for number in range(count)]
        for number in range(count):
            load = produce_load(topic, 1_000_000, value_bytes, number)
            client.exchange([load.frame] * (batches // count), depth=5)
        # The first call to consume() is not counted, and the last must not wait for more to come.
        messages = load.record_count * (batches // count * count)
        messages = (messages // CONSUME_COUNT - 1) * CONSUME_COUNT
        consume_loop(broker.bootstrap, targets, messages=CONSUME_COUNT)
        loops = []
        before = broker.cpu_s
        for _ in range(rounds):
            loops.append(consume_loop(broker.bootstrap, targets, messages=messages))
        per_gb = (broker.cpu_s - before) / (sum(loop.bytes for loop in loops) / GB)
        name = f"consume {value_bytes} B, {_partitions(targets)}, consume({CONSUME_COUNT})"
        rows += [
            published(name, "MB/s", median(loop.mb_s for loop in loops)),
            published(name, "kmsg/s", median(loop.kmsg_s for loop in loops)),
            _cpu_row(name, per_gb, value_bytes),
        ]
    return rows


def _rate(client: RawClient, frames: Sequence[bytes], answer_bytes: int) -> float:
    started = time.perf_counter()
    client.exchange(frames, depth=2)
    return answer_bytes * len(frames) / (time.perf_counter() - started) / 1e6


def latency(*, seconds: float, rounds: int) -> list[Row]:
    ours: list[Latency] = []
    mocks: list[Latency] = []
    whole: list[Latency] = []
    with scratch() as path, broker_process(path) as broker, mock_cluster() as mock:
        with RawClient(broker.host, broker.port) as client:
            create_topic(client, "one")
            create_topic(client, "whole")
        for number in range(rounds):
            for latencies, bootstrap in ((ours, broker.bootstrap), (mocks, mock.bootstrap)):
                latencies.append(
                    produce_latency(bootstrap, "one", rate=LATENCY_RATE, seconds=seconds)
                )
            if number == 0:
                whole.append(
                    end_to_end_latency(
                        broker.bootstrap, "whole", rate=LATENCY_RATE, seconds=seconds
                    )
                )
    rows = []
    for field, target in (("p50", LATENCY_TARGET), ("p99", None)):
        value = median(getattr(each, field) for each in ours)
        peer = median(getattr(each, field) for each in mocks)
        name = f"produce latency {field}, {LATENCY_RATE} msg/s"
        rows.append(Row(name, value, "µs", "librdkafka's mock", peer, peer / value, target))
    rows.append(published("produce to consume p50", "µs", whole[0].p50))
    rows.append(published("produce to consume p99", "µs", whole[0].p99))
    return rows


def start_and_memory(*, rounds: int, connections: int, partitions: int) -> list[Row]:
    load_kernels()
    times = []
    for _ in range(rounds):
        with scratch() as path:
            started = time.perf_counter()
            with broker_process(path) as broker, RawClient(broker.host, broker.port) as client:
                create_topic(client, "one")
                check_produce(client, produce_load("one", 1000, 1000))
                times.append(time.perf_counter() - started)
    rows = [at_most("start to first accepted produce", "s", median(times), START_S)]
    with scratch() as path, broker_process(path) as broker:
        rows.append(at_most("memory when idle", "MB", broker.rss_bytes / 1e6, IDLE_RSS_MB))
        per_connection = _connection_bytes(broker, connections)
        name = f"memory of an idle connection, {connections} of them"
        rows.append(at_most(name, "KB", per_connection / 1000, CONNECTION_KB))
        with RawClient(broker.host, broker.port) as client:
            create_topic(client, "warm-up", 10)
            before = broker.rss_bytes
            create_topic(client, "many", partitions)
            per_partition = (broker.rss_bytes - before) / partitions
        name = f"memory of an empty partition, {partitions} of them"
        rows.append(published(name, "KB", per_partition / 1000))
    return rows


def _connection_bytes(broker: BrokerProcess, count: int) -> float:
    """Each has sent ApiVersions first, as clients do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 256)), hard))
    with ExitStack() as stack:
        for _ in range(10):  # makes what is made only once
            ask_versions(stack.enter_context(RawClient(broker.host, broker.port)))
        before = broker.rss_bytes
        for _ in range(count):
            ask_versions(stack.enter_context(RawClient(broker.host, broker.port)))
        return (broker.rss_bytes - before) / count


def ceiling(*, scale: int, rounds: int) -> list[Row]:
    """Prepared requests, five of them in flight, against a process that only moves the bytes."""
    rows = []
    with (
        scratch() as path,
        broker_process(path) as broker,
        RawClient(broker.host, broker.port) as client,
    ):
        for name, batch_bytes, value_bytes, requests in (
            ("1 MB", 1_000_000, 1000, 300),
            ("16 KB", 16_000, 1000, 6000),
            ("200 B", 100, 92, 12_000),
        ):
            topic = name.replace(" ", "-")
            create_topic(client, topic)
            load = produce_load(topic, batch_bytes, value_bytes)
            check_produce(client, load)
            rows += _ceiling_rows(name, broker, client, path, load, requests // scale, rounds)
    return rows


def _ceiling_rows(
    name: str,
    broker: BrokerProcess,
    client: RawClient,
    path: Path,
    load: Load,
    requests: int,
    rounds: int,
) -> list[Row]:
    frames = [load.frame] * requests
    answer_bytes = client.exchange(frames[:1], depth=1)
    rates, cpu_s, peer_cpu_s = [], 0.0, 0.0
    with (
        bare_sink(path / "plain", answer_bytes) as peer,
        RawClient(peer.host, peer.port) as plain,
    ):
        for _ in range(rounds):
            before, peer_before = broker.cpu_s, peer.cpu_s
            rates.append((_requests_per_s(client, frames), _requests_per_s(plain, frames)))
            cpu_s += broker.cpu_s - before
            peer_cpu_s += peer.cpu_s - peer_before
    row = paired(f"ceiling: {name} produce requests", "k/s", "recv, crc32c, pwrite, send", rates)
    mb_s = row.value * 1000 * len(load.frame) / 1e6
    ours_us, peer_us = (cpu / (rounds * requests) * 1e6 for cpu in (cpu_s, peer_cpu_s))
    return [
        row,
        published(f"ceiling: {name} produce requests", "MB/s", mb_s),
        Row(
            f"ceiling: CPU of a {name} produce request", ours_us, "µs",
            row.limit_name, peer_us, peer_us / ours_us, None,
        ),
    ]  # fmt: skip


def _requests_per_s(client: RawClient, frames: Sequence[bytes]) -> float:
    """In thousands."""
    started = time.perf_counter()
    client.exchange(frames, depth=5)
    return len(frames) / (time.perf_counter() - started) / 1e3


def run(*, quick: bool = False) -> list[Row]:
    load_kernels()
    scale, rounds = (5, 1) if quick else (1, 3)
    return [
        *produce(scale=scale, rounds=rounds),
        *consume(scale=scale, rounds=rounds),
        *latency(seconds=1.0 if quick else 4.0, rounds=rounds),
        *start_and_memory(
            rounds=rounds,
            connections=250 if quick else 1000,
            partitions=250 if quick else 1000,
        ),
        *ceiling(scale=scale, rounds=rounds),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    print(render(run(quick=parser.parse_args().quick)))
