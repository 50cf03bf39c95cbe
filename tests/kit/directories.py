"""Partition directories of every kind our storage code leaves, in one log directory, each with the
model of what was written to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledgerstone.fs import Filesystem
from ledgerstone.records.batch import Codec
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.types import TopicPartition
from tests.kit import stories
from tests.kit.expected_dump import LogModel
from tests.kit.logs import unlink_due
from tests.kit.scribe import Scribe


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A topic with Kafka's names and text values for its configuration, and what happens to it."""

    name: str
    config: Mapping[str, str]
    story: stories.Story

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.name, 0)

    @property
    def log_config(self) -> LogConfig:
        own = dict(self.config)
        if "internal.segment.bytes" in own:
            # Kafka allows less than a megabyte under this name only.
            own["segment.bytes"] = own.pop("internal.segment.bytes")
        return LogConfig.from_topic(own)


def _kind(name: str, story: stories.Story, **config: str) -> Kind:
    own = {key.replace("_", "."): value for key, value in config.items()}
    small = {"internal.segment.bytes": "900", "index.interval.bytes": "200"}
    return Kind(name=name, config={**small, **own}, story=story)


def _codec_kinds() -> Iterator[Kind]:
    """Each codec as a producer sends it, as a topic asks for it, and as a cleaning rebuilds it."""
    large = {"internal_segment_bytes": "100000", "index_interval_bytes": "500"}
    compact = {**large, "index_interval_bytes": "100", "cleanup_policy": "compact"}
    for codec in Codec:
        name = codec.config_name
        yield _kind(f"produced-{name}", stories.write_odd_records(codec), **large)
        yield _kind(f"rebuilt-{name}", stories.write_in_every_codec, compression_type=name, **ROOMY)
        for passes in range(3):
            story = stories.compact(codec, passes=passes)
            yield _kind(f"compacted-{name}-{passes}", story, **compact)


# A batch of odd records needs the room.
ROOMY = {"internal_segment_bytes": "3000"}

KINDS: Sequence[Kind] = (
    *_codec_kinds(),
    _kind(
        "append-time",
        stories.write_in_every_codec,
        message_timestamp_type="LogAppendTime",
        **ROOMY,
    ),
    _kind("no-time", stories.write_without_timestamps, **ROOMY),
    _kind("idempotent", stories.write_idempotently),
    _kind("transactions", stories.write_transactions),
    _kind("epochs", stories.change_leaders),
    _kind("cut", stories.cut_inside_a_batch),
    _kind("recovered", stories.die_and_recover, **ROOMY),
    _kind("reopened", stories.stop_and_go_on),
    _kind("trimmed", stories.delete_the_oldest),
    _kind("followed", stories.follow_a_leader),
    _kind("empty", stories.leave_empty),
    # Rolls by a full time index: it has four slots, and one stays free for the last entry.
    _kind(
        "full-index",
        stories.write_many,
        segment_index_bytes="48",
        index_interval_bytes="0",
        internal_segment_bytes="100000",
    ),
    _kind(
        "preallocated", stories.write_many, preallocate="true", index_interval_bytes="0", **ROOMY
    ),
    *(_kind(f"random-{seed}", stories.live_at_random(seed), **ROOMY) for seed in range(6)),
    *(
        _kind(
            f"random-compacted-{seed}",
            stories.live_at_random(seed, compacted=True),
            cleanup_policy="compact",
            **ROOMY,
        )
        for seed in range(6)
    ),
)


def write_directories(
    fs: Filesystem,
    path: str,
    *,
    now_ms: int,
    topic_ids: Mapping[str, bytes] | None = None,
    broker_epoch: int = -1,
) -> dict[str, LogModel]:
    """Writes every kind into the log directory at `path` and stops cleanly; the models by topic."""
    clock = VirtualClock(start_ms=now_ms)
    log_dir = open_log_dir(fs, clock, SeededDice(0), path)
    models = {}
    for kind in KINDS:
        topic_id = None if topic_ids is None else topic_ids[kind.name]
        log_dir.create(kind.topic_partition, kind.log_config, topic_id=topic_id)
        scribe = Scribe(log_dir, clock, kind.topic_partition)
        kind.story(scribe)
        scribe.log.check_invariants()
        models[kind.name] = scribe.model
    clock.advance(minutes=5)
    while unlink_due(log_dir):
        pass
    log_dir.close(broker_epoch=broker_epoch)
    for model in models.values():
        model.close()
    return models
