"""Damage, as people and monitors are shown it, and what acknowledging it does. Grade D."""

from typing import Any

from ledgerstone.dataclasses import asdict
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.server.broker import Broker
from ledgerstone.storage.damage_notes import OFFLINE, READ_ONLY, Note
from ledgerstone.storage.filenames import parse_partition_dir
from ledgerstone.types import TopicPartition

HINT = "`ledgerstone damage` tells more, `ledgerstone damage acknowledge` accepts the loss"


def complaints(broker: Broker) -> list[str]:
    """What /readyz says until somebody has acknowledged it, and while the disk refuses writes."""
    lines = [f"damage {note.partition or '-'}: {note}" for note in broker.log_dirs.open_notes()]
    if lines:
        lines.append(HINT)
    lines += [
        f"{notes.path}: damage is not written down: {notes.failure}"
        for notes in broker.log_dirs.all_notes()
        if notes.failure is not None
    ]
    metadata = broker.quorum.log.log
    if metadata.failure is not None:
        lines.append(f"{metadata.topic_partition}: {metadata.failure}")
    return lines + broker.disk.complaints()


def note_json(note: Note) -> dict[str, Any]:
    return asdict(note)


def partition_named(name: str) -> TopicPartition | None:
    found = parse_partition_dir(name)
    return None if found is None else found.topic_partition


def acknowledge(broker: Broker, name: str) -> int:
    """Somebody knows what was lost: a partition that was offline or read-only opens with what can
    be read of it. `name` is a partition's, or empty for files beside the partitions."""
    told = broker.log_dirs.open_notes(name)
    topic_partition = partition_named(name) if name else None
    if topic_partition is None or not any(note.outcome in (OFFLINE, READ_ONLY) for note in told):
        now_ms = broker.clock.now_ms()
        noting = [each for each in broker.log_dirs.all_notes() if each.open_notes(name)]
        return sum(each.acknowledge(name, now_ms=now_ms) for each in noting)
    partition = broker.partitions.reopen(topic_partition)
    broker.cleaning.hosted(partition)
    broker.following.leadership()
    broker.erasing_on_demand.something_happened()
    broker.appended(topic_partition)
    return len(told)


REFUSALS = (KafkaError, StorageError, OSError)
