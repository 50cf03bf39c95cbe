"""Whether deletes of the original may have passed the mirror by. Shell.

Ledgerstone tells for each replica below which offset it has removed tombstones. The mirror asks
*after* it has copied: a tombstone may go between a question and the read. A replica that cannot be
asked, as one that has just died, may have removed a tombstone that was never read; then the copy is
compared with the original once. Of other brokers only `delete.retention.ms` is known.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import EARLIEST, list_offsets
from ledgerstone.pipeline.mirror.notes import DeletesChecked, MirrorNotes
from ledgerstone.spark.progress import published_at_ms
from ledgerstone.spark.tombstones import (
    missed_by_time,
    removed_by_broker,
    tombstone_retention_ms,
)
from ledgerstone.types import TopicPartition


class Suspect(NamedTuple):
    """Deletes of a partition may be missing in its copy."""

    partition: TopicPartition
    first_offset: int  # up to here everything is known to be there
    end_offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.partition} from offset {self.first_offset} on: {self.reason}"


class RemovedDeletes(NamedTuple):
    """What the replicas of one topic say about the tombstones they have removed."""

    partitions: tuple[TopicPartition, ...]
    below: Mapping[TopicPartition, int]
    # Replicas that did not say anything.
    silent: Mapping[TopicPartition, tuple[int, ...]]
    retention_ms: int
    has_api: bool

    @classmethod
    def of(cls, source: Client, topic: str) -> "RemovedDeletes | None":
        """None for a topic that is not compacted."""
        retention_ms = tombstone_retention_ms(source, topic)
        if retention_ms is None:
            return None
        told = removed_by_broker(source, topic)
        replicas = {
            TopicPartition(topic, number): info.replicas
            for number, info in source.topic(topic).partitions.items()
        }
        starts = list_offsets(source, dict.fromkeys(replicas, EARLIEST))
        return cls(
            partitions=tuple(sorted(replicas)),
            # Whatever was cut off at the beginning is gone as well, tombstones included.
            below={
                each: max([starts[each].offset, *(say.get(each, 0) for say in told.values())])
                for each in replicas
            },
            silent={
                each: tuple(node for node in nodes if each not in told.get(node, {}))
                for each, nodes in replicas.items()
            },
            retention_ms=retention_ms,
            has_api=bool(told),
        )


def begin_checks(removals: RemovedDeletes, notes: MirrorNotes) -> None:
    """Before the first record of a partition is read, it has missed nothing."""
    for each in removals.partitions:
        if notes.position(each) is None and notes.checked(each) is None:
            silent = _text(removals.silent[each])
            notes.note_checked(each, DeletesChecked(0, removals.below[each], silent))


def suspects(
    removals: RemovedDeletes, notes: MirrorNotes, source: Client, group: str
) -> list[Suspect]:
    """After a round. Calls nothing done: `settle` does, once repairs are."""
    found = [each for tp in removals.partitions if (each := _suspect(removals, notes, tp))]
    if removals.has_api:
        return found
    at = {
        each: noted.next_offset
        for each in removals.partitions
        if (noted := notes.checked(each)) is not None and noted.next_offset
    }
    away = missed_by_time(
        at, published_at_ms(source, group), removals.retention_ms, source.clock.now_ms()
    )
    known = [each.partition for each in found]
    return found + [
        Suspect(each.partition, each.next_offset, removals.below[each.partition], each.reason)
        for each in away
        if each.partition not in known
    ]


def _suspect(removals: RemovedDeletes, notes: MirrorNotes, tp: TopicPartition) -> Suspect | None:
    position, checked = notes.position(tp), notes.checked(tp)
    if position is None:
        return None
    if checked is None:
        # Copied by a version that did not check.
        checked = DeletesChecked(0, 0)
    below, silent = removals.below[tp], removals.silent[tp]
    if below > checked.next_offset and below > checked.removed_below:
        reason = f"tombstones were removed below offset {below}"
    elif removals.has_api and silent and _text(silent) != checked.without:
        reason = f"replicas {_text(silent)} do not say which tombstones they have removed"
    else:
        return None
    return Suspect(tp, checked.next_offset, max(below, position.next_offset), reason)


def settle(
    removals: RemovedDeletes, notes: MirrorNotes, unsettled: Iterable[TopicPartition]
) -> None:
    """Everything but `unsettled` is in order up to the noted positions."""
    left = set(unsettled)
    for each in removals.partitions:
        position = notes.position(each)
        if position is not None and each not in left:
            checked = DeletesChecked(
                position.next_offset, removals.below[each], _text(removals.silent[each])
            )
            if notes.checked(each) != checked:
                notes.note_checked(each, checked)


def _text(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))
