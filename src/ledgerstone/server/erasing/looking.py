"""Searches and scans of this broker's own files, for its own erasures and for other brokers'.

Grade D. What is told of a scan says which life of the broker made it, on which disks, and what it
hosted then; all of that is noted before the scan begins.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ledgerstone.dataclasses import replace
from ledgerstone.erasure.erasure import HostedAt, ReplicaScan, ScanProof
from ledgerstone.erasure.host_messages import ReplicaEnd, ScanOrder, SearchWord
from ledgerstone.erasure.scan_plan import (
    SHOWN_PARTITIONS,
    KeyPrints,
    ResiduePlan,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.errors import InvalidRequest
from ledgerstone.metadata.image import TopicImage
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult, files_of
from ledgerstone.server.erasing.work import ErasingWork
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

OnSearched = Callable[[SearchWord | ScanFailed], None]
OnScanned = Callable[[list[ReplicaScan] | ScanFailed], None]


def topic_of(work: ErasingWork, topic: str, topic_id: str) -> TopicImage:
    """As both sides know it. InvalidRequest where this broker knows another, or none yet."""
    image = work.image().topics.get(topic)
    if image is None or uuid_to_text(image.topic_id) != topic_id:
        raise InvalidRequest(f"topic {topic} with id {topic_id} is not known here")
    return image


def search_here(
    work: ErasingWork,
    topic: str,
    numbers: Sequence[int],
    keys: KeyPrints,
    max_places: int,
    on_end: OnSearched,
) -> None:
    """Partitions that are hosted here, each as far as it reaches now."""
    wanted = {*numbers}
    files = tuple(
        each
        for each in files_of(work.image(), work.partitions, topic)
        if each.topic_partition.partition in wanted
    )
    ends = []
    for each in files:
        partition = work.partitions.get(each.topic_partition)
        log = partition.log
        ends.append(
            ReplicaEnd(
                partition.topic_partition.partition,
                log.log_end_offset,
                log.high_watermark,
                partition.is_leader,
                partition.leader_epoch,
            )
        )
    plan = SearchPlan(
        partitions=files,
        keys=keys,
        max_places=max_places,
        bytes_per_second=work.cleaning.settings.bytes_per_second,
    )

    def ended(result: ScanResult) -> None:
        if isinstance(result, SearchReport):
            on_end(SearchWord(tuple(ends), result))
        else:
            on_end(result if isinstance(result, ScanFailed) else ScanFailed("it was no search"))

    work.scans.start(plan, ended)


def scan_here(
    work: ErasingWork, orders: Sequence[ScanOrder], keys: KeyPrints, on_end: OnScanned
) -> None:
    """Every file of every log directory. One scan for each order, in their order."""
    topics = tuple(dict.fromkeys(each.topic for each in orders))
    standing = {each: _standing(work, each) for each in topics}
    plan = ResiduePlan(
        log_dirs=tuple(each.path for each in work.log_dirs.everything),
        keys=keys,
        topics=topics,
        replicas=tuple(each.log.directory for logs in standing.values() for each in logs.values()),
        bytes_per_second=work.cleaning.settings.bytes_per_second,
    )
    proofs = {each: proof_of(work, each.topic, each.topic_id) for each in orders}
    offline = ", ".join(each.path for each in work.log_dirs.offline)

    def ended(result: ScanResult) -> None:
        if not isinstance(result, ScanReport):
            failed = result if isinstance(result, ScanFailed) else ScanFailed("it was no scan")
            on_end(failed)
            return
        scans = []
        for index, order in enumerate(orders):
            scan = result.of_replica(
                index, topic=order.topic, node_id=work.config.node_id, started_ms=0, ended_ms=0
            )
            trouble = scan.trouble or _unsure(work, order.topic, scan, standing[order.topic])
            if offline:
                trouble = f"log directories are offline: {offline}"
            scans.append(
                replace(
                    scan,
                    trouble=trouble,
                    has_namesake=_has_namesake(order, scan, standing[order.topic]),
                    without_tombstone=_without_tombstone(order, scan, standing[order.topic]),
                    proof=proofs[order],
                )
            )
        on_end(scans)

    work.scans.start(plan, ended)


class _Standing(NamedTuple):
    """A log when the scan began."""

    log: PartitionLog
    topic_id: bytes
    truncations: int
    has_cut_off: bool


def _standing(work: ErasingWork, topic: str) -> dict[int, _Standing]:
    image = work.image().topics.get(topic)
    numbers = () if image is None else sorted(image.partitions)
    hosted = ((each, work.partitions.find(TopicPartition(topic, each))) for each in numbers)
    return {
        number: _Standing(
            each.log, each.topic_id, each.log.truncations, each.log.deleted_files.has_cut_off
        )
        for number, each in hosted
        if each is not None
    }


def _unsure(
    work: ErasingWork, topic: str, scan: ReplicaScan, standing: Mapping[int, _Standing]
) -> str | None:
    """Why the offset of a record does not say that it came after the tombstone. One above the high
    watermark may be of a leader that was replaced, and go. One that was cut off has gone already,
    and its offset was given again; its file may wait to be unlinked, or was read before."""
    for span in (each for each in scan.records if each.topic == topic):
        tp = TopicPartition(topic, span.partition)
        hosted, before = work.partitions.find(tp), standing.get(span.partition)
        if hosted is None or before is None or span.last_offset >= hosted.log.high_watermark:
            return f"offset {span.last_offset} of {tp} is not committed here"
        log = hosted.log
        if before.has_cut_off or log is not before.log or log.truncations != before.truncations:
            return f"{tp} was cut, and what was cut off may be among what the scan has read"
    return None


def _has_namesake(order: ScanOrder, scan: ReplicaScan, standing: Mapping[int, _Standing]) -> bool:
    found = (standing.get(each.partition) for each in scan.records if each.topic == order.topic)
    return any(each is not None and uuid_to_text(each.topic_id) != order.topic_id for each in found)


def _without_tombstone(
    order: ScanOrder, scan: ReplicaScan, standing: Mapping[int, _Standing]
) -> tuple[int, ...]:
    """Partitions with records of the key whose log has a newer leader's records in the place of the
    tombstone, as after an unclean election. Records behind that place may be older than it."""
    found = {each.partition for each in scan.records if each.topic == order.topic}
    lost = []
    for place in order.tombstones:
        hosted = standing.get(place.partition)
        if place.partition not in found or hosted is None:
            continue
        # Of an older leader it is where the list of epochs had to be made anew from a log whose
        # tombstone was removed already.
        epoch = hosted.log.epochs.epoch_for_offset(place.offset)
        if epoch is not None and epoch > place.leader_epoch >= 0:
            lost.append(place.partition)
    return tuple(lost)


def proof_of(work: ErasingWork, topic: str, topic_id: str) -> ScanProof:
    """What is hosted under this very id: a topic that was deleted, and perhaps made anew, is hosted
    by a broker that has not heard of it."""
    incarnation_id, broker_epoch = work.others.identity
    hosted = []
    image = work.image().topics.get(topic)
    for number in () if image is None else sorted(image.partitions):
        partition = work.partitions.find(TopicPartition(topic, number))
        if partition is not None and uuid_to_text(partition.topic_id) == topic_id:
            log = partition.log
            hosted.append(
                HostedAt(
                    number,
                    partition.partition_epoch,
                    partition.leader_epoch,
                    log.log_start_offset,
                    log.log_end_offset,
                )
            )
    return ScanProof(
        uuid_to_text(incarnation_id),
        broker_epoch,
        tuple(sorted(uuid_to_text(each) for each in work.log_dirs.online_ids)),
        tuple(hosted[:SHOWN_PARTITIONS]),
        len(hosted),
    )
