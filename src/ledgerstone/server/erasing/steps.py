"""How the steps of erasures are taken: searches, tombstones, passes, scans. Grade D.

Each may be taken twice without harm (erasure/README.md, rule 3). What takes time leaves as an
effect and comes back through `Erasing`; tombstones are on disk before the journal says so.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.client.partitioner import partition_of
from ledgerstone.erasure import changes
from ledgerstone.erasure.audit_headers import ID_HEADER, headers_of
from ledgerstone.erasure.erasure import (
    AskedAbort,
    Erasure,
    PartitionEnd,
    ReplicaScan,
    SearchedFiles,
    Tombstone,
)
from ledgerstone.erasure.facts import SearchOutcome
from ledgerstone.erasure.life import REST_MS
from ledgerstone.erasure.scan_plan import (
    DEFAULT_MAX_PLACES,
    KeyPrints,
    ResiduePlan,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.erasure.steps import (
    AbortOpen,
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    Nothing,
    ScanStep,
    Search,
    Step,
    WaitStep,
    WriteTombstones,
)
from ledgerstone.errors import CorruptRecord, KafkaError, MessageTooLarge, StorageError
from ledgerstone.records.builder import RecordHeaders, build_batch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.server.erasing.facts import Look
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult, files_of
from ledgerstone.server.erasing.work import ErasingWork
from ledgerstone.storage.filenames import parse_file_name
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSED: Final = (OSError, StorageError, KafkaError)


def what_for(step: Step) -> tuple[str | None, int | None]:
    """What an erasure waits for while a step is being taken, and until when."""
    match step:
        case WaitStep():
            return step.because, step.until_ms
        case AskVerifiers():
            return f"evidence of {', '.join(step.names)} is awaited", step.until_ms
        case Ask():
            return "a pass is asked for", None
        case AbortOpen():
            return "an open transaction is being aborted", None
        case Search() | WriteTombstones() | ScanStep() | Issue() | Advance() | Nothing():
            return None, None


# -- the search -----------------------------------------------------------------------------------


class _Started(NamedTuple):
    """A search that is under way, and how far its partitions reached when it began."""

    topic: str
    ends: tuple[PartitionEnd, ...]
    at_ms: int


def search(work: ErasingWork, topic: str, ids: Sequence[str]) -> None:
    erasures = [work.journal.get(each) for each in ids]
    secrets = work.secrets
    assert secrets is not None, "erasures without secrets"
    files = files_of(work.image(), work.partitions, topic)
    ends = tuple(
        PartitionEnd(log.topic_partition.partition, log.log_end_offset)
        for each in files
        if (log := work.log_dirs.log(each.topic_partition)) is not None
    )
    plan = SearchPlan(
        partitions=files,
        keys=KeyPrints.under(secrets.print_key, [each.key_print for each in erasures]),
        max_places=max(DEFAULT_MAX_PLACES, 8 * len(ids)),
        bytes_per_second=work.cleaning.settings.bytes_per_second,
    )
    for each in ids:
        work.in_flight[each] = f"a search of {topic} is under way"
    work.searching[topic] = None
    started = _Started(topic, ends, work.clock.now_ms())
    work.scans.start(plan, lambda result: _searched(work, started, ids, result))


def _searched(
    work: ErasingWork,
    started: _Started,
    ids: Sequence[str],
    result: ScanResult,
) -> None:
    work.searching.pop(started.topic, None)
    work.look_now()
    for index, erasure_id in enumerate(ids):
        work.in_flight.pop(erasure_id, None)
        erasure = work.journal.book.get(erasure_id)
        # It may have been cancelled meanwhile.
        if erasure is not None and erasure.sealed_key is not None:
            now_ms = work.clock.now_ms()
            work.searches[erasure_id] = _outcome(work, erasure, index, started, result, now_ms)


def _outcome(
    work: ErasingWork,
    erasure: Erasure,
    index: int,
    started: _Started,
    result: ScanResult,
    now_ms: int,
) -> SearchOutcome:
    ends = started.ends
    if not isinstance(result, SearchReport):
        reason = result.reason if isinstance(result, ScanFailed) else "it was no search"
        return SearchOutcome(home_partition=0, ends=ends, ended_ms=now_ms, trouble=reason)
    try:
        key = _unsealed(work, erasure)
    except CorruptRecord as error:
        return SearchOutcome(home_partition=0, ends=ends, ended_ms=now_ms, trouble=str(error))
    own = [
        Tombstone(place.partition, place.offset, place.timestamp_ms)
        for place in result.places
        if place.print_index == index and place.erasure_id == erasure.id and _is_live(place.file)
    ]
    return SearchOutcome(
        home_partition=partition_of(key, len(ends)),
        ends=ends,
        found=result.spans_of(index),
        own_tombstones=tuple(own),
        ended_ms=now_ms,
        looked_at=SearchedFiles(
            records=sum(span.records for span in result.spans_of(index)),
            files=result.files,
            scanned_bytes=result.scanned_bytes,
            started_ms=started.at_ms,
            ended_ms=now_ms,
        ),
        trouble=result.trouble,
    )


def _is_live(file: str) -> bool:
    parsed = parse_file_name(file)
    return parsed is not None and not parsed.suffix


def _unsealed(work: ErasingWork, erasure: Erasure) -> bytes:
    # Imported where it is needed: a broker that erases nothing does without cryptography.
    from ledgerstone.erasure.sealing import unseal

    assert work.secrets is not None
    assert erasure.sealed_key is not None, erasure
    print_key = work.secrets.print_key
    return unseal(erasure.sealed_key, erasure_id=erasure.id, print_key=print_key)


# -- tombstones -----------------------------------------------------------------------------------


def write_tombstones(work: ErasingWork, writes: Mapping[str, WriteTombstones]) -> None:
    """Written and synced, then written down."""
    written: dict[str, list[Tombstone]] = {}
    touched: dict[TopicPartition, Partition] = {}
    for erasure_id, step in writes.items():
        try:
            written[erasure_id] = _write(work, erasure_id, step, touched)
        except _DISK_REFUSED as error:
            _failed(work, erasure_id, error)
    now_ms = work.clock.now_ms()
    successors = [
        changes.tombstoned(work.journal.get(each), tombstones, now_ms=now_ms)
        for each, tombstones in written.items()
    ]
    try:
        for partition in touched.values():
            # Crash here: the next search finds them by the erasure's id.
            partition.log.flush()
        work.keep(successors)
    except _DISK_REFUSED:
        for each in written:
            work.searches.pop(each, None)
        raise


def _write(
    work: ErasingWork,
    erasure_id: str,
    step: WriteTombstones,
    touched: dict[TopicPartition, Partition],
) -> list[Tombstone]:
    erasure = work.journal.get(erasure_id)
    key = _unsealed(work, erasure)
    made = list(step.present)
    for number in step.partitions:
        partition = work.partitions.get(TopicPartition(erasure.topic, number))
        touched[partition.topic_partition] = partition
        now_ms = work.clock.now_ms()
        made.append(Tombstone(number, _append(work, partition, erasure, key, now_ms), now_ms))
    return made


def _append(
    work: ErasingWork, partition: Partition, erasure: Erasure, key: bytes, now_ms: int
) -> int:
    headers: RecordHeaders = headers_of(erasure)
    try:
        return _append_record(work, partition, key, headers, now_ms)
    except MessageTooLarge:
        # A key that just fits its topic leaves no room for reasons; the id must be there.
        own = [each for each in headers if each[0] == ID_HEADER]
        return _append_record(work, partition, key, own, now_ms)


def _append_record(
    work: ErasingWork, partition: Partition, key: bytes, headers: RecordHeaders, now_ms: int
) -> int:
    batch = build_batch([(now_ms, key, None, headers)])
    result = partition.append(batch, acks=-1, origin=Origin.COORDINATOR)
    work.appends.appended(partition.topic_partition, len(batch))
    work.cleaning.appended(partition.log, result.tombstone_count)
    return result.first_offset


def _failed(work: ErasingWork, erasure_id: str, error: Exception) -> None:
    """What was written before it failed is found by the next search."""
    known = work.searches.get(erasure_id)
    assert known is not None
    text = f"a tombstone could not be written: {error}"
    _LOG.warning("erasure held up id=%s reason=%s", erasure_id, text)
    work.searches[erasure_id] = SearchOutcome(
        home_partition=known.home_partition,
        ends=known.ends,
        ended_ms=work.clock.now_ms(),
        trouble=text,
    )


# -- passes and the scan --------------------------------------------------------------------------


def ask(work: ErasingWork, tp: TopicPartition) -> None:
    work.asked[tp] = (work.clock.now_ms(), work.cleaning.ask(tp))


def abort_open(work: ErasingWork, erasure_id: str, step: AbortOpen) -> None:
    """Written down, then asked for: a crash between the two only asks again."""
    erasure, now_ms = work.journal.get(erasure_id), work.clock.now_ms()
    work.keep(
        [
            changes.aborting(
                erasure,
                [
                    AskedAbort(partition, txn.first_offset, txn.producer_id, now_ms)
                    for partition, txn in step.txns
                ],
            )
        ]
    )
    for asked, asked_ms in list(work.aborting.items()):
        if now_ms >= asked_ms + REST_MS:
            del work.aborting[asked]
    for partition, (producer_id, first_offset) in step.txns:
        work.aborting[producer_id, first_offset] = now_ms
        _LOG.warning(
            "erasure aborts a transaction id=%s partition=%s-%d producer_id=%d first_offset=%d",
            erasure_id, erasure.topic, partition, producer_id, first_offset,
        )  # fmt: skip
        work.transactions.abort(producer_id)


def sealed_copies(work: ErasingWork, look: Look, erasure: Erasure) -> tuple[bool, str | None]:
    """Whether the journal still holds the sealed key, and what there is to wait for."""
    sealed = work.journal.sealed.get(erasure.id)
    partition = look.partitions.find(JOURNAL)
    if sealed is None or partition is None:
        return False, None
    if sealed.superseded_at is None or (
        look.first_dirty_offset(partition.log) <= sealed.superseded_at
    ):
        if look.is_pending(JOURNAL):
            return True, "the journal is being compacted"
        obstacle = look.why_no_pass(partition)
        return True, f"{JOURNAL}: {obstacle.text}" if obstacle else None
    if look.leftovers(partition.log):
        return False, "replaced files of the journal wait to be unlinked"
    del work.journal.sealed[erasure.id]
    return False, None


def scan(work: ErasingWork, ids: Sequence[str]) -> None:
    secrets = work.secrets
    assert secrets is not None, "erasures without secrets"
    prints = [work.journal.get(each).key_print for each in ids]
    plan = ResiduePlan(
        log_dirs=tuple(each.path for each in work.log_dirs.everything),
        keys=KeyPrints.under(secrets.print_key, prints),
        bytes_per_second=work.cleaning.settings.bytes_per_second,
    )
    # As stages do, a scan never begins before the stage it is taken in, even if the wall clock was
    # set back since: otherwise it would not count, and the next one would not either.
    now_ms = work.clock.now_ms()
    started = {each: max(now_ms, work.journal.get(each).stage_ms) for each in ids}
    for each in ids:
        work.in_flight[each] = "a scan of every file is under way"
    work.is_scanning = True
    work.scans.start(plan, lambda result: _scanned(work, started, result))


def _scanned(work: ErasingWork, started: Mapping[str, int], result: ScanResult) -> None:
    work.is_scanning = False
    work.look_now()
    node_id, ended_ms = work.config.node_id, work.clock.now_ms()
    for index, (erasure_id, started_ms) in enumerate(started.items()):
        work.in_flight.pop(erasure_id, None)
        erasure = work.journal.book.get(erasure_id)
        if erasure is None or erasure.is_over:
            # It was abandoned meanwhile.
            continue
        if isinstance(result, ScanReport):
            work.replica_scans[erasure_id] = result.of_replica(
                index,
                topic=erasure.topic,
                node_id=node_id,
                started_ms=started_ms,
                ended_ms=ended_ms,
            )
        else:
            reason = result.reason if isinstance(result, ScanFailed) else "it was no scan"
            work.replica_scans[erasure_id] = ReplicaScan(
                node_id=node_id,
                started_ms=started_ms,
                ended_ms=ended_ms,
                files=0,
                scanned_bytes=0,
                digest="",
                trouble=reason,
            )
