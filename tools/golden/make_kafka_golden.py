"""Writes tests/golden/kafka: partition directories made by a real Apache Kafka broker.

    python tools/golden/make_kafka_golden.py [--cache DIR] [--out DIR] [--keep-work DIR]

Needs Java 17, Maven and the package confluent-kafka. Takes about four minutes. The broker runs on
the loopback only. It is started and cleanly stopped several times, and after each stop the
partition directories of the cases due then are copied, with an expected.json beside them:

    session 1  writes everything, with cleaning held off (min.cleanable.dirty.ratio=1)
    session 2  cleans                      -> `after`
    session 3  writes more, held off again -> `before2`
    session 4  cleans                      -> `after2`, and once more for transactions
    last       a broker of its own, killed with SIGKILL, then started again to recover
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path

# Run as a script, sys.path holds this directory and not its parent, where the package is.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import workloads
from golden.expected import Json, describe_files, describe_partition, write_json
from golden.kafka_broker import KafkaBroker
from golden.kafka_client import (
    BatchWriter,
    SeenPartition,
    create_topics,
    delete_records,
    see_partition,
    set_topic_config,
    topic_config,
)
from golden.kafka_tools import (
    REPOSITORY,
    KafkaJars,
    KafkaToolError,
    default_cache,
    fetch_jars,
    read_partitions,
)

Config = Mapping[str, str]
CLIENT_VERSION = metadata.version("confluent-kafka")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOLD = "1.0"  # the dirty ratio must exceed this, so nothing is ever cleaned
RELEASE = "0.0"
RATIO = "min.cleanable.dirty.ratio"

KEEP_ALL: Config = {"retention.ms": "-1", "file.delete.delay.ms": "100"}


def compacted(delete_retention_ms: int, **more: str) -> Config:
    return {
        "cleanup.policy": "compact",
        RATIO: HOLD,
        "delete.retention.ms": str(delete_retention_ms),
        "internal.segment.bytes": str(workloads.SEGMENT_BYTES),
        "index.interval.bytes": "300",
        "file.delete.delay.ms": "100",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def codec_topics(codec: str) -> dict[str, Config]:
    """A topic compressed by the client and one compressed by the broker."""
    shape = {
        # Rolls by record time, so it has exactly three segments.
        "none": {"segment.ms": str(workloads.HOUR_MS), "index.interval.bytes": "200"},
        "gzip": {"internal.segment.bytes": "1500", "index.interval.bytes": "100"},
        "snappy": {"internal.segment.bytes": "3500", "index.interval.bytes": "300"},
        "lz4": {"internal.segment.bytes": "1800", "index.interval.bytes": "0"},
        "zstd": {"segment.ms": str(workloads.HOUR_MS)},
    }[codec]
    topics: dict[str, Config] = {f"client-{codec}": {**KEEP_ALL, **shape}}
    if codec != "none":
        topics[f"broker-{codec}"] = {**KEEP_ALL, **shape, "compression.type": codec}
    return topics


# Values that need more than one block of the codec (snappy 32 KiB, lz4 64 KiB).
BIG_VALUE_BYTES = {"none": 900, "gzip": 900, "snappy": 40_000, "lz4": 70_000, "zstd": 900}

CASES: dict[str, dict[str, Config]] = {
    **{f"codec-{codec}": codec_topics(codec) for codec in CODECS},
    "log-append-time": {
        "append-time": {
            **KEEP_ALL,
            "message.timestamp.type": "LogAppendTime",
            "internal.segment.bytes": "2000",
            "index.interval.bytes": "150",
        }
    },
    "idempotent": {
        "idempotent": {**KEEP_ALL, "internal.segment.bytes": "1200", "index.interval.bytes": "200"}
    },
    "transactions": {
        "txn": {**KEEP_ALL, "internal.segment.bytes": "1500", "index.interval.bytes": "200"}
    },
    "log-dir": {
        "empty": {**KEEP_ALL},
        "trimmed": {**KEEP_ALL, "internal.segment.bytes": "1500"},
    },
}
ONCE: dict[str, Config] = {
    "compacted": compacted(86_400_000),
    "compacted-append-time": compacted(
        86_400_000, message_timestamp_type="LogAppendTime", compression_type="zstd"
    ),
}
TWICE: dict[str, Config] = {"compacted-twice": compacted(0)}
PAIRS: dict[str, Config] = {
    "cleaner-uncompressed": compacted(0),
    "cleaner-lz4": compacted(workloads.HOUR_MS),
    "cleaner-txn": compacted(0),
}
THREE_ROUNDS = ("cleaner-txn",)
UNCLEAN: dict[str, Config] = {
    "unclean": {
        **KEEP_ALL,
        "internal.segment.bytes": "2000",
        "index.interval.bytes": "200",
        "segment.index.bytes": "1024",
    }
}
ALL_TOPICS: dict[str, Config] = {
    **{topic: config for topics in CASES.values() for topic, config in topics.items()},
    **ONCE,
    **TWICE,
    **PAIRS,
    **UNCLEAN,
}
COMPACTED = (*ONCE, *TWICE, *PAIRS)
LOG_DIR_FILES = (
    "meta.properties",
    "bootstrap.checkpoint",
    ".kafka_cleanshutdown",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)


@dataclass(slots=True, kw_only=True)
class Golden:
    """One making of the golden files: the broker, and where results go."""

    jars: KafkaJars
    broker: KafkaBroker
    out: Path
    # Recent, so that producers are not forgotten; whole seconds, to be easy on the eye.
    recent_ms: int = field(default_factory=lambda: int(time.time() - 600) * 1000)
    seen: dict[str, SeenPartition] = field(default_factory=dict)
    configs: dict[str, Config] = field(default_factory=dict)
    listings: dict[str, Json] = field(default_factory=dict)
    # The passes of the last cleaning session, by partition.
    passes: dict[str, dict[str, Json]] = field(default_factory=dict)
    facts: dict[str, dict[str, Json]] = field(default_factory=dict)

    def writer(self, codec: str = "none", **more: str | int | bool) -> BatchWriter:
        settings = {key.replace("_", "."): value for key, value in more.items()}
        return BatchWriter(self.broker.bootstrap, {"compression.type": codec, **settings})

    def partition(self, topic: str) -> Path:
        return self.broker.data / f"{topic}-0"

    def look(self, topics: Iterable[str]) -> None:
        """What clients see now; the files are compared with it after the stop."""
        for topic in topics:
            self.seen[topic] = see_partition(self.broker.bootstrap, topic)
            effective = topic_config(self.broker.bootstrap, topic)
            asked = ALL_TOPICS[topic]
            self.configs[topic] = {key: effective.get(key, asked[key]) for key in asked}

    def capture(self, target: Path, topics: Collection[str], **more: Json) -> None:
        """Copies partition directories and writes expected.json beside them."""
        target.mkdir(parents=True, exist_ok=True)
        directories = []
        for topic in topics:
            directories.append(target / f"{topic}-0")
            shutil.copytree(self.partition(topic), directories[-1])
        dumps = read_partitions(self.jars, directories)
        partitions = {
            f"{topic}-0": describe_partition(self.seen[topic], dump, directory, self.configs[topic])
            for topic, dump, directory in zip(topics, dumps, directories, strict=True)
        }
        document: dict[str, Json] = {
            "kafkaVersion": self.jars.version,
            "client": f"confluent-kafka {CLIENT_VERSION}",
            **more,
            "partitions": partitions,
        }
        write_json(target / "expected.json", document)

    def list_files(self, moment: str, topic: str) -> None:
        files = describe_files(self.partition(topic))
        self.listings[f"{moment}: {topic}-0"] = files

    def checkpoints(self) -> dict[str, Json]:
        """The text of the checkpoint files of the log directory."""
        return {
            path.name: path.read_text() for path in sorted(self.broker.data.glob("*-checkpoint"))
        }

    # --- sessions ---

    def write_session(self) -> None:
        """Session 1: every topic but the unclean one, cleaning held off."""
        bootstrap = self.broker.bootstrap
        self.broker.start()
        create_topics(bootstrap, {t: c for t, c in ALL_TOPICS.items() if t not in UNCLEAN})
        self._wait_for_directory("trimmed")
        self.list_files("after creation", "trimmed")
        for codec in CODECS:
            for topic in codec_topics(codec):
                client_codec = codec if topic.startswith("client") else "none"
                writer = self.writer(client_codec)
                workloads.write_codec(writer, topic, BIG_VALUE_BYTES[codec])
        plain = self.writer()
        recent = self.recent_ms
        workloads.write_plain(plain, "append-time", 20, workloads.T, seed=2)
        workloads.write_plain(self.writer("lz4"), "append-time", 20, workloads.T, seed=3)
        first, second = self.writer(enable_idempotence=True), self.writer(enable_idempotence=True)
        workloads.write_idempotent(first, second, plain, "idempotent", recent)
        workloads.write_plain(plain, "trimmed", 1, workloads.T, seed=4)
        self.list_files("after first append", "trimmed")
        workloads.write_plain(plain, "trimmed", 19, workloads.T, seed=5)
        self.list_files("after roll", "trimmed")
        delete_records(bootstrap, "trimmed", 20)
        self.write_compacted_topics(0)
        open_writers = workloads.write_transactions(bootstrap, plain, "txn", recent)
        self.look(topic for topic in ALL_TOPICS if topic not in UNCLEAN)
        self.broker.stop()
        del open_writers
        self.list_files("after clean stop", "trimmed")
        self.list_files("after clean stop", "empty")

    def write_compacted_topics(self, round_number: int) -> None:
        plain, lz4 = self.writer(), self.writer("lz4")
        for topic in (*ONCE, *TWICE, "cleaner-uncompressed"):
            if round_number == 0 or topic not in ONCE:
                workloads.write_compacted(plain, topic, round_number, workloads.T)
        workloads.write_compacted(lz4, "cleaner-lz4", round_number, workloads.T)
        workloads.write_compacted_transactions(
            self.broker.bootstrap, plain, "cleaner-txn", round_number, self.recent_ms
        )

    def write_more_session(self, round_number: int) -> None:
        self.broker.start()
        self.write_compacted_topics(round_number)
        self.look(COMPACTED)
        self.broker.stop()

    def clean_session(self, topics: Collection[str]) -> None:
        """Lets the cleaner make exactly one pass over each topic, then holds it off again."""
        bootstrap = self.broker.bootstrap
        self.broker.start()
        wanted = {f"{topic}-0" for topic in topics}
        set_topic_config(bootstrap, topics, RATIO, RELEASE)
        self.broker.wait_until(
            lambda: wanted <= {log for log, _, _ in self.broker.cleaned()}, "cleaning passes"
        )
        set_topic_config(bootstrap, topics, RATIO, HOLD)
        self.broker.wait_until(lambda: not self._deleted_files(), "removal of old segments")
        self.look(topics)
        self.broker.stop()
        cleaned = list(self.broker.cleaned())
        if sorted(log for log, _, _ in cleaned) != sorted(wanted):
            raise KafkaToolError(f"not one pass over each of {sorted(wanted)}: {cleaned}")
        self.passes = {
            log: {"firstDirtyOffset": start, "endOffset": end} for log, start, end in cleaned
        }

    def _deleted_files(self) -> list[Path]:
        return list(self.broker.data.glob("*/*.deleted"))

    def _wait_for_directory(self, topic: str) -> None:
        metadata = self.partition(topic) / "partition.metadata"
        self.broker.wait_until(metadata.exists, f"directory of {topic}")

    # --- results ---

    def capture_log_dir(self) -> None:
        """The files beside the partitions, and the metadata log, once."""
        target = self.out / "log-dir"
        self.capture(target, CASES["log-dir"], listings=self.listings)
        for name in LOG_DIR_FILES:
            shutil.copy2(self.broker.data / name, target / name)
        shutil.copytree(self.broker.data / "__cluster_metadata-0", target / "__cluster_metadata-0")

    def capture_pairs(self, stage: str, topics: Iterable[str]) -> None:
        for topic in topics:
            self.capture(self.out / topic / stage, [topic])
            checkpoint = (self.broker.data / "cleaner-offset-checkpoint").read_text()
            facts: dict[str, Json] = {
                "config": {**self.configs[topic], RATIO: self.ratio_of(stage)},
                "cleanerOffsetCheckpoint": checkpoint,
            }
            if stage.startswith("after"):
                facts["pass"] = self.passes[f"{topic}-0"]
            self.facts.setdefault(topic, {})[stage] = facts
            write_json(self.out / topic / "facts.json", {"stages": self.facts[topic]})

    @staticmethod
    def ratio_of(stage: str) -> str:
        return RELEASE if stage.startswith("after") else HOLD


def make(golden: Golden) -> None:
    golden.broker.format()
    step("writing", golden.write_session)
    for case, topics in CASES.items():
        if case != "log-dir":
            golden.capture(golden.out / case, topics)
    golden.capture_log_dir()
    golden.capture_pairs("before", PAIRS)

    step("cleaning", partial(golden.clean_session, COMPACTED))
    golden.capture(golden.out / "compacted-once", ONCE)
    golden.capture_pairs("after", PAIRS)

    step("writing, round 2", partial(golden.write_more_session, 1))
    golden.capture_pairs("before2", PAIRS)
    step("cleaning, round 2", partial(golden.clean_session, (*TWICE, *PAIRS)))
    golden.capture(golden.out / "compacted-twice", TWICE)
    golden.capture_pairs("after2", PAIRS)

    # A transaction marker needs three passes to go: data seen, horizon set, removed.
    step("writing, round 3", partial(golden.write_more_session, 2))
    golden.capture_pairs("before3", THREE_ROUNDS)
    step("cleaning, round 3", partial(golden.clean_session, (*TWICE, *PAIRS)))
    golden.capture_pairs("after3", THREE_ROUNDS)


def make_unclean(golden: Golden) -> None:
    """A broker killed while its active segment was open, and what its recovery made of it."""
    broker = golden.broker
    broker.format()
    broker.start()
    create_topics(broker.bootstrap, UNCLEAN)
    workloads.write_idempotent(
        golden.writer(enable_idempotence=True),
        golden.writer(enable_idempotence=True),
        golden.writer(),
        "unclean",
        golden.recent_ms,
    )
    workloads.write_plain(golden.writer("lz4"), "unclean", 25, golden.recent_ms, seed=6)
    golden.look(UNCLEAN)
    broker.kill()
    golden.capture(golden.out / "unclean" / "killed", UNCLEAN, checkpoints=golden.checkpoints())
    broker.start()
    golden.look(UNCLEAN)
    broker.stop()
    recovered = golden.out / "unclean" / "recovered"
    golden.capture(recovered, UNCLEAN, checkpoints=golden.checkpoints())


def step(what: str, action: Callable[[], None]) -> None:
    started = time.monotonic()
    action()
    sys.stderr.write(f"{what}: {time.monotonic() - started:.1f} s\n")


def provenance(kafka_version: str) -> str:
    template = Path(__file__).with_name("PROVENANCE.template.md").read_text()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return template.format(kafka=kafka_version, client=CLIENT_VERSION, date=today)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make tests/golden/kafka with a real broker.")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where jars are kept")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "tests" / "golden" / "kafka")
    parser.add_argument("--keep-work", type=Path, help="broker data and output, kept for study")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    jars = fetch_jars(arguments.cache)
    work = arguments.keep_work or Path(tempfile.mkdtemp(prefix="kafka-golden-"))
    work.mkdir(parents=True, exist_ok=True)
    if any(work.iterdir()):
        raise KafkaToolError(f"{work} is not empty")
    fresh = work / "golden"
    brokers = [KafkaBroker(jars=jars, work=work / name) for name in ("broker", "unclean")]
    try:
        make(Golden(jars=jars, broker=brokers[0], out=fresh))
        step("unclean", lambda: make_unclean(Golden(jars=jars, broker=brokers[1], out=fresh)))
    finally:
        for broker in brokers:
            if broker.process is not None:
                broker.kill()
    (fresh / "PROVENANCE.md").write_text(provenance(jars.version))
    # The old files are removed once the new ones are complete.
    shutil.rmtree(arguments.out, ignore_errors=True)
    shutil.copytree(fresh, arguments.out)
    if arguments.keep_work is None:
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
