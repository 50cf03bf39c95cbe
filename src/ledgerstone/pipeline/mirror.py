"""Copies topics from one cluster to another: data, tombstones, settings, group offsets. Shell.

A round copies the available records, one Spark task per partition, and records its positions;
repeated rounds follow the source. Keys stay in their partitions. `verify` folds both topics and
compares the latest record of each key.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledgerstone.client.admin import NewTopic, add_partitions, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import (
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from ledgerstone.client.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import UnknownTopicOrPartition
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.mirror_notes import MirrorNotes, Noted, Pair
from ledgerstone.pipeline.mirror_offsets import translate
from ledgerstone.spark.errors import said_recreated
from ledgerstone.state.points import AtOffsets
from ledgerstone.state.rebuild import rebuild
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledgerstone.pipeline.mirror_copy import Copied, CopyTask

_READ_COMMITTED: Final = 1
_UNKNOWN: Final = uuid_to_text(ZERO_UUID)  # of brokers that give topics no ids
_ANEW: Final = "start over with another work directory, and another or an empty copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    source: str  # bootstrap
    target: str
    topics: Mapping[str, str]  # of the original to that of the copy
    work: str
    group: str = "ledgerstone-mirror"  # is told at the source how far the copy is
    groups: Sequence[str] = ()  # whose places are translated
    max_offsets: int = 1_000_000  # of a partition in a round
    compression: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCheck:
    topic: str
    source_keys: int
    target_keys: int
    is_equal: bool


def mirror_round(spark: "SparkSession", mirror: Mirror) -> "list[Copied]":
    """Copies the available records; an empty list means that there was nothing new."""
    from ledgerstone.pipeline.mirror_copy import CopyTask

    with (
        MirrorNotes(Path(mirror.work) / "mirror.sqlite") as notes,
        connect_to(mirror.source) as source,
        connect_to(mirror.target) as target,
    ):
        for topic, copy in mirror.topics.items():
            _check_pair(source, target, notes, topic, copy)
            prepare_topic(source, target, topic, copy)
            notes.note_pair(topic, _pair(source, target, topic, copy))
        tasks = []
        for partition, start, end in _ranges(source, mirror, notes):
            noted = notes.position(partition)
            tasks.append(
                CopyTask(
                    source=mirror.source,
                    target=mirror.target,
                    partition=partition,
                    target_topic=mirror.topics[partition.topic],
                    start_offset=start,
                    end_offset=end,
                    target_next=0 if noted is None else noted.target_next,
                    topic_id=_source_id(notes, partition.topic),
                    compression=mirror.compression,
                )
            )
        copied = _run(spark, tasks) if tasks else []
        for each in copied:
            notes.note(each.partition, Noted(each.next_offset, each.target_next), each.runs)
        if copied:
            offsets = {each.partition: CommittedOffset(each.next_offset) for each in copied}
            commit_offsets(source, mirror.group, offsets)
        _translate_groups(source, target, mirror, notes)
    return copied


def _check_pair(source: Client, target: Client, notes: MirrorNotes, topic: str, copy: str) -> None:
    """Checks that neither the original nor the copy was deleted and created again."""
    before = notes.pair(topic)
    if before is None or not notes.has_positions(topic):
        return
    try:
        now = _pair(source, target, topic, copy)
    except UnknownTopicOrPartition as error:
        raise PipelineError(f"{error}, and it was mirrored; {_ANEW}") from error
    if before.copy != now.copy:
        raise PipelineError(f"{topic} was mirrored to {before.copy}, not to {copy}; {_ANEW}")
    ids = ((topic, before.source_id, now.source_id), (copy, before.copy_id, now.copy_id))
    for name, was, is_now in ids:
        if was != is_now and _UNKNOWN not in (was, is_now):
            raise PipelineError(f"{said_recreated(name, was, is_now)}; {_ANEW}")


def _pair(source: Client, target: Client, topic: str, copy: str) -> Pair:
    ids = [uuid_to_text(each.topic_id) for each in (source.topic(topic), target.topic(copy))]
    return Pair(ids[0], copy, ids[1])


def _source_id(notes: MirrorNotes, topic: str) -> str | None:
    """As recorded when the round began."""
    pair = notes.pair(topic)
    return None if pair is None or pair.source_id == _UNKNOWN else pair.source_id


def prepare_topic(source: Client, target: Client, topic: str, copy: str) -> None:
    """Gives the copy the partitions and explicit settings of the original."""
    count = len(source.topic(topic).partitions)
    settings = {
        each.name: each.value
        for each in describe_configs(source, Resource(ResourceType.TOPIC, topic))
        if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and each.value is not None
    }
    try:
        existing = len(target.topic(copy).partitions)
    except UnknownTopicOrPartition:
        create_topic(target, NewTopic(name=copy, partitions=count, configs=settings))
        return
    if existing > count:
        raise PipelineError(f"{copy} has {existing} partitions and {topic} has {count}")
    if existing < count:
        add_partitions(target, copy, count)
    resource = Resource(ResourceType.TOPIC, copy)
    present = {
        each.name: each.value
        for each in describe_configs(target, resource)
        if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }
    changes: dict[str, str | None] = {
        name: value for name, value in settings.items() if present.get(name) != value
    }
    changes |= dict.fromkeys(name for name in present if name not in settings)
    if changes:
        alter_configs(target, resource, changes)


def _ranges(
    source: Client, mirror: Mirror, notes: MirrorNotes
) -> Iterator[tuple[TopicPartition, int, int]]:
    for topic in mirror.topics:
        partitions = [TopicPartition(topic, n) for n in sorted(source.topic(topic).partitions)]
        starts = list_offsets(source, dict.fromkeys(partitions, EARLIEST))
        ends = list_offsets(
            source, dict.fromkeys(partitions, LATEST), isolation_level=_READ_COMMITTED
        )
        for each in partitions:
            noted = notes.position(each)
            if noted is not None and ends[each].offset < noted.next_offset:
                raise PipelineError(
                    f"{each} ends at {ends[each].offset} and was copied up to {noted.next_offset}: "
                    f"the log was truncated; {_ANEW}"
                )
            start = max(0 if noted is None else noted.next_offset, starts[each].offset)
            end = min(ends[each].offset, start + mirror.max_offsets)
            if start < end:
                yield each, start, end


def _translate_groups(source: Client, target: Client, mirror: Mirror, notes: MirrorNotes) -> None:
    """Forward only: a group that already reads the copy is not moved back."""
    for group in mirror.groups:
        present = committed_offsets(target, group)
        places = {}
        for partition, committed in committed_offsets(source, group).items():
            if partition.topic not in mirror.topics:
                continue
            place = translate(notes.runs(partition), committed.offset)
            copy = TopicPartition(mirror.topics[partition.topic], partition.partition)
            known = present.get(copy)
            if place is not None and (known is None or known.offset < place):
                places[copy] = CommittedOffset(place, metadata=committed.metadata)
        if places:
            commit_offsets(target, group, places)


def verify_mirror(mirror: Mirror) -> list[MirrorCheck]:
    """Folds both, the original as far as it was copied. Checksums cover keys and values."""
    checks = []
    with (
        MirrorNotes(Path(mirror.work) / "mirror.sqlite") as notes,
        connect_to(mirror.source) as source,
        connect_to(mirror.target) as target,
    ):
        for topic, copy in mirror.topics.items():
            _check_pair(source, target, notes, topic, copy)
            partitions = [TopicPartition(topic, n) for n in source.topic(topic).partitions]
            starts = list_offsets(source, dict.fromkeys(partitions, EARLIEST))
            ends = {
                each.partition: noted.next_offset if (noted := notes.position(each)) else 0
                for each in partitions
            }
            upto = {n: max(ends[n], starts[TopicPartition(topic, n)].offset) for n in ends}
            original = rebuild(source, topic, at=AtOffsets(upto))
            mirrored = rebuild(target, copy)
            keys = [each.totals().live_keys for each in (original, mirrored)]
            checks.append(
                MirrorCheck(
                    topic=topic,
                    source_keys=keys[0],
                    target_keys=keys[1],
                    is_equal=original.checksum == mirrored.checksum and keys[0] == keys[1],
                )
            )
    return checks


def _run(spark: "SparkSession", tasks: "Sequence[CopyTask]") -> "list[Copied]":
    from ledgerstone.pipeline.mirror_copy import copy_partition

    return spark.sparkContext.parallelize(tasks, len(tasks)).map(copy_partition).collect()
