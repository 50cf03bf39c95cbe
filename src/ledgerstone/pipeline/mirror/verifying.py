"""Compares copies with their originals: folds both to the latest record of each key. Shell."""

from pathlib import Path

from ledgerstone.client.offsets import EARLIEST, list_offsets
from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.connecting import connect_to
from ledgerstone.pipeline.mirror.notes import MirrorNotes
from ledgerstone.pipeline.mirror.rounds import Mirror
from ledgerstone.pipeline.mirror.topics import check_pair
from ledgerstone.state.points import AtOffsets
from ledgerstone.state.rebuild import rebuild
from ledgerstone.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCheck:
    topic: str
    source_keys: int
    target_keys: int
    is_equal: bool


def verify_mirror(mirror: Mirror) -> list[MirrorCheck]:
    """Folds both, the original as far as it was copied. Checksums cover keys and values."""
    checks = []
    with (
        MirrorNotes(Path(mirror.work) / "mirror.sqlite") as notes,
        connect_to(mirror.source, mirror.source_config) as source,
        connect_to(mirror.target, mirror.target_config) as target,
    ):
        for topic, copy in mirror.topics.items():
            check_pair(source, target, notes, topic, copy)
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
