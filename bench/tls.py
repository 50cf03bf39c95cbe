"""TLS beside plain text: the same requests on two listeners of one broker, in turns.

    python -m bench.tls [--quick]
    PYTHONPATH=tools python -m bench.tls --kafka [--quick]

The client decrypts as well, in a process of its own; CPU is what the kernel charges the broker.
With `--kafka` Apache Kafka gets the same requests afterwards, from the same client and with a key
of the same kind; what comes first is not measured for either.
"""

import argparse
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.broker_process import BrokerProcess, broker_process
from bench.raw_client import (
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
from ledgerstone.system import SystemClock
from ledgerstone.tls.authority import issue, new_authority

GB = 1e9
CPU_S_PER_GB = 1.1
HANDSHAKES_S = 1500
IDLE_KB = 30
BATCHES = 400
MORE_IS_BETTER = ("MB/s", "1/s")


class Size(NamedTuple):
    rounds: int
    batches: int
    connections: int


FULL = Size(5, BATCHES, 500)
QUICK = Size(1, 100, 100)


def run(*, quick: bool = False) -> list[Row]:
    size = QUICK if quick else FULL
    with scratch() as path:
        port = _free_port()
        context = _files(path)
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:{port}",
            "ssl.keystore.location": str(path / "broker.pem"),
        }
        with broker_process(path, settings) as broker:
            return _rows(broker, port, context, size)


def beside_kafka(ours: list[Row], *, quick: bool = False) -> list[Row]:
    """The same of Apache Kafka."""
    # Only here: what fetches Kafka lies in tools/.
    from bench.peers.arena import started
    from bench.peers.contestants import KAFKA_CONFIG, Kafka
    from bench.peers.jars import fetch_kafka

    jars = fetch_kafka()
    if isinstance(jars, str):
        raise SystemExit(jars)
    with scratch() as path:
        port = _free_port()
        context = _files(path)
        protocols = KAFKA_CONFIG["listener.security.protocol.map"]
        side = Kafka(
            directory=path / "kafka",
            jars=jars,
            settings={
                "listener.security.protocol.map": f"{protocols},SSL:SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(path / "broker.pem"),
            },
            more_listeners=(f"SSL://127.0.0.1:{port}",),
        )
        side.prepare()
        with started(side):
            theirs = _rows(side.as_process, port, context, QUICK if quick else FULL)
    peers = {(row.name, row.unit): row.value for row in theirs}
    return [_paired_with(row, peers[row.name, row.unit]) for row in ours]


def _paired_with(row: Row, peer: float) -> Row:
    ratio = row.value / peer if row.unit in MORE_IS_BETTER else peer / row.value
    return Row(row.name, row.value, row.unit, "Apache Kafka", peer, ratio, None)


def _rows(broker: BrokerProcess, port: int, context: ssl.SSLContext, size: Size) -> list[Row]:
    with ExitStack() as stack:
        plain = stack.enter_context(RawClient(broker.host, broker.port))
        secure = stack.enter_context(RawClient("127.0.0.1", port, context))
        return [
            *_bulk(broker, plain, secure, rounds=size.rounds, batches=size.batches),
            *_handshakes(broker, port, context, size.connections),
        ]


def _bulk(
    broker: BrokerProcess, plain: RawClient, secure: RawClient, *, rounds: int, batches: int
) -> list[Row]:
    topic_id = create_topic(plain, "bulk")
    load = produce_load("bulk", 1_000_000, 1000)
    check_produce(secure, load)
    produced = [load.frame] * batches
    size = 4 * load.batch_bytes
    fetched = [fetch_frame(topic_id, n * 4 * load.record_count, size) for n in range(batches // 4)]
    rows = []
    for client in (plain, secure):
        client.exchange(produced, depth=5)
        client.exchange(fetched, depth=2)
    check_fetch(secure, fetched[0], size)
    for name, frames, depth, total in (
        ("produce 1 MB batches", produced, 5, batches * load.batch_bytes),
        ("fetch 4 MB", fetched, 2, len(fetched) * size),
    ):
        rates, cpu = [], [0.0, 0.0]
        for _ in range(rounds):
            pair = []
            for index, client in enumerate((secure, plain)):
                before, started = broker.cpu_s, time.perf_counter()
                client.exchange(frames, depth=depth)
                pair.append(total / (time.perf_counter() - started) / 1e6)
                cpu[index] += broker.cpu_s - before
            rates.append((pair[0], pair[1]))
        ours, peer = (each / (rounds * total / GB) for each in cpu)
        rows += [
            paired(f"TLS: {name}", "MB/s", "in plain text", rates),
            at_most(f"TLS: {name}: broker CPU", "s/GB", ours, CPU_S_PER_GB),
            Row(f"TLS: {name}: broker CPU", ours, "s/GB", "in plain text", peer, peer / ours, None),
        ]
    return rows


def _handshakes(broker: BrokerProcess, port: int, context: ssl.SSLContext, count: int) -> list[Row]:
    with ExitStack() as stack:
        for _ in range(count):
            with RawClient("127.0.0.1", port, context) as client:
                ask_versions(client)
        before, memory = broker.cpu_s, broker.rss_bytes
        for _ in range(count):
            ask_versions(stack.enter_context(RawClient("127.0.0.1", port, context)))
        cpu_s, grown = broker.cpu_s - before, broker.rss_bytes - memory
    name = f"memory of an idle TLS connection, {count} of them"
    each_s = cpu_s / count
    return [
        Row(
            "TLS: handshakes that one core could do, P-256", 1 / each_s, "1/s",
            "wanted", HANDSHAKES_S, 1 / each_s / HANDSHAKES_S, 1.0,
        ),
        published("TLS: CPU of a connection and its first request", "µs", each_s * 1e6),
        at_most(name, "KB", grown / count / 1000, IDLE_KB),
    ]  # fmt: skip


def _files(path: Path) -> ssl.SSLContext:
    now_ms = SystemClock().now_ms()
    authority = new_authority("bench", now_ms)
    key = path / "broker.pem"
    key.touch(mode=0o600)
    key.write_bytes(issue(authority, "broker", ["127.0.0.1"], now_ms).pem)
    return ssl.create_default_context(cadata=authority.certificate.decode())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
    return port


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds")
    parser.add_argument("--kafka", action="store_true", help="then the same of Apache Kafka")
    asked = parser.parse_args(arguments)
    rows = run(quick=asked.quick)
    print(render(rows))
    if asked.kafka:
        distinct = {(row.name, row.unit): row for row in rows}
        print(render(beside_kafka(list(distinct.values()), quick=asked.quick)))


if __name__ == "__main__":
    main()
