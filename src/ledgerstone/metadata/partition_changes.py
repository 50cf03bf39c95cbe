"""What happens to partitions when something happens to a broker or to a setting. Pure.

Each event names the partitions it touches (through the index) and what they should become; who
leads then, and which epochs rise, is decided in one place, `change_record`. The records about the
broker itself are the caller's: README.md says which come first.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ledgerstone.metadata.change_record import PartitionTarget
from ledgerstone.metadata.elections import elect_unclean_leaders
from ledgerstone.metadata.image import ResourceType
from ledgerstone.metadata.partition_index import Key
from ledgerstone.metadata.partitions import MIN_ISR, UNCLEAN_ELECTION, Partitions
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord

_EVERY_TOPIC: Final = ""


def changes_for_fenced(partitions: Partitions, broker_id: int) -> list[MetadataRecord]:
    """Out of every ISR, and leading nothing. Below min.insync.replicas it becomes eligible."""
    return changes_without(partitions, broker_id, partitions.in_isr(broker_id))


def changes_for_controlled_shutdown(partitions: Partitions, broker_id: int) -> list[MetadataRecord]:
    """As fenced. A partition that no other broker can lead becomes leaderless."""
    return changes_without(partitions, broker_id, partitions.in_isr(broker_id))


def changes_for_unfenced(partitions: Partitions, broker_id: int) -> list[MetadataRecord]:
    """Elections for every partition without a leader, the broker counting as active."""
    return _changes(
        partitions.change(key, PartitionTarget(), including=broker_id)
        for key in sorted(partitions.index.leaderless)
    )


def changes_for_new_incarnation(
    partitions: Partitions, broker_id: int, *, stopped_cleanly: bool
) -> list[MetadataRecord]:
    """Before the new registration. A process that did not stop cleanly may have lost the end of its
    logs, so where eligible leader replicas are kept it is none any more."""
    if stopped_cleanly or not partitions.elr:
        return changes_without(partitions, broker_id, partitions.in_isr(broker_id))
    return _lost(partitions, broker_id)


def changes_for_unregistered(partitions: Partitions, broker_id: int) -> list[MetadataRecord]:
    """Out of every ISR and ELR. Replica lists keep the id: it may register again."""
    return _lost(partitions, broker_id)


def changes_for_offline_directories(
    partitions: Partitions, broker_id: int, directories: Iterable[bytes]
) -> list[MetadataRecord]:
    """Only the partitions in those directories leave the broker."""
    by_directory = partitions.index.by_directory
    keys = {key for each in directories for key in by_directory.get(each, ())}
    return changes_without(partitions, broker_id, sorted(keys))


def affects_leaders(changed: Iterable[ConfigRecord]) -> bool:
    """Whether one of these settings says who may lead a partition."""
    return any(record.name in (MIN_ISR, UNCLEAN_ELECTION) for record in changed)


def changes_for_configs(
    after: Partitions, changed: Sequence[ConfigRecord], leaderless: Iterable[Key]
) -> list[MetadataRecord]:
    """`after` has the changed settings. Eligible replicas were collected by min.insync.replicas:
    under another one they say nothing. A topic that allows unclean elections from now on does not
    wait for the next pass."""
    allowed = {_topic_of(each) for each in changed if each.name == UNCLEAN_ELECTION}
    keys = [key for key in leaderless if key[0] in allowed or _EVERY_TOPIC in allowed]
    records = elect_unclean_leaders(after, keys).records
    if after.elr:
        cleared = dict.fromkeys(_topic_of(each) for each in changed if each.name == MIN_ISR)
        records += [ClearElrRecord(topic_name=name) for name in cleared]
    return records


def _topic_of(record: ConfigRecord) -> str:
    is_topic = record.resource_type == ResourceType.TOPIC
    return record.resource_name if is_topic else _EVERY_TOPIC


def changes_without(
    partitions: Partitions, broker_id: int, keys: Iterable[Key]
) -> list[MetadataRecord]:
    return _changes(
        partitions.change(
            key, PartitionTarget(isr=_isr_without(partitions, key, broker_id)), without=broker_id
        )
        for key in keys
    )


def _lost(partitions: Partitions, broker_id: int) -> list[MetadataRecord]:
    keys = [*partitions.in_isr(broker_id), *partitions.in_elr(broker_id)]
    return _changes(
        partitions.change(
            key,
            PartitionTarget(isr=_isr_without(partitions, key, broker_id), lost=broker_id),
            without=broker_id,
        )
        for key in keys
    )


def _isr_without(partitions: Partitions, key: Key, broker_id: int) -> list[int]:
    return [each for each in partitions[key].isr if each != broker_id]


def _changes(changes: Iterable[MetadataRecord | None]) -> list[MetadataRecord]:
    return [change for change in changes if change is not None]
