"""A modest client beside greedy ones, with and without quotas, on Ledgerstone and on Apache Kafka.

    python -m bench.fairness [--quick] [--rounds N] [--only WORDS]

One round takes four minutes and a half with Apache Kafka. `--only connections` runs the loads whose
name has that word.

The modest client sends 200 records of 100 B a second through librdkafka and waits for each. Beside
it run greedy ones: a producer and a consumer of large batches; a storm of Metadata requests; of
CreateTopics; of connections. They heed no throttle time. Published are p50 and p99
of the modest client, the median of the rounds, and what the greedy ones did a second.
"""

import argparse
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from statistics import median
from typing import Final, NamedTuple, Protocol

from bench.client_loop import Latency, produce_latency
from bench.peers.arena import Arena, started
from bench.peers.contestants import HOST, Contestant
from bench.peers.jars import fetch_kafka
from bench.raw_client import RawClient, create_topic, fetch_frame, make_frame, produce_load
from bench.storage import scratch
from ledgerstone.client.admin import delete_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.quotas import alter_quotas
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.quotas.entities import QuotaEntity

RATE: Final = 200
TIMEOUT_MS: Final = 30_000
STORM: Final = "storm-"
# Until greedy clients have used up what they may use at once.
WARM_UP_S: Final = 4.0
STORM_ADDRESS: Final = "127.0.0.2"
QUOTAS: Final[Mapping[QuotaEntity, Mapping[str, float]]] = {
    # What every raw client of the benchmarks calls itself.
    QuotaEntity.of({"client-id": "bench"}): {
        "producer_byte_rate": 5_000_000,
        "consumer_byte_rate": 5_000_000,
        "request_percentage": 10,
        "controller_mutation_rate": 5,
    },
    QuotaEntity.of({"ip": STORM_ADDRESS}): {"connection_creation_rate": 10},
}


class Count(Protocol):
    """A number that processes share."""

    value: float


Greedy = Callable[[int, Count], None]


# -- greedy clients --------------------------------------------------------------------------------


def produces(port: int, done: Count) -> None:
    """Counts megabytes."""
    load = produce_load("flood", 100_000, 1000)
    with RawClient(HOST, port) as client:
        while True:
            client.exchange([load.frame] * 5, depth=5)
            done.value += load.batch_bytes * 5 / 1e6


def fetches(port: int, done: Count) -> None:
    """Counts megabytes: the same four, from the start of a topic."""
    topic = f"wanted-{time.monotonic_ns()}"
    with RawClient(HOST, port) as client:
        topic_id = create_topic(client, topic)
        client.exchange([produce_load(topic, 100_000, 1000).frame] * 50, depth=5)
    frame = fetch_frame(topic_id, 0, 4 << 20)
    with RawClient(HOST, port) as client:
        while True:
            done.value += client.exchange([frame] * 4, depth=2) / 1e6


def asks(port: int, done: Count) -> None:
    frame = make_frame(MetadataRequest(topics=None), 9)
    with RawClient(HOST, port) as client:
        while True:
            client.exchange([frame] * 50, depth=20)
            done.value += 50


def changes(port: int, done: Count) -> None:
    """Counts topics of twenty partitions that were made; `clean_up` deletes them later.

    Not here: requests to delete that succeed keep Kafka 4.3.1 from slowing their client down, and
    such without a timeout are late as soon as they come, so that nothing of them counts."""
    with RawClient(HOST, port) as client:
        while True:
            name = f"{STORM}{time.monotonic_ns()}"
            topic = CreateTopicsRequestTopic(name=name, num_partitions=20, replication_factor=1)
            asked = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
            made = client.call(asked, 7, CreateTopicsResponse)
            done.value += made.topics[0].error_code == 0


def clean_up(side: Contestant) -> None:
    """By another client id, which has no quota."""
    with Client([Endpoint(HOST, side.port)]) as client:
        for name in [each.name for each in client.all_topics()]:
            # Gone meanwhile, where the answer to an earlier request came too late.
            if name.startswith(STORM):
                with suppress(UnknownTopicOrPartition):
                    delete_topic(client, name)


def connects(port: int, done: Count) -> None:
    """Counts connections that were served."""
    hello = make_frame(
        ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3
    )
    while True:
        with (
            suppress(OSError),
            socket.create_connection((HOST, port), 5, (STORM_ADDRESS, 0)) as sock,
        ):
            sock.sendall(hello)
            done.value += bool(sock.recv(65_536))


LOADS: Final[Mapping[str, tuple[tuple[Greedy, ...], str]]] = {
    "nobody else": ((), ""),
    "a greedy producer": ((produces,), "MB/s"),
    "a greedy producer and consumer": ((produces, fetches), "MB/s"),
    "a storm of Metadata": ((asks,), "requests/s"),
    "a storm of CreateTopics": ((changes,), "topics/s"),
    "a storm of connections": ((connects,), "connections/s"),
}


# -- the measurement -------------------------------------------------------------------------------


class Seen(NamedTuple):
    latency: Latency
    greedy_per_s: float


@contextmanager
def beside(greedy: tuple[Greedy, ...], port: int) -> Iterator[list[Count]]:
    """Processes of their own, until the block ends."""
    context = multiprocessing.get_context("fork")
    counts: list[Count] = [context.Value("d", 0.0) for _ in greedy]
    every = [
        context.Process(target=each, args=(port, count), daemon=True)
        for each, count in zip(greedy, counts, strict=True)
    ]
    try:
        for each in every:
            each.start()
        yield counts
    finally:
        for each in every:
            each.terminate()
            each.join()


def measure(side: Contestant, greedy: tuple[Greedy, ...], seconds: float) -> Seen:
    with beside(greedy, side.port) as counts:
        if greedy:
            time.sleep(WARM_UP_S)
        before, began_s = sum(each.value for each in counts), time.perf_counter()
        latency = produce_latency(side.bootstrap, "modest", rate=RATE, seconds=seconds)
        done = sum(each.value for each in counts) - before
        greedy_per_s = done / (time.perf_counter() - began_s)
    return Seen(latency, greedy_per_s)


def set_quotas(side: Contestant) -> None:
    with Client([Endpoint(HOST, side.port)]) as client:
        for entity, limits in QUOTAS.items():
            alter_quotas(client, entity, limits)


def prepare(side: Contestant) -> None:
    with RawClient(HOST, side.port) as client:
        create_topic(client, "modest")
        create_topic(client, "flood")
    produce_latency(side.bootstrap, "modest", rate=RATE, seconds=WARM_UP_S)


def measured(
    side: Contestant, rounds: int, seconds: float, only: str
) -> Iterator[tuple[str, Seen]]:
    for _ in range(rounds):
        for load, (greedy, _unit) in LOADS.items():
            if only in load:
                yield load, measure(side, greedy, seconds)
                if changes in greedy:
                    clean_up(side)


def run(*, rounds: int, seconds: float, only: str = "") -> str:
    jars = fetch_kafka()
    arena = Arena(jars=None if isinstance(jars, str) else jars, rounds=rounds, quick=False)
    lines = [
        "| beside | broker | quotas | p50 | p99 | the greedy ones |",
        "|---|---|---|---|---|---|",
    ]
    if isinstance(jars, str):
        lines.insert(0, jars)
    found: dict[tuple[str, str, bool], list[Seen]] = {}
    # Brokers with quotas are started for it: Kafka 4.3.1 does not slow CreateTopics down where its
    # client has made topics before there was a quota. One after the other: a broker that was frozen
    # meanwhile would have to catch up first.
    for is_on in (False, True):
        with scratch() as directory:
            for side in arena.contestants(directory, may_freeze=False):
                with started(side):
                    if is_on:
                        set_quotas(side)
                    prepare(side)
                    for load, seen in measured(side, rounds, seconds, only):
                        found.setdefault((load, side.name, is_on), []).append(seen)
    order = list(LOADS)
    for (load, name, is_on), taken in sorted(
        found.items(), key=lambda each: (order.index(each[0][0]), each[0][1] != "Ledgerstone")
    ):
        p50, p99 = (median(getattr(each.latency, n) for each in taken) for n in ("p50", "p99"))
        rate = median(each.greedy_per_s for each in taken)
        unit = LOADS[load][1]
        did = f"{rate:,.1f} {unit}" if unit else ""
        words = "on" if is_on else "off"
        lines.append(f"| {load} | {name} | {words} | {_ms(p50)} | {_ms(p99)} | {did} |")
    return "\n".join(lines)


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="loads whose name has this in it")
    asked = parser.parse_args()
    rounds, seconds = (1, 2.0) if asked.quick else (asked.rounds, 6.0)
    print(run(rounds=rounds, seconds=seconds, only=asked.only))


if __name__ == "__main__":
    main()
