"""Decisions that are remembered in a log before they are answered, in process and without sockets.

    python -m bench.commits [--quick]

OffsetCommit and CreateTopics through a whole broker on the real filesystem, and what one changed
partition costs among many topics. CPU time: the wall clock of CreateTopics is the disk's fsync.
"""

import argparse
import time
from collections.abc import Callable

from bench.in_process import InProcessBroker, frame_of
from bench.storage import scratch
from bench.table import Row, render
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import apply
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ledgerstone.records.kernels import load

TOPIC = "bench"


def _create(name: str) -> bytes:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
    return frame_of(CreateTopicsRequest(topics=[topic]), 7)


def _commit(offset: int) -> bytes:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    return frame_of(OffsetCommitRequest(group_id="g", topics=topics), 8)


def _cpu_us(count: int, call: Callable[[int], object]) -> float:
    start = time.process_time()
    for number in range(count):
        call(number)
    return (time.process_time() - start) / count * 1e6


def commits(count: int) -> float:
    frames = [_commit(number) for number in range(count)]
    with scratch() as path:
        broker = InProcessBroker(path)
        broker.ask(_create(TOPIC))
        broker.ask(_commit(0))
        cost = _cpu_us(count, lambda number: broker.ask(frames[number]))
        broker.close()
    return cost


def creations(count: int) -> float:
    frames = [_create(f"{TOPIC}-{number}") for number in range(count)]
    with scratch() as path:
        broker = InProcessBroker(path)
        cost = _cpu_us(count, lambda number: broker.ask(frames[number]))
        broker.close()
    return cost


def one_change(topics: int, changes: int) -> float:
    records: list[MetadataRecord] = []
    for number in range(topics):
        topic_id = number.to_bytes(16)
        records += [
            TopicRecord(name=f"t{number}", topic_id=topic_id),
            PartitionRecord(topic_id=topic_id, replicas=[1], isr=[1], leader=1),
        ]
    image = apply(MetadataImage(cluster_id="c"), records).image

    def change(number: int) -> None:
        nonlocal image
        topic_id = (number * 37 % topics).to_bytes(16)
        image = apply(image, [PartitionChangeRecord(topic_id=topic_id, leader=1)]).image

    return _cpu_us(changes, change)


def run(*, quick: bool = False) -> list[Row]:
    load()
    scale = 10 if quick else 1
    small, large = 1_000, 100_000 // scale
    figures = [
        ("OffsetCommit, remembered and answered", commits(20_000 // scale)),
        ("CreateTopics, one partition", creations(400 // scale)),
        (f"one changed partition among {small:,} topics", one_change(small, 2_000 // scale)),
        (f"one changed partition among {large:,} topics", one_change(large, 2_000 // scale)),
    ]
    return [Row(name, cost, "µs CPU", "", 0, 0, None) for name, cost in figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
