"""How fast a topic is folded to its keys, beside a consumer that fills a dict, in the same run.

    python -m bench.state [--quick]

One broker on loopback, one partition, a million keys in random order. The peer is what one writes
today: confluent-kafka, ten thousand records a call, `table[key] = value`. CPU is the client's own;
the broker is another process. Plain fetching shows what the network and the client alone cost.
"""

import argparse
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from confluent_kafka import TopicPartition as ConfluentPartition

from bench.broker_process import BrokerProcess, broker_process
from bench.client_loop import CONSUME_COUNT, DEEP_QUEUE, make_consumer
from bench.raw_client import PRODUCE_VERSION, RawClient, create_topic, make_frame
from bench.storage import scratch
from bench.table import Row, paired, render
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.batch import write_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import load, walk
from ledgerstone.state.reading import ReadRange, log_bounds, read_ranges
from ledgerstone.state.rebuild import rebuild
from ledgerstone.types import TopicPartition

KEYS: Final = 1_000_000
KEY_BYTES: Final = 16
BATCH_BYTES: Final = 1_000_000
RECORD_OVERHEAD_BYTES: Final = 16  # at most, lengths and deltas
MB: Final = 1e6
PEER_TARGET: Final = {100: 10.0, 1024: None}


class Spent(NamedTuple):
    wall_s: float
    cpu_s: float


def run(*, quick: bool) -> list[Row]:
    load()
    # An eighth of the bytes has an eighth of the keys, so that each key is rewritten as often.
    total_bytes, keys, rounds = (1 << 27, KEYS // 8, 2) if quick else (1 << 30, KEYS, 3)
    rows = []
    with scratch() as path, broker_process(path) as broker:
        for value_bytes in PEER_TARGET:
            topic = f"values-{value_bytes}"
            size = _fill(broker, topic, value_bytes, total_bytes, keys)
            rows += _measure(broker, topic, value_bytes, size, rounds)
    return rows


def _fill(
    broker: BrokerProcess, topic: str, value_bytes: int, total_bytes: int, key_count: int
) -> int:
    """Records of one shape: a batch is built once, and then only its keys change."""
    rng = np.random.default_rng(1)
    count = BATCH_BYTES // (value_bytes + KEY_BYTES + RECORD_OVERHEAD_BYTES)
    value = rng.bytes(value_bytes)
    now_ms = int(time.time() * 1000)
    batch = build_batch([(now_ms, bytes(KEY_BYTES), value, ()) for _ in range(count)])
    places = walk(batch).key_start[:, None] + np.arange(KEY_BYTES)
    keys = np.frombuffer(b"".join(b"%016d" % n for n in range(key_count)), np.uint8)
    keys = keys.reshape(key_count, KEY_BYTES)
    size = 0
    with RawClient(broker.host, broker.port) as client:
        create_topic(client, topic)
        while size < total_bytes:
            np.frombuffer(batch, np.uint8)[places] = keys[rng.integers(0, key_count, count)]
            write_crc(batch, 0, len(batch))
            data = ProducePartitionData(index=0, records=batch)
            request = ProduceRequest(
                acks=1,
                timeout_ms=30_000,
                topic_data=[ProduceTopicData(name=topic, partition_data=[data])],
            )
            frame = make_frame(request, PRODUCE_VERSION)
            answer = client.call_frame(frame, PRODUCE_VERSION, ProduceResponse)
            refused = answer.responses[0].partition_responses[0].error_code
            if refused:
                raise RuntimeError(f"Produce: error {refused}")
            size += len(batch)
    return size


def _measure(
    broker: BrokerProcess, topic: str, value_bytes: int, size: int, rounds: int
) -> list[Row]:
    ours, plain, theirs = [], [], []
    for _ in range(rounds):
        ours.append(_timed(lambda: _fold(broker, topic)))
        plain.append(_timed(lambda: _fetch(broker, topic)))
        theirs.append(_timed(lambda: _fill_dict(broker, topic)))
    name = f"state of a topic, {value_bytes} B values"
    wall, cpu, fetch = (
        [(size / MB / a, size / MB / b) for a, b in pairs]
        for pairs in (
            [(a.wall_s, b.wall_s) for a, b in zip(ours, theirs, strict=True)],
            [(a.cpu_s, b.cpu_s) for a, b in zip(ours, theirs, strict=True)],
            [(a.cpu_s, b.cpu_s) for a, b in zip(ours, plain, strict=True)],
        )
    )
    peer = "confluent-kafka and a dict"
    target = PEER_TARGET[value_bytes]
    return [
        paired(name, "MB/s", peer, wall)._replace(target=target),
        paired(f"{name}, by CPU", "MB/s", peer, cpu)._replace(target=target),
        paired(f"{name}, by CPU", "MB/s", "plain fetch", fetch),
    ]


def _timed(work: Callable[[], int]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    keys = work()
    spent = Spent(time.perf_counter() - wall, time.process_time() - cpu)
    if not 0 < keys <= KEYS:
        raise RuntimeError(f"{keys} keys of {KEYS}")
    return spent


def _connect(broker: BrokerProcess) -> Client:
    return Client([Endpoint(broker.host, broker.port)])


def _fold(broker: BrokerProcess, topic: str) -> int:
    with _connect(broker) as client:
        state = rebuild(client, topic)
        assert state.checksum
        return state.totals().live_keys


def _fetch(broker: BrokerProcess, topic: str) -> int:
    with _connect(broker) as client:
        (bounds,) = log_bounds(client, [TopicPartition(topic, 0)])
        whole = ReadRange(bounds.partition, 0, bounds.high_watermark)
        return sum(1 for _ in read_ranges(client, [whole], IsolationLevel.READ_COMMITTED))


def _fill_dict(broker: BrokerProcess, topic: str) -> int:
    consumer = make_consumer(broker.bootstrap, DEEP_QUEUE)
    partition = ConfluentPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition)
    consumer.assign([partition])
    table: dict[bytes, bytes] = {}
    next_offset = 0
    while next_offset < end:
        # It returns when there are as many as asked for: never ask for more than will come.
        for message in consumer.consume(min(CONSUME_COUNT, end - next_offset), timeout=10.0):
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            key, value, offset = message.key(), message.value(), message.offset()
            assert key is not None
            assert offset is not None
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
            next_offset = offset + 1
    consumer.close()
    return len(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
