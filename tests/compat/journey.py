"""The turns Kafka and we take on one log directory, and what each saw in its turn.

The order is in test_kafka_continues_our_directories.py, which judges what is collected here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from golden.kafka_broker import KafkaBroker
from golden.kafka_client import (
    BatchWriter,
    Record,
    SeenPartition,
    SeenRecord,
    offsets_for_times,
    see_topics,
    set_topic_config,
)
from golden.kafka_tools import DumpedBatch, DumpedProducer, DumpedRecord, FileDump
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.system import OsFilesystem, SystemClock
from ledgerstone.types import INT32_MAX
from tests.kit.directories import KINDS
from tests.kit.expected_dump import LogModel
from tests.kit.golden import uncommitted
from tests.kit.kafka_sessions import (
    TOPICS,
    Produced,
    RawProducer,
    broker_epoch,
    files_of,
    lines_about,
    wait_for_leaders,
)
from tests.kit.our_dump import dumped_producer, read_files
from tests.kit.stories import HEADERS, plain

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTED = [topic for topic in TOPICS if topic.startswith("compacted-")]


class Seen(NamedTuple):
    """A record as every reader can tell it."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def seen(record: SeenRecord | DumpedRecord) -> Seen:
    return Seen(
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        record.headers,
    )


class TimeAnswer(NamedTuple):
    """The first record that is as young as the timestamp asked for."""

    topic: str
    asked: int
    found: tuple[int, int]  # offset and timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSession:
    """Kafka on our files after a clean stop."""

    epochs: Mapping[str, int]
    found: Mapping[str, SeenPartition]
    by_time: list[TimeAnswer]
    # What became of a batch that was sent again, left one out, or went on; by topic and producer.
    repeated: Mapping[tuple[str, int], Produced]
    skipped: Mapping[tuple[str, int], Produced]
    continued: Mapping[tuple[str, int], Produced]
    found_at_end: Mapping[str, SeenPartition]
    recoveries: Mapping[str, list[str]]
    warnings: Mapping[str, list[str]]
    files: Mapping[str, Mapping[str, FileDump]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OurTurn:
    """We on the files Kafka went on with."""

    records: Mapping[str, list[Seen]]
    scanned: Mapping[str, int]
    offsets: Mapping[str, tuple[int, int, int]]
    epochs: Mapping[str, list[tuple[int, int]]]
    producers: Mapping[str, list[DumpedProducer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondSession:
    """Kafka on the files we went on with, after an unclean stop."""

    rebuilt: Mapping[str, Mapping[str, FileDump]]
    found: Mapping[str, SeenPartition]
    repeated: Mapping[tuple[str, int], Produced]
    recoveries: Mapping[str, list[str]]
    warnings: Mapping[str, list[str]]
    cleaned: Mapping[str, SeenPartition]
    batches: Mapping[str, list[DumpedBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    models: Mapping[str, LogModel]
    first: FirstSession
    ours: OurTurn
    second: SecondSession


# -- the three turns ------------------------------------------------------------------------------


def first_session(broker: KafkaBroker, models: Mapping[str, LogModel]) -> FirstSession:
    broker.start()
    epochs = wait_for_leaders(broker)
    found = see_topics(broker.bootstrap, TOPICS)
    warnings = lines_about(broker, r"\] (WARN|ERROR) |UNCLEAN")
    by_time = [answer for part in range(5) for answer in ask_for_times(broker, models, part)]
    idempotent = {"idempotent": models["idempotent"]}
    repeated = send_again(broker, models)
    skipped = send_next(broker, idempotent, skip=1)
    continued = send_next(broker, idempotent, skip=0)
    for number, topic in enumerate(TOPICS):
        writer = BatchWriter(broker.bootstrap, {"compression.type": CODECS[number % 5]})
        writer.write(topic, kafkas_records())
    found_at_end = see_topics(broker.bootstrap, TOPICS)
    broker.stop()
    return FirstSession(
        epochs=epochs,
        found=found,
        by_time=by_time,
        repeated=repeated,
        skipped=skipped,
        continued=continued,
        found_at_end=found_at_end,
        recoveries=lines_about(broker, "Recovering unflushed segment"),
        warnings=warnings,
        files={topic: read_files(files_of(broker.data / f"{topic}-0")) for topic in TOPICS},
    )


def our_turn(path: Path, epochs: Mapping[str, int]) -> OurTurn:
    epoch_of_stop = broker_epoch(path)
    clock = VirtualClock(start_ms=SystemClock().now_ms())
    log_dir = open_log_dir(OsFilesystem(), clock, SeededDice(0), str(path))
    for kind in KINDS:
        log_dir.create(kind.topic_partition, kind.log_config)
    logs = {kind.name: log_dir.logs[kind.topic_partition] for kind in KINDS}
    turn = OurTurn(
        records={topic: records_of(log) for topic, log in logs.items()},
        scanned={
            kind.name: log_dir.recoveries[kind.topic_partition].segments_scanned for kind in KINDS
        },
        offsets={
            topic: (log.log_start_offset, log.last_stable_offset, log.log_end_offset)
            for topic, log in logs.items()
        },
        epochs={
            topic: [(entry.epoch, entry.start_offset) for entry in log.epochs.entries()]
            for topic, log in logs.items()
        },
        producers={
            topic: [dumped_producer(entry) for entry in log.producers.entries()]
            for topic, log in logs.items()
        },
    )
    for topic, log in logs.items():
        batch = build_batch(plain(clock.now_ms(), "ours again"))
        log.append_as_leader(batch, leader_epoch=epochs[topic])
    log_dir.close(broker_epoch=epoch_of_stop)
    return turn


def second_session(broker: KafkaBroker, models: Mapping[str, LogModel]) -> SecondSession:
    broker.start()
    wait_for_leaders(broker)
    rebuilt = {topic: sealed_files(broker.data / f"{topic}-0", models[topic]) for topic in TOPICS}
    found = see_topics(broker.bootstrap, TOPICS)
    repeated = send_again(broker, {topic: models[topic] for topic in COMPACTED})
    set_topic_config(broker.bootstrap, COMPACTED, "min.cleanable.dirty.ratio", "0.0")
    wanted = {f"{topic}-0" for topic in COMPACTED}
    broker.wait_until(lambda: wanted <= {log for log, _, _ in broker.cleaned()}, "cleaning passes")
    cleaned = see_topics(broker.bootstrap, COMPACTED)
    broker.stop()
    return SecondSession(
        rebuilt=rebuilt,
        found=found,
        repeated=repeated,
        recoveries=lines_about(broker, "Recovering unflushed segment"),
        warnings=lines_about(broker, r"\] (WARN|ERROR) "),
        cleaned=cleaned,
        batches={
            topic: [
                batch
                for _, file in sorted(read_files(files_of(broker.data / f"{topic}-0")).items())
                for batch in file.batches
            ]
            for topic in COMPACTED
        },
    )


# -- what is done in a turn -----------------------------------------------------------------------


def kafkas_records() -> list[Record]:
    now_ms = SystemClock().now_ms()
    return [
        Record(now_ms, b"kafka", b"went on", HEADERS),
        Record(now_ms + 1, b"", None),
        Record(now_ms + 1, bytes(range(256)), b""),
    ]


def records_of(log: PartitionLog) -> list[Seen]:
    return [
        Seen(
            record.offset,
            record.timestamp,
            "LogAppendTime" if kind else "CreateTime",
            record.key,
            record.value,
            tuple((name.encode(), value) for name, value in record.headers),
        )
        for record, kind in uncommitted(log)
    ]


def sealed_files(directory: Path, model: LogModel) -> dict[str, FileDump]:
    """The log and index files of all segments but the last, which a running broker fills up."""
    names = [dump.name for segment in model.segments[:-1] for dump in segment.files()]
    return read_files({name: (directory / name).read_bytes() for name in names})


def ask_for_times(
    broker: KafkaBroker, models: Mapping[str, LogModel], part: int
) -> list[TimeAnswer]:
    """With the time of one record of each topic, or just after that of the last."""
    times = {}
    for topic, model in models.items():
        # Kafka gives a segment without timestamps the time of its file, and finds nothing inside.
        timed = all(segment.newest[0] >= 0 for segment in model.segments[:-1])
        if timed and model.records:
            stamps = [record.timestamp for record in model.records]
            after = 1 if part == 4 else 0
            times[topic] = stamps[(len(stamps) - 1) * part // 4] + after
    found = offsets_for_times(broker.bootstrap, times)
    return [TimeAnswer(topic, asked, found[topic]) for topic, asked in times.items()]


def send_again(
    broker: KafkaBroker, models: Mapping[str, LogModel]
) -> dict[tuple[str, int], Produced]:
    """The last batch of each producer, once more."""
    return {
        (topic, producer.producer_id): _send(broker, topic, producer, producer.first_sequence)
        for topic, model in models.items()
        for producer in model.producers.values()
        if producer.first_sequence is not None and not is_transactional(model, producer)
    }


def send_next(
    broker: KafkaBroker, models: Mapping[str, LogModel], *, skip: int
) -> dict[tuple[str, int], Produced]:
    """A batch that continues each producer's sequence, or skips some sequence numbers."""
    return {
        (topic, producer.producer_id): _send(
            broker, topic, producer, (producer.last_sequence + 1 + skip) & INT32_MAX
        )
        for topic, model in models.items()
        for producer in model.producers.values()
        if producer.last_sequence is not None
    }


def is_transactional(model: LogModel, producer: DumpedProducer) -> bool:
    """A transaction is the coordinator's business too; a raw batch of one is refused."""
    own = [batch for batch in model.batches if batch.producer_id == producer.producer_id]
    return any(batch.is_transactional for batch in own)


def _send(broker: KafkaBroker, topic: str, producer: DumpedProducer, sequence: int) -> Produced:
    assert producer.offset_delta is not None
    records = plain(SystemClock().now_ms(), "sent", producer.offset_delta + 1)
    batch = build_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
    )
    return RawProducer(broker.port).send(topic, batch)
