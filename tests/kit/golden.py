"""Directories that Apache Kafka wrote: finding them, opening them, showing what is inside."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ledgerstone.records.batch import BatchHeader, TimestampType, iter_headers
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.record import Record, iter_records
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage import txn_index
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_loader import OpenLog, open_log
from ledgerstone.storage.log_reader import FetchIsolation, read
from ledgerstone.types import TopicPartition
from tests.kit.scenario import put

KAFKA = Path(__file__).resolve().parents[1] / "golden" / "kafka"
COPY = "/copy"
INDEXES = (".index", ".timeindex", ".txnindex")


class Golden(NamedTuple):
    directory: Path
    expected: dict[str, Any]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.expected["topic"], self.expected["partition"])

    @property
    def config(self) -> LogConfig:
        own = dict(self.expected["config"])
        if "internal.segment.bytes" in own:
            own["segment.bytes"] = own.pop("internal.segment.bytes")
        return LogConfig.from_topic(own)

    @property
    def label(self) -> str:
        return str(self.directory.relative_to(KAFKA))

    @property
    def was_stopped(self) -> bool:
        """Not killed while it wrote: indexes trimmed, a snapshot at the end."""
        return "killed" not in self.directory.parts

    @property
    def latest_ms(self) -> int:
        """When the broker last touched the directory; our clock continues there."""
        return max(int(file["mtimeMs"]) for file in self.expected["files"].values())


def golden_directories() -> Iterator[Golden]:
    for path in sorted(KAFKA.rglob("expected.json")):
        partitions = json.loads(path.read_text(encoding="utf-8"))["partitions"]
        for name in sorted(partitions):
            yield Golden(path.parent / name, partitions[name])


def copied(golden: Golden, *, without: str = "none") -> SimFilesystem:
    """The directory's files on a disk of their own, with the mtimes Kafka left them."""
    clock = VirtualClock(start_ms=golden.latest_ms)
    fs = SimFilesystem(dice=SeededDice(0), clock=clock)
    fs.make_dir(COPY)
    for path in sorted(golden.directory.iterdir()):
        if path.suffix != without:
            put(fs, f"{COPY}/{path.name}", path.read_bytes())
            fs.set_mtime_ms(f"{COPY}/{path.name}", golden.expected["files"][path.name]["mtimeMs"])
    return fs


def opened(golden: Golden, fs: SimFilesystem, *, clean: bool) -> PartitionLog:
    log, _ = open_log(
        OpenLog(
            fs=fs,
            clock=VirtualClock(start_ms=golden.latest_ms),
            dice=SeededDice(0),
            directory=COPY,
            topic_partition=golden.topic_partition,
            config=golden.config,
            clean=clean,
            log_start_offset=golden.expected["logStartOffset"],
            high_watermark=golden.expected["logEndOffset"],
        )
    )
    log.check_invariants()
    return log


# -- what a reader sees ---------------------------------------------------------------------------


def fetched(
    log: PartitionLog, isolation: FetchIsolation
) -> Iterator[tuple[BatchHeader, list[Record], ControlType | None, set[tuple[int, int]]]]:
    """Batch by batch as a client fetches them, a little at a time."""
    offset = log.log_start_offset
    while True:
        result = read(log, offset, max_bytes=700, isolation=isolation)
        if result.slice is None:
            return
        content = result.slice.read()
        for position, header in iter_headers(content):
            control = None
            if header.is_control and header.record_count:
                control = read_control_record(content, position).type
            records = list(iter_records(content, position))
            yield header, records, control, {(t[0], t[1]) for t in result.aborted}
            offset = header.next_offset


def uncommitted(log: PartitionLog) -> list[tuple[Record, TimestampType]]:
    return [
        (record, header.timestamp_type)
        for header, records, _, _ in fetched(log, FetchIsolation.HIGH_WATERMARK)
        if not header.is_control
        for record in records
        if record.offset >= log.log_start_offset
    ]


def committed(log: PartitionLog) -> list[tuple[Record, TimestampType]]:
    """What a read_committed client makes of the batches and the list of aborted transactions."""
    found: list[tuple[Record, TimestampType]] = []
    aborting: set[int] = set()
    begun: set[tuple[int, int]] = set()
    for header, records, control, aborted in fetched(log, FetchIsolation.TXN_COMMITTED):
        for producer_id, first_offset in sorted(aborted - begun):
            if first_offset <= header.last_offset:
                begun.add((producer_id, first_offset))
                aborting.add(producer_id)
        if control is ControlType.ABORT:
            aborting.discard(header.producer_id)
        if header.is_control or (header.is_transactional and header.producer_id in aborting):
            continue
        found += [
            (record, header.timestamp_type)
            for record in records
            if record.offset >= log.log_start_offset
        ]
    return found


def as_json(record: Record, timestamp_type: TimestampType) -> dict[str, Any]:
    append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    shown: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": "LogAppendTime" if append_time else "CreateTime",
        "key": None if record.key is None else record.key.hex(),
        "headers": [
            [name, None if value is None else value.hex()] for name, value in record.headers
        ],
    }
    if record.value is not None and len(record.value) > 1024:
        shown["valueSize"] = len(record.value)
        shown["valueSha256"] = sha256(record.value).hexdigest()
    else:
        shown["value"] = None if record.value is None else record.value.hex()
    return shown


def batches_of(log: PartitionLog) -> list[dict[str, Any]]:
    """The batches in the files, with the names of Kafka's dump tool."""
    shown = []
    for segment in log.segments:
        content = segment.file.pread(segment.size, 0)
        for position, header in iter_headers(content):
            codec = header.codec.name.lower()
            append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            shown.append(
                {
                    "segment": f"{segment.base_offset:020d}.log",
                    "baseOffset": header.base_offset,
                    "lastOffset": header.last_offset,
                    "count": header.record_count,
                    "baseSequence": header.base_sequence,
                    "lastSequence": header.last_sequence,
                    "producerId": header.producer_id,
                    "producerEpoch": header.producer_epoch,
                    "partitionLeaderEpoch": header.leader_epoch,
                    "isTransactional": header.is_transactional,
                    "isControl": header.is_control,
                    "deleteHorizonMs": header.delete_horizon_ms,
                    "position": position,
                    "timestampType": "LogAppendTime" if append_time else "CreateTime",
                    "maxTimestamp": header.max_timestamp,
                    "size": header.size,
                    "magic": header.magic,
                    "compresscodec": codec,
                    "crc": header.crc,
                }
            )
    return shown


def producers_of(log: PartitionLog) -> list[tuple[int, ...]]:
    return [tuple(entry) for entry in log.producers.entries()]


def expected_producers(golden: Golden) -> list[tuple[int, ...]]:
    """What Kafka's snapshot at the end says; None where it took none."""
    name = f"{golden.expected['logEndOffset']:020d}.snapshot"
    return sorted(
        (
            entry["producerId"],
            entry["producerEpoch"],
            entry["lastSequence"],
            entry["lastOffset"],
            entry["offsetDelta"],
            entry["timestamp"],
            entry["coordinatorEpoch"],
            -1 if entry["currentTxnFirstOffset"] is None else entry["currentTxnFirstOffset"],
        )
        for entry in golden.expected["snapshot"].get(name, [])
    )


def files_of(fs: SimFilesystem, *endings: str) -> dict[str, bytes]:
    return {
        path.removeprefix(f"{COPY}/"): content
        for path, content in fs.files().items()
        if path.endswith(endings)
    }


def with_data_left(golden: Golden, txn_index_bytes: bytes) -> list[txn_index.AbortedTxnEntry]:
    """The entries a scan can find again. The cleaner keeps the entry of an aborted transaction as
    long as its marker stays, also when no batch of it is left that anybody would have to skip."""
    return [
        entry
        for entry in txn_index.decode_entries(txn_index_bytes)
        if any(
            batch["producerId"] == entry.producer_id
            and not batch["isControl"]
            and entry.first_offset <= batch["baseOffset"] < entry.last_offset
            for batch in golden.expected["batches"]
        )
    ]


def times_of(golden: Golden) -> list[tuple[int, int]]:
    """(timestamp, offset) of every record from the log start on, markers included."""
    times = [(record["timestamp"], record["offset"]) for record in golden.expected["records"]]
    times += [
        (batch["maxTimestamp"], batch["baseOffset"])
        for batch in golden.expected["batches"]
        if batch["isControl"] and batch["count"]
    ]
    return sorted(times, key=lambda entry: entry[1])
