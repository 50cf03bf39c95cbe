"""What the metadata of a large cluster costs a node that starts: 100,000 partitions of 3 replicas.

    python -m bench.metadata [--quick]

CPU time, since disks differ. Each figure stands beside the limit that it must keep.
"""

import argparse
import gc
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from bench.storage import scratch
from bench.table import Row, at_most, published, render
from ledgerstone.config.broker import load_broker_config
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.partition_changes import changes_for_fenced
from ledgerstone.metadata.records import decode_record, encode_records
from ledgerstone.metadata.replay import apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ledgerstone.raft.control_batches import snapshot_head
from ledgerstone.raft.events import SnapshotPlan
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import load
from ledgerstone.records.values import record_values
from ledgerstone.server.quorum import snapshot_reading
from ledgerstone.server.quorum.snapshot_writing import SnapshotWork, write_snapshot
from ledgerstone.storage.sync_plan import NewFile
from ledgerstone.system import OsFilesystem, SystemDice

PARTITIONS: Final = 100_000
PARTITIONS_OF_A_TOPIC: Final = 100
BROKERS: Final = 100
# Limits in seconds for 100,000 partitions.
SNAPSHOT_READ_S: Final = 3.0
LOG_READ_S: Final = 5.0
SNAPSHOT_WRITTEN_S: Final = 2.0
INDEX_S: Final = 0.6
FENCE_S: Final = 0.3
STALL_MS: Final = 20.0
# Records that a node applies at a time while nobody looks at the image yet.
_AT_A_TIME: Final = 10_000

T = TypeVar("T")


def cluster_records(partitions: int) -> Iterator[MetadataRecord]:
    """Topics as they are created."""
    directories = [bytes([number + 1] * 16) for number in range(BROKERS)]
    yield FeatureLevelRecord("metadata.version", 30)
    for first in range(0, partitions, PARTITIONS_OF_A_TOPIC):
        topic_id = (first + 1000).to_bytes(16)
        yield TopicRecord(f"topic-{first}", topic_id)
        for number in range(PARTITIONS_OF_A_TOPIC):
            replicas = [(first + number + 7 * each) % BROKERS for each in range(3)]
            yield PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directories[each] for each in replicas],
            )


def changes(partitions: int) -> Iterator[MetadataRecord]:
    """Each partition gets another leader once."""
    for first in range(0, partitions, PARTITIONS_OF_A_TOPIC):
        topic_id = (first + 1000).to_bytes(16)
        for number in range(PARTITIONS_OF_A_TOPIC):
            isr = [(first + number + 7 * each) % BROKERS for each in (1, 2)]
            yield PartitionChangeRecord(number, topic_id, isr=isr, leader=isr[0])


def batches(records: Iterable[MetadataRecord]) -> list[bytearray]:
    found, parts, offset = [], [], 0
    for value in encode_records(records):
        parts.append((0, None, value, ()))
        if len(parts) == 1_000:
            found.append(build_batch(parts, base_offset=offset, leader_epoch=1))
            offset, parts = offset + len(parts), []
    return [*found, build_batch(parts, base_offset=offset, leader_epoch=1)] if parts else found


def read_log(log: Iterable[bytearray]) -> MetadataImage:
    image, waiting = MetadataImage(cluster_id="c"), list[MetadataRecord]()
    for batch in log:
        waiting += [decode_record(each) for each in record_values(batch) if each is not None]
        if len(waiting) >= _AT_A_TIME:
            image, waiting = apply(image, waiting).image, []
    return apply(image, waiting).image


def write(image: MetadataImage, path: Path) -> None:
    plan = SnapshotPlan(
        snapshot_id=OffsetAndEpoch(1, 1),
        first_offset=1,
        head=bytes(snapshot_head(epoch=1, wall_ms=0, last_timestamp=0, version=0, voters=None)),
    )
    file = NewFile(str(path / "t.part"), str(path / "t.checkpoint"))
    work = SnapshotWork(plan=plan, file=file, records=snapshot_records(image), wall_ms=0)
    write_snapshot(OsFilesystem(), work)


def read(path: Path) -> MetadataImage:
    file = OsFilesystem().open(str(path / "t.checkpoint"))
    try:
        records = snapshot_reading.snapshot_records(file, "t.checkpoint")
        return apply(MetadataImage(cluster_id="c"), records).image
    finally:
        file.close()


def timed(call: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def longest_stall_ms(call: Callable[[], object]) -> float:
    """How long a loop with something to do every millisecond waits for a thread that is busy."""
    worker = threading.Thread(target=call)
    longest = 0.0
    worker.start()
    while worker.is_alive():
        start = time.perf_counter()
        time.sleep(0.001)
        longest = max(longest, time.perf_counter() - start - 0.001)
    return longest * 1000


def memory_of_a_partition(partitions: int) -> float:
    log = batches(cluster_records(partitions))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        image = read_log(log)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(image.topics) == partitions // PARTITIONS_OF_A_TOPIC
    return taken / partitions


def fence_one(image: MetadataImage, scale: int) -> list[Row]:
    """What a new controller counts once, and what the loss of one broker costs it then."""
    config = load_broker_config(overrides=()).config
    controller = Controller("c", config, SystemDice())
    controller.decided = controller.committed = image
    controller.replay(
        RegisterBrokerRecord(broker_id=each, broker_epoch=each, fenced=False)
        for each in range(BROKERS)
    )
    index_s, partitions = timed(lambda: controller.partitions)

    def fence() -> int:
        records = changes_for_fenced(partitions, 1)
        controller.decided_on(controller.preview(records))
        return len(records)

    fence_s, changed = timed(fence)
    return [
        at_most("index of all partitions counted", "s CPU", index_s, INDEX_S / scale),
        at_most(
            f"one of {BROKERS} brokers fenced: {changed:,} partitions", "s CPU", fence_s, FENCE_S
        ),
    ]


def run(*, quick: bool = False) -> list[Row]:
    load()
    scale = 10 if quick else 1
    partitions = PARTITIONS // scale
    log = batches([*cluster_records(partitions), *changes(partitions)])
    log_s, image = timed(lambda: read_log(log))
    with scratch() as path:
        written_s, _ = timed(lambda: write(image, path))
        snapshot_s, found = timed(lambda: read(path))
        gc.freeze()  # As a broker does once it is up.
        stall_ms = min(longest_stall_ms(lambda: write(image, path)) for _ in range(5))
        idle_ms = min(longest_stall_ms(lambda: time.sleep(written_s)) for _ in range(5))
    assert found == image, "the snapshot is not the image"
    what = f"{partitions:,} partitions"
    return [
        at_most(f"image of {what} from a snapshot", "s CPU", snapshot_s, SNAPSHOT_READ_S / scale),
        at_most(
            f"image of {what} from the log, each changed once", "s CPU", log_s, LOG_READ_S / scale
        ),
        at_most(f"snapshot of {what} written", "s CPU", written_s, SNAPSHOT_WRITTEN_S / scale),
        at_most("longest stall of the loop meanwhile", "ms", stall_ms, STALL_MS),
        published("longest stall of the loop beside an idle thread", "ms", idle_ms),
        published(
            "memory of one partition in an image", "B", memory_of_a_partition(20_000 // scale)
        ),
        *fence_one(image, scale),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
