"""The wire codec against kio and kafka-python, which both have to be installed.

    python -m bench.codec [--quick]

Every library decodes the same bytes, and encodes the message it has decoded from them. Time is the
time of this process, so that other work on the machine disturbs less. kio decodes in Rust; its
ratio is published for decoding, not aimed at. Compression stands beside kafka-python's, which calls
the same libraries in the plainest way: what is ours is only what is around them.
"""

import argparse
import io
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from kafka.codec import lz4_decode, lz4_encode, zstd_decode, zstd_encode
from kafka.protocol.consumer.fetch import FetchRequest as PythonFetchRequest
from kafka.protocol.consumer.fetch import FetchResponse as PythonFetchResponse
from kafka.protocol.consumer.group import OffsetCommitRequest as PythonOffsetCommitRequest
from kafka.protocol.metadata import MetadataResponse as PythonMetadataResponse
from kafka.protocol.producer.produce import ProduceRequest as PythonProduceRequest
from kafka.protocol.producer.produce import ProduceResponse as PythonProduceResponse
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from bench.table import Row, render
from ledgerstone.protocol.codec import decode_request, decode_response, encode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import fetch, metadata, offset_commit, produce
from ledgerstone.records.batch import Codec
from ledgerstone.records.compression import DEFAULT_DECOMPRESSION_LIMIT, Codecs

BATCH = bytes(65_536)
TOPIC_ID = bytes(range(16))
ENCODE_TARGET = 3.0  # against either peer
DECODE_TARGET = 1.0  # against kafka-python


class Peer(NamedTuple):
    work: Callable[[], object]
    target: float | None


class Case(NamedTuple):
    name: str
    message: ApiMessage
    version: int
    python_class: Any

    @property
    def is_request(self) -> bool:
        return type(self.message).__name__.endswith("Request")


def cases() -> list[Case]:
    return [
        Case("Produce request, 64 KiB", _produce_request(), 11, PythonProduceRequest),
        Case("Produce response", _produce_response(), 11, PythonProduceResponse),
        Case("Fetch request, 6 partitions", _fetch_request(), 16, PythonFetchRequest),
        Case("Fetch response, 64 KiB", _fetch_response(), 16, PythonFetchResponse),
        Case("OffsetCommit request, 6 partitions", _commit(), 8, PythonOffsetCommitRequest),
        Case("Metadata response, 10 × 6", _metadata_response(), 12, PythonMetadataResponse),
    ]


def _produce_request() -> ApiMessage:
    partition = produce.ProducePartitionData(index=3, records=BATCH)
    topic = produce.ProduceTopicData(name="topic-a", partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _produce_response() -> ApiMessage:
    partition = produce.ProducePartitionResponse(index=3, base_offset=12_345, log_start_offset=0)
    topic = produce.ProduceTopicResponse(name="topic-a", partition_responses=[partition])
    return produce.ProduceResponse(responses=[topic])


def _fetch_request() -> ApiMessage:
    partitions = [
        fetch.FetchPartition(partition=index, fetch_offset=1000, partition_max_bytes=1 << 20)
        for index in range(6)
    ]
    topic = fetch.FetchTopic(topic_id=TOPIC_ID, partitions=partitions)
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=5, topics=[topic])


def _fetch_response() -> ApiMessage:
    partition = fetch.FetchPartitionResponse(high_watermark=99, records=BATCH)
    topic = fetch.FetchTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(session_id=7, responses=[topic])


def _commit() -> ApiMessage:
    partitions = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1000, committed_metadata=""
        )
        for index in range(6)
    ]
    topic = offset_commit.OffsetCommitRequestTopic(name="topic-a", partitions=partitions)
    return offset_commit.OffsetCommitRequest(group_id="group", member_id="me", topics=[topic])


def _metadata_response() -> ApiMessage:
    partitions = [
        metadata.MetadataPartition(partition_index=p, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
        for p in range(6)
    ]
    topics = [
        metadata.MetadataResponseTopic(name=f"topic-{t}", topic_id=TOPIC_ID, partitions=partitions)
        for t in range(10)
    ]
    brokers = [metadata.MetadataBroker(node_id=n, host="broker", port=9092) for n in range(3)]
    return metadata.MetadataResponse(brokers=brokers, cluster_id="c", topics=topics)


def micros(work: Callable[[], object], seconds: float) -> float:
    """Microseconds of one call: the best of a few rounds that together take about `seconds`."""
    started = time.process_time()
    work()
    calls = max(5, int(seconds / 5 / max(time.process_time() - started, 1e-6)))
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, (time.process_time() - started) / calls)
    return best * 1e6


def compare(
    name: str, ours: Callable[[], object], peers: dict[str, Peer], *, rounds: int, seconds: float
) -> list[Row]:
    rows = []
    for peer, (theirs, target) in peers.items():
        pairs = [(micros(ours, seconds), micros(theirs, seconds)) for _ in range(rounds)]
        mine = median(pair[0] for pair in pairs)
        limit = median(pair[1] for pair in pairs)
        ratio = median(limit / value for value, limit in pairs)
        rows.append(Row(name, mine, "µs", peer, limit, ratio, target))
    return rows


def case_rows(case: Case, *, rounds: int, seconds: float) -> list[Row]:
    data = b"".join(encode(case.message, case.version))  # type: ignore[arg-type]
    view = memoryview(bytearray(data))
    key, version = case.message.api_key, case.version
    load = load_request_schema if case.is_request else load_response_schema
    decode = decode_request if case.is_request else decode_response
    kio_class: Any = load(key, version)
    kio_read, kio_write = entity_reader(kio_class), entity_writer(kio_class)
    kio_entity, _ = kio_read(data, 0)
    python = case.python_class
    python_message = python.decode(data, version=version)
    python_message._header = None  # which its own decoder leaves unset and its encoder asks for
    rows = compare(
        f"{case.name}: decode",
        lambda: decode(key, version, view, 0),
        {
            "kio": Peer(lambda: kio_read(data, 0), None),
            "kafka-python": Peer(lambda: python.decode(data, version=version), DECODE_TARGET),
        },
        rounds=rounds,
        seconds=seconds,
    )
    return rows + compare(
        f"{case.name}: encode",
        lambda: encode(case.message, version),
        {
            "kio": Peer(lambda: kio_write(io.BytesIO(), kio_entity), ENCODE_TARGET),
            "kafka-python": Peer(lambda: python_message.encode(version=version), ENCODE_TARGET),
        },
        rounds=rounds,
        seconds=seconds,
    )


def compression_rows(size: int, *, rounds: int, seconds: float) -> list[Row]:
    text = b"".join(b'{"id":%d,"name":"user-%d"}' % (i, i * 7919 % 1000) for i in range(size // 20))
    payload = text[:size]
    codecs = Codecs()
    theirs = {Codec.LZ4: (lz4_encode, lz4_decode), Codec.ZSTD: (zstd_encode, zstd_decode)}
    rows = []
    for codec, (their_encode, their_decode) in theirs.items():
        stream = bytes(codecs.compress(codec, payload))
        name = f"{codec.config_name}, {size // 1024} KiB"
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "decompress": (
                partial(codecs.peek, codec, stream, limit=DEFAULT_DECOMPRESSION_LIMIT),
                partial(their_decode, stream),
            ),
            "compress": (partial(codecs.compress, codec, payload), partial(their_encode, payload)),
        }
        for verb, (ours, peers) in pairs.items():
            beside = {"kafka-python": Peer(peers, None)}
            rows += compare(f"{name}: {verb}", ours, beside, rounds=rounds, seconds=seconds)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round")
    quick = parser.parse_args().quick
    rounds, seconds = (1, 0.02) if quick else (5, 0.2)
    rows = [row for case in cases() for row in case_rows(case, rounds=rounds, seconds=seconds)]
    for size in (16 * 1024, 1024 * 1024):
        rows += compression_rows(size, rounds=rounds, seconds=seconds)
    print(render(rows))


if __name__ == "__main__":
    main()
