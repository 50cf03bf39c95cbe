"""What must hold of a cluster at rest: replicas agree, clients heard the truth. Part of sim."""

from collections.abc import Iterator

from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ledgerstone.records.batch import iter_headers
from ledgerstone.replication.partition import Partition
from ledgerstone.sim.decisions import Fate, batches_of, decided_in
from ledgerstone.sim.history.check import check
from ledgerstone.sim.history.operations import (
    ClientHistory,
    LogRead,
    OffsetCommitted,
    OffsetFetched,
    Operation,
    Seen,
    Sent,
    TopicFacts,
    TxnEnded,
)
from ledgerstone.sim.replicas.checks import COMPACTED_INTERNAL
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.replicas.workload import BYSTANDER, SUBJECTS
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition


def check_replicas(
    nodes: list[ClusterNode],
    image: MetadataImage,
    compacted: frozenset[str],
    excused: set[TopicPartition],
) -> None:
    """Equal bytes below the high watermark; on a compacted topic, equal last records, unless power
    loss took what was committed: a replica may have dropped a value for a record that is lost."""
    for topic in image.topics.values():
        for number, state in topic.partitions.items():
            place = TopicPartition(topic.name, number)
            copies = [(each, hosted_on(nodes[each - 1], place)) for each in state.isr]
            first_id, first = copies[0]
            for other_id, other in copies[1:]:
                names = f"{place} on brokers {first_id} and {other_id}"
                if first.log.log_end_offset != other.log.log_end_offset:
                    ends = f"{first.log.log_end_offset} and {other.log.log_end_offset}"
                    raise Violation("ReplicasAgree", f"{names} end at {ends}")
                if topic.name in compacted or topic.name in COMPACTED_INTERNAL:
                    is_same = place in excused or _last_records(first) == _last_records(other)
                    if not is_same:
                        raise Violation("ReplicasAgree", f"{names} differ in the state of keys")
                elif list(_bytes(first)) != list(_bytes(other)):
                    raise Violation("ReplicasAgree", f"{names} differ")


def hosted_on(node: ClusterNode, place: TopicPartition) -> Partition:
    assert node.broker is not None, node.name
    return node.broker.partitions.get(place)


def _bytes(partition: Partition) -> Iterator[bytes]:
    for data in batches_of(partition.log):
        for position, header in iter_headers(data):
            if header.base_offset >= partition.log.high_watermark:
                return
            yield data[position : position + header.size]


def _last_records(partition: Partition) -> dict[bytes, tuple[int, bytes | None]]:
    """Of each key, without those whose last record is a tombstone: it may be gone already."""
    last: dict[bytes, tuple[int, bytes | None]] = {}
    for each in decided_in(partition.log, partition.log.high_watermark).entries:
        if each.fate is Fate.COMMITTED:
            last[each.key] = (each.offset, each.value)
    return {key: found for key, found in last.items() if found[1] is not None}


def read_logs(
    world: World, history: ClientHistory, nodes: list[ClusterNode], image: MetadataImage
) -> None:
    """Every replica's own copy of the topics of clients, as two readers would get it."""
    for topic in image.topics.values():
        if topic.name in COMPACTED_INTERNAL:
            continue
        for number, state in topic.partitions.items():
            place = TopicPartition(topic.name, number)
            for node_id in state.replicas:
                log = hosted_on(nodes[node_id - 1], place).log
                entries = [
                    each
                    for each in decided_in(log, log.high_watermark).entries
                    if topic.name != SUBJECTS or each.key.startswith(BYSTANDER)
                ]
                for is_committed in (False, True):
                    history.add(
                        LogRead(
                            client="end",
                            start_ms=world.now_ms,
                            end_ms=world.now_ms,
                            place=place,
                            start_offset=log.log_start_offset,
                            high_watermark=log.high_watermark,
                            records=tuple(
                                Seen(each.offset, str(each.serial))
                                for each in entries
                                if not is_committed or each.fate is Fate.COMMITTED
                            ),
                            committed=is_committed,
                            replica=node_id,
                        )
                    )


def check_history(
    history: ClientHistory, excused: set[TopicPartition], ledger: str, world: World
) -> None:
    """Without partitions whose last copy lost its power, and what rests on them."""
    topics = {place.topic for place in excused}
    kept = ClientHistory([each for each in history.operations if _counts(each, excused)])
    if topics & {CONSUMER_OFFSETS, TRANSACTION_STATE}:
        world.mark("group offsets were excused")
        kept.operations = [
            each
            for each in kept.operations
            if not isinstance(each, OffsetFetched | OffsetCommitted)
        ]
    if TRANSACTION_STATE in topics:
        world.mark("transactions were excused")
        kept.operations = [
            each
            for each in kept.operations
            if isinstance(each, TopicFacts | TxnEnded) or each.place.topic != ledger
        ]
    # Keys that are erased are in nobody's history.
    kept.operations = [
        each
        for each in kept.operations
        if not isinstance(each, Sent)
        or each.place.topic != SUBJECTS
        or (each.key or "").startswith(BYSTANDER.decode())
    ]
    anomalies = check(kept)
    if anomalies:
        first = anomalies[0]
        name = "".join(word.capitalize() for word in first.kind.split())
        more = f" (and {len(anomalies) - 1} more)" if len(anomalies) > 1 else ""
        raise Violation(name, f"{first.text}{more}")


def _counts(operation: Operation, excused: set[TopicPartition]) -> bool:
    return isinstance(operation, TopicFacts | TxnEnded) or operation.place not in excused
