"""A real Kafka broker on a log directory of ours: formatted by Kafka, filled by us, run by Kafka.

Kafka creates the topics, so that its metadata knows them, and is stopped. Its log directory is
then replaced by one we wrote, with Kafka's identity and topic ids; only the metadata log stays.
"""

import re
import shutil
import socket
import struct
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from golden.kafka_broker import KafkaBroker
from golden.kafka_client import create_topics
from ledgerstone.storage.checkpoints import PartitionMetadata
from ledgerstone.storage.filenames import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from ledgerstone.storage.log_dir_files import (
    CleanShutdownFile,
    read_meta_properties,
    write_meta_properties,
)
from ledgerstone.system import OsFilesystem
from ledgerstone.types import Buffer
from tests.kit.directories import KINDS, write_directories
from tests.kit.expected_dump import LogModel

METADATA_LOG = "__cluster_metadata-0"
BOOTSTRAP = "bootstrap.checkpoint"
LEADER = re.compile(r"Leader (\S+)-0 with topic id \S+ starts at leader epoch (\d+)")
TOPICS = [kind.name for kind in KINDS]


def create_kinds(broker: KafkaBroker) -> None:
    """Formats, and lets Kafka create a topic for every kind; nothing is deleted or cleaned."""
    held = {"retention.ms": "-1", "min.cleanable.dirty.ratio": "1.0"}
    broker.format()
    broker.start()
    create_topics(broker.bootstrap, {kind.name: {**kind.config, **held} for kind in KINDS})
    wait_for_leaders(broker)
    broker.stop()


def wait_for_leaders(broker: KafkaBroker) -> dict[str, int]:
    """The epoch at which Kafka leads each topic."""

    def leading() -> dict[str, int]:
        return {topic: int(epoch) for topic, epoch in LEADER.findall(broker.log_text())}

    broker.wait_until(lambda: set(TOPICS) <= set(leading()), "leaders")
    return leading()


def replace_log_dir(broker: KafkaBroker, *, now_ms: int) -> dict[str, LogModel]:
    """Puts a log directory of ours in the place of Kafka's."""
    fs = OsFilesystem()
    kafkas, ours = broker.work / "kafkas", broker.data
    ours.rename(kafkas)
    meta = read_meta_properties(fs, str(kafkas / META_PROPERTIES))
    assert meta is not None
    topic_ids = {}
    for topic in TOPICS:
        topic_id = PartitionMetadata(fs, str(kafkas / f"{topic}-0" / PARTITION_METADATA)).read()
        assert topic_id is not None
        topic_ids[topic] = topic_id
    fs.make_dir(str(ours))
    write_meta_properties(fs, str(ours / META_PROPERTIES), meta)
    models = write_directories(
        fs,
        str(ours),
        now_ms=now_ms,
        topic_ids=topic_ids,
        broker_epoch=broker_epoch(kafkas),
    )
    (kafkas / METADATA_LOG).rename(ours / METADATA_LOG)
    shutil.copy(kafkas / BOOTSTRAP, ours / BOOTSTRAP)
    return models


def broker_epoch(log_dir: Path) -> int:
    """What a broker that stopped cleanly wrote down; an election is clean only with it."""
    return CleanShutdownFile(OsFilesystem(), str(log_dir / CLEAN_SHUTDOWN_FILE)).read_broker_epoch()


def forget_clean_stop(log_dir: Path) -> None:
    """As if the machine had died: nothing but the batches is known."""
    (log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    (log_dir / RECOVERY_POINT_CHECKPOINT).unlink()
    for topic in TOPICS:
        for snapshot in (log_dir / f"{topic}-0").glob("*.snapshot"):
            snapshot.unlink()


def lines_about(broker: KafkaBroker, what: str) -> dict[str, list[str]]:
    """Lines of this session that match, by the topic of ours they name."""
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for line in broker.log_text().splitlines():
        if re.search(what, line):
            for topic in TOPICS:
                if re.search(rf"(?<![\w-]){topic}-0\b", line):
                    found[topic].append(line)
    return found


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# -- one produce request, byte by byte ------------------------------------------------------------


class Produced(NamedTuple):
    error_code: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class RawProducer:
    """Sends a batch as it is: no client lets its caller choose producer id and sequence."""

    port: int

    def send(self, topic: str, batch: Buffer) -> Produced:
        name = topic.encode()
        # Produce version 3: no transactional id, acks -1, timeout, one topic with one partition.
        head = struct.pack(">hhi", 0, 3, 1) + struct.pack(">h", -1)
        body = struct.pack(">hhi", -1, -1, 30_000) + struct.pack(">ih", 1, len(name)) + name
        body += struct.pack(">iii", 1, 0, len(batch)) + bytes(batch)
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=30)) as connection:
            connection.sendall(struct.pack(">i", len(head + body)) + head + body)
            with connection.makefile("rb") as answer:
                [size] = struct.unpack(">i", answer.read(4))
                reply = answer.read(size)
        # Correlation id, one topic and its name, one partition: index, error, base offset, time.
        at = 4 + 4 + 2 + len(name) + 4 + 4
        return Produced(*struct.unpack_from(">hq", reply, at))
