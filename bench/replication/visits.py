"""What is measured on three nodes, one visit after the other. Shell.

A visit gets a fresh cluster and answers with figures by name; `FIGURES` says what they mean.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple

from bench.peers.load import Load, Moved, loads
from bench.replication.gaps import GapMeter
from bench.replication.trio import FOURTH, LIMIT_S, NODES, Trio
from tests.kit.broker import wait_until

PARTITIONS: Final = 6
VALUE_BYTES: Final = 1000
GB: Final = 1e9
MB: Final = 1e6


class Figure(NamedTuple):
    unit: str
    more_is_better: bool
    target: float = 1.0


class Size(NamedTuple):
    """How much of everything."""

    produce_mb: int
    warm_up_mb: int
    latency_s: float
    # Records a second while latencies are taken.
    rate: int
    idle_s: float
    kills: int
    move_mb: int


# A record of its own costs three nodes and a client some 2 ms of CPU: more than 200 a second, or
# 5 MB/s beside them, and two cores are full, and queues are what is measured.
FULL: Final = Size(600, 150, 10.0, 200, 20.0, 5, 1074)
QUICK: Final = Size(40, 10, 5.0, 100, 3.0, 1, 40)

FIGURES: Final[Mapping[str, Figure]] = {
    "produce, acks=all, RF 3": Figure("MB/s", True),
    "CPU of three nodes while producing": Figure("s/GB", False),
    "consume": Figure("MB/s", True),
    "CPU of three nodes while consuming": Figure("s/GB", False),
    "produce latency at a steady rate, p50": Figure("ms", False),
    "produce latency at a steady rate, p99": Figure("ms", False),
    "time until followers have a record at 5 MB/s, p50": Figure("ms", False),
    "time until followers have a record at 5 MB/s, p99": Figure("ms", False),
    "memory of three nodes after the load": Figure("MB", False, 2.0),
    "idle CPU of three nodes": Figure("% of a core", False),
    "longest produce gap, leader killed": Figure("s", False, 2.0),
    "longest produce gap, leader restarted": Figure("s", False, 2.0),
    "catch-up of a new replica": Figure("MB/s", True),
    "broker added and replicas moved to it": Figure("s", False),
}


def load_visit(trio: Trio, size: Size) -> dict[str, float]:
    """Throughput, latency, memory and idle cost."""
    found: dict[str, float] = {}
    trio.create("bulk", PARTITIONS)
    trio.create("prompt", 1)
    with ExitStack() as stack:
        load, other = loads(stack, 2)
        _produce(load, trio, size.warm_up_mb)
        before = trio.cpu_s
        moved = _produce(load, trio, size.produce_mb)
        found["produce, acks=all, RF 3"] = moved.mb_s
        found["CPU of three nodes while producing"] = (trio.cpu_s - before) / (moved.bytes / GB)
        before = trio.cpu_s
        moved = load.moved("consume", **_job(trio), messages=moved.messages)
        found["consume"] = moved.mb_s
        found["CPU of three nodes while consuming"] = (trio.cpu_s - before) / (moved.bytes / GB)
        latency = load.latency(
            "produce_latency",
            bootstrap=trio.bootstrap,
            topic="prompt",
            rate=size.rate,
            seconds=size.latency_s,
        )
        found["produce latency at a steady rate, p50"] = latency.p50 / 1000
        found["produce latency at a steady rate, p99"] = latency.p99 / 1000
        other.ask("paced", **_job(trio), mb_s=5.0, seconds=size.latency_s + 2)
        # acks=all is answered when every follower in sync has it.
        lag = load.latency(
            "produce_latency",
            bootstrap=trio.bootstrap,
            topic="prompt",
            rate=100,
            seconds=size.latency_s,
        )
        other.answer()
        found["time until followers have a record at 5 MB/s, p50"] = lag.p50 / 1000
        found["time until followers have a record at 5 MB/s, p99"] = lag.p99 / 1000
    found["memory of three nodes after the load"] = trio.pss_bytes / MB
    before, began = trio.cpu_s, time.perf_counter()
    time.sleep(size.idle_s)
    spent_s = trio.cpu_s - before
    found["idle CPU of three nodes"] = 100 * spent_s / (time.perf_counter() - began)
    return found


def _job(trio: Trio) -> dict[str, object]:
    return {
        "bootstrap": trio.bootstrap,
        "topic": "bulk",
        "partitions": PARTITIONS,
        "value_bytes": VALUE_BYTES,
    }


def _produce(load: Load, trio: Trio, size_mb: int) -> Moved:
    messages = int(size_mb * MB) // VALUE_BYTES
    return load.moved("produce", **_job(trio), messages=messages, acks="all")


def failover_visit(trio: Trio, size: Size) -> dict[str, float]:
    """The longest times without an acknowledged record."""
    trio.create("gaps", 1)
    killed, restarted = [], []
    with GapMeter(trio.bootstrap, "gaps") as meter:
        for _ in range(size.kills):
            killed.append(_gap(trio, meter, kills=True))
            restarted.append(_gap(trio, meter, kills=False))
    return {
        "longest produce gap, leader killed": max(killed),
        "longest produce gap, leader restarted": max(restarted),
    }


def _gap(trio: Trio, meter: GapMeter, *, kills: bool) -> float:
    leader = wait_until(lambda: max(0, trio.leader_of("gaps")), "the topic has a leader", LIMIT_S)
    node = trio.cluster[leader]
    meter.begin()
    if kills:
        node.kill()
    else:
        node.stop()
    meter.wait_for_acks()
    node.start()
    node.wait_started()
    trio.wait_whole()
    return meter.longest_s


def moves_visit(trio: Trio, size: Size) -> dict[str, float]:
    """A replica copied to a node that has none, and a node that joins."""
    assigned = [(NODES[n % 3], NODES[(n + 1) % 3]) for n in range(3)]
    trio.create_on("moved", assigned)
    with ExitStack() as stack:
        (load,) = loads(stack, 1)
        messages = int(size.move_mb * MB) // VALUE_BYTES
        moved = load.moved(
            "produce",
            bootstrap=trio.bootstrap,
            topic="moved",
            partitions=len(assigned),
            value_bytes=VALUE_BYTES,
            messages=messages,
            acks="all",
        )
    began = time.perf_counter()
    trio.move("moved", {n: (*each, NODES[(n + 2) % 3]) for n, each in enumerate(assigned)})
    catch_up_s = time.perf_counter() - began
    began = time.perf_counter()
    trio.cluster.start(FOURTH)
    trio.move("moved", {n: (each[0], each[1], FOURTH) for n, each in enumerate(assigned)})
    return {
        "catch-up of a new replica": moved.bytes / MB / catch_up_s,
        "broker added and replicas moved to it": time.perf_counter() - began,
    }


VISITS: Final[Mapping[str, Callable[[Trio, Size], dict[str, float]]]] = {
    "load": load_visit,
    "failover": failover_visit,
    "moves": moves_visit,
}
