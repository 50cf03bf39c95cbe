"""What a scan has looked at, told in few words: digests, and counts by kind and by partition.

Grade P. A node has too many files to name each in a receipt, so all of them are one digest, and the
partitions of the erased topic have one each. Contract: README.md, "Search and scan".
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ledgerstone.erasure.erasure import KindCount, PartitionScan
from ledgerstone.erasure.own_files import is_own
from ledgerstone.storage.filenames import Kind, parse_file_name, parse_partition_dir

if TYPE_CHECKING:
    from ledgerstone.erasure.scan_plan import FileDigest

_KINDS: Final = {
    Kind.LOG: "logs",
    Kind.INDEX: "indexes",
    Kind.TIME_INDEX: "indexes",
    Kind.TXN_INDEX: "indexes",
    Kind.SNAPSHOT: "producer snapshots",
}
_OTHER_OWN: Final = "other files of the broker"
_FOREIGN: Final = "files that are not the broker's"
KIND_NAMES: Final = (*dict.fromkeys(_KINDS.values()), _OTHER_OWN, _FOREIGN)


def digest_of(files: Iterable["FileDigest"]) -> str:
    """SHA-256 over a line for each file, in the order given."""
    digest = hashlib.sha256()
    for each in files:
        line = f"{each.path}\0{each.size_bytes}\0{each.crc32c:08x}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def kinds_of(files: Iterable["FileDigest"]) -> tuple[KindCount, ...]:
    counts = {kind: [0, 0] for kind in KIND_NAMES}
    for each in files:
        name = each.path.rpartition("/")[2]
        parsed = parse_file_name(name)
        kind = _OTHER_OWN if is_own(name) else _FOREIGN
        count = counts[kind if parsed is None else _KINDS[parsed.kind]]
        count[0] += 1
        count[1] += each.size_bytes
    return tuple(KindCount(kind, *count) for kind, count in counts.items() if count[0])


def partitions_of(files: Sequence["FileDigest"]) -> dict[str, tuple[PartitionScan, ...]]:
    """By topic. What is in directories that wait for their end is the partition's too."""
    found: dict[str, dict[int, list[FileDigest]]] = {}
    for each in files:
        parts = each.path.split("/")
        parsed = parse_partition_dir(parts[1]) if len(parts) > 2 else None
        if parsed is not None:
            topic, partition = parsed.topic_partition
            found.setdefault(topic, {}).setdefault(partition, []).append(each)
    return {
        topic: tuple(
            PartitionScan(number, len(own), sum(each.size_bytes for each in own), digest_of(own))
            for number, own in sorted(partitions.items())
        )
        for topic, partitions in found.items()
    }
