"""The decision about a micro-batch: which transactions of its tasks count. Pure.

It is kept as the committed offset of a group, so a broker is all that is needed to remember it. The
offset is the number of the next batch, the metadata lists the transactions. Metadata is limited to
4,096 characters, so a long list goes on in further groups. docs/adr/0009.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.txn_session import Prepared
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.spark.errors import WriteFailed
from ledgerstone.types import TopicPartition

# Below the default of offset.metadata.max.bytes.
_MAX_METADATA: Final = 4_000
_NO_BATCH: Final = -1


# A partition that every cluster with groups has. The offsets noted for it are batch numbers.
ANY_PARTITION: Final = TopicPartition("__consumer_offsets", 0)


class WriteId(NamedTuple):
    """The same for every attempt of a task, and for no other task."""

    query_id: str
    batch_id: int
    partition_id: int

    @property
    def group_id(self) -> str:
        """Keeps what the task has written: a note, or in exactly-once the last batch."""
        return f"ledgerstone-sink-{self.query_id}-{self.partition_id}"

    @property
    def transactional_id(self) -> str:
        return transactional_id(self.query_id, self.partition_id)


def transactional_id(query_id: str, partition_id: int) -> str:
    return f"ledgerstone-{query_id}-{partition_id}"


def deciding_id(query_id: str) -> str:
    """The transactional id of the driver: a newer driver fences an older one."""
    return f"ledgerstone-{query_id}-driver"


def decision_group(query_id: str, part: int = 0) -> str:
    return f"ledgerstone-sink-{query_id}" + (f".{part}" if part else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDecision:
    """`prepared` has the transaction of each task that wrote something."""

    batch_id: int = _NO_BATCH
    prepared: Mapping[int, Prepared] = field(default_factory=dict)


def encoded(decision: BatchDecision) -> list[CommittedOffset]:
    """One for each group. Each part has the batch, the first also how many parts there are."""
    entries = [
        f"{partition_id}:{each.producer_id}:{each.producer_epoch}"
        for partition_id, each in sorted(decision.prepared.items())
    ]
    parts = list(_packed(entries)) or [""]
    return [
        CommittedOffset(
            decision.batch_id + 1, metadata=f"{len(parts)} {part}" if number == 0 else part
        )
        for number, part in enumerate(parts)
    ]


def _packed(entries: Iterable[str]) -> Iterable[str]:
    part = ""
    for entry in entries:
        if part and len(part) + 1 + len(entry) > _MAX_METADATA - 10:
            yield part
            part = ""
        part = f"{part},{entry}" if part else entry
    if part:
        yield part


def count_of_parts(first: CommittedOffset) -> int:
    return int((first.metadata or "1").partition(" ")[0])


def decoded(query_id: str, parts: list[CommittedOffset]) -> BatchDecision:
    """From the parts of all groups."""
    if len({each.offset for each in parts}) != 1:
        offsets = [each.offset for each in parts]
        raise WriteFailed(f"query {query_id}: its decision is of several batches: {offsets}")
    texts = [each.metadata or "" for each in parts]
    texts[0] = texts[0].partition(" ")[2]
    prepared = {}
    for entry in ",".join(texts).split(","):
        if entry:
            partition_id, producer_id, epoch = map(int, entry.split(":"))
            name = transactional_id(query_id, partition_id)
            prepared[partition_id] = Prepared(name, producer_id, epoch)
    return BatchDecision(batch_id=parts[0].offset - 1, prepared=prepared)
