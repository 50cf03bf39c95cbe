"""How the steps of erasures are taken: searches, tombstones, passes, scans, verifiers, receipts.

Grade D. Each may be taken twice without harm (erasure/README.md, rule 3). What takes time leaves as
an effect and comes back through `Erasing`; tombstones are on disk before the journal says so.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.client.partitioner import partition_of
from ledgerstone.erasure import changes
from ledgerstone.erasure.audit_headers import ID_HEADER, headers_of
from ledgerstone.erasure.erasure import (
    Erasure,
    Evidence,
    PartitionEnd,
    ReplicaScan,
    SearchedFiles,
    Stage,
    Tombstone,
)
from ledgerstone.erasure.facts import SearchOutcome
from ledgerstone.erasure.outputs import KnownOutput
from ledgerstone.erasure.scan_plan import (
    DEFAULT_MAX_PLACES,
    KeyPrints,
    ResiduePlan,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.erasure.standing import known_outputs
from ledgerstone.erasure.steps import (
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    Nothing,
    Scan,
    Search,
    Step,
    Wait,
    WriteTombstones,
)
from ledgerstone.erasure.verifiers import Word, evidence_from, question_about
from ledgerstone.errors import CorruptRecord, KafkaError, MessageTooLarge, StorageError
from ledgerstone.records.builder import RecordHeaders, build_batch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing.facts import Look
from ledgerstone.server.erasing.journal import JOURNAL
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult, files_of
from ledgerstone.storage.filenames import parse_file_name
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker
    from ledgerstone.server.erasing.agent import Erasing

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSED: Final = (OSError, StorageError, KafkaError)
# A verifier that failed is not asked again before that.
VERIFIER_REST_MS: Final = 60_000
# Of what a verifier that failed has said, in a receipt.
_MAX_REFUSAL: Final = 200


def what_for(step: Step) -> tuple[str | None, int | None]:
    """What an erasure waits for while a step is being taken, and until when."""
    match step:
        case Wait():
            return step.because, step.until_ms
        case AskVerifiers():
            return f"evidence of {', '.join(step.names)} is awaited", step.until_ms
        case Ask():
            return "a pass is asked for", None
        case Search() | WriteTombstones() | Scan() | Issue() | Advance() | Nothing():
            return None, None


# -- the search -----------------------------------------------------------------------------------


class _Started(NamedTuple):
    """A search that is under way, and how far its partitions reached when it began."""

    topic: str
    ends: tuple[PartitionEnd, ...]
    at_ms: int


def search(erasing: "Erasing", broker: "Broker", topic: str, ids: Sequence[str]) -> None:
    erasures = [erasing.journal.get(each) for each in ids]
    secrets = erasing.secrets
    assert secrets is not None, "erasures without secrets"
    files = files_of(broker.image, broker.partitions, topic)
    ends = tuple(
        PartitionEnd(tp.partition, broker.log_dir.logs[tp].log_end_offset)
        for tp in (each.topic_partition for each in files)
    )
    plan = SearchPlan(
        partitions=files,
        keys=KeyPrints.under(secrets.print_key, [each.key_print for each in erasures]),
        max_places=max(DEFAULT_MAX_PLACES, 8 * len(ids)),
        bytes_per_second=broker.cleaning.settings.bytes_per_second,
    )
    for each in ids:
        erasing.in_flight[each] = f"a search of {topic} is under way"
    erasing.searching[topic] = None
    started = _Started(topic, ends, broker.clock.now_ms())
    erasing.scans.start(plan, lambda result: _searched(erasing, broker, started, ids, result))


def _searched(
    erasing: "Erasing",
    broker: "Broker",
    started: _Started,
    ids: Sequence[str],
    result: ScanResult,
) -> None:
    erasing.searching.pop(started.topic, None)
    erasing.look_now()
    for index, erasure_id in enumerate(ids):
        erasing.in_flight.pop(erasure_id, None)
        erasure = erasing.journal.book.get(erasure_id)
        # It may have been cancelled meanwhile.
        if erasure is not None and erasure.sealed_key is not None:
            now_ms = broker.clock.now_ms()
            erasing.searches[erasure_id] = _outcome(
                erasing, erasure, index, started, result, now_ms
            )


def _outcome(
    erasing: "Erasing",
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
        key = _unsealed(erasing, erasure)
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


def _unsealed(erasing: "Erasing", erasure: Erasure) -> bytes:
    # Imported where it is needed: a broker that erases nothing does without cryptography.
    from ledgerstone.erasure.sealing import unseal

    assert erasing.secrets is not None
    assert erasure.sealed_key is not None, erasure
    print_key = erasing.secrets.print_key
    return unseal(erasure.sealed_key, erasure_id=erasure.id, print_key=print_key)


# -- tombstones -----------------------------------------------------------------------------------


def write_tombstones(
    erasing: "Erasing", broker: "Broker", writes: Mapping[str, WriteTombstones]
) -> None:
    """Written and synced, then written down."""
    written: dict[str, list[Tombstone]] = {}
    touched: dict[TopicPartition, Partition] = {}
    for erasure_id, step in writes.items():
        try:
            written[erasure_id] = _write(erasing, broker, erasure_id, step, touched)
        except _DISK_REFUSED as error:
            _failed(erasing, broker, erasure_id, error)
    now_ms = broker.clock.now_ms()
    successors = [
        changes.tombstoned(erasing.journal.get(each), tombstones, now_ms=now_ms)
        for each, tombstones in written.items()
    ]
    try:
        for partition in touched.values():
            # Crash here: the next search finds them by the erasure's id.
            partition.log.flush()
        erasing.keep(broker, successors)
    except _DISK_REFUSED:
        for each in written:
            erasing.searches.pop(each, None)
        raise


def _write(
    erasing: "Erasing",
    broker: "Broker",
    erasure_id: str,
    step: WriteTombstones,
    touched: dict[TopicPartition, Partition],
) -> list[Tombstone]:
    erasure = erasing.journal.get(erasure_id)
    key = _unsealed(erasing, erasure)
    made = list(step.present)
    for number in step.partitions:
        partition = broker.partitions.get(TopicPartition(erasure.topic, number))
        touched[partition.topic_partition] = partition
        now_ms = broker.clock.now_ms()
        made.append(Tombstone(number, _append(broker, partition, erasure, key, now_ms), now_ms))
    return made


def _append(
    broker: "Broker", partition: Partition, erasure: Erasure, key: bytes, now_ms: int
) -> int:
    headers: RecordHeaders = headers_of(erasure)
    try:
        return _append_record(broker, partition, key, headers, now_ms)
    except MessageTooLarge:
        # A key that just fits its topic leaves no room for reasons; the id must be there.
        own = [each for each in headers if each[0] == ID_HEADER]
        return _append_record(broker, partition, key, own, now_ms)


def _append_record(
    broker: "Broker", partition: Partition, key: bytes, headers: RecordHeaders, now_ms: int
) -> int:
    batch = build_batch([(now_ms, key, None, headers)])
    result = partition.append(batch, acks=-1, origin=Origin.COORDINATOR)
    broker.appended(partition.topic_partition, len(batch))
    broker.cleaning.appended(partition.log, result.tombstone_count)
    return result.first_offset


def _failed(erasing: "Erasing", broker: "Broker", erasure_id: str, error: Exception) -> None:
    """What was written before it failed is found by the next search."""
    known = erasing.searches.get(erasure_id)
    assert known is not None
    text = f"a tombstone could not be written: {error}"
    _LOG.warning("erasure held up id=%s reason=%s", erasure_id, text)
    erasing.searches[erasure_id] = SearchOutcome(
        home_partition=known.home_partition,
        ends=known.ends,
        ended_ms=broker.clock.now_ms(),
        trouble=text,
    )


# -- passes and the scan --------------------------------------------------------------------------


def ask(erasing: "Erasing", broker: "Broker", tp: TopicPartition) -> None:
    erasing.asked[tp] = (broker.clock.now_ms(), broker.cleaning.ask(tp))


def sealed_copies(erasing: "Erasing", look: Look, erasure: Erasure) -> tuple[bool, str | None]:
    """Whether the journal still holds the sealed key, and what there is to wait for."""
    sealed = erasing.journal.sealed.get(erasure.id)
    partition = look.broker.partitions.find(JOURNAL)
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
    del erasing.journal.sealed[erasure.id]
    return False, None


def scan(erasing: "Erasing", broker: "Broker", ids: Sequence[str]) -> None:
    secrets = erasing.secrets
    assert secrets is not None, "erasures without secrets"
    prints = [erasing.journal.get(each).key_print for each in ids]
    plan = ResiduePlan(
        log_dirs=broker.config.log_dirs,
        keys=KeyPrints.under(secrets.print_key, prints),
        bytes_per_second=broker.cleaning.settings.bytes_per_second,
    )
    # As stages do, a scan never begins before the stage it is taken in, even if the wall clock was
    # set back since: otherwise it would not count, and the next one would not either.
    now_ms = broker.clock.now_ms()
    started = {each: max(now_ms, erasing.journal.get(each).stage_ms) for each in ids}
    for each in ids:
        erasing.in_flight[each] = "a scan of every file is under way"
    erasing.is_scanning = True
    erasing.scans.start(plan, lambda result: _scanned(erasing, broker, started, result))


def _scanned(
    erasing: "Erasing", broker: "Broker", started: Mapping[str, int], result: ScanResult
) -> None:
    erasing.is_scanning = False
    erasing.look_now()
    node_id, ended_ms = broker.config.node_id, broker.clock.now_ms()
    for index, (erasure_id, started_ms) in enumerate(started.items()):
        erasing.in_flight.pop(erasure_id, None)
        erasure = erasing.journal.book.get(erasure_id)
        if erasure is None or erasure.is_over:
            # It was abandoned meanwhile.
            continue
        if isinstance(result, ScanReport):
            erasing.replica_scans[erasure_id] = result.of_replica(
                index,
                topic=erasure.topic,
                node_id=node_id,
                started_ms=started_ms,
                ended_ms=ended_ms,
            )
        else:
            reason = result.reason if isinstance(result, ScanFailed) else "it was no scan"
            erasing.replica_scans[erasure_id] = ReplicaScan(
                node_id=node_id,
                started_ms=started_ms,
                ended_ms=ended_ms,
                files=0,
                scanned_bytes=0,
                digest="",
                trouble=reason,
            )


# -- evidence and receipt -------------------------------------------------------------------------


def ask_verifiers(
    erasing: "Erasing", broker: "Broker", awaited: Mapping[str, tuple[str, ...]]
) -> None:
    """Those that are installed here; the others give their evidence when they have it."""
    if not awaited:
        return
    installed, now_ms = erasing.installed_verifiers(), broker.clock.now_ms()
    for erasure_id, names in awaited.items():
        for name in names:
            rest_until_ms = erasing.verifier_rests.get((erasure_id, name), 0)
            if name in installed and now_ms >= rest_until_ms:
                # Set when asked as well, so that nobody is asked twice at a time.
                erasing.verifier_rests[erasure_id, name] = now_ms + VERIFIER_REST_MS
                question = question_about(erasing.journal.get(erasure_id))
                erasing.to_ask.append(AskVerifier(name, question))


def verifier_spoke(
    erasing: "Erasing", broker: "Broker", asked: AskVerifier, words: Sequence[Word] | str
) -> None:
    """`words`, or why there are none."""
    erasure = erasing.journal.book.get(asked.question.erasure_id)
    # One that had to be waited for too long speaks after the receipt: that is a supplement.
    if erasure is None or (erasure.is_over and erasure.stage is not Stage.RECEIPTED):
        return
    if isinstance(words, str):
        _LOG.warning("verifier failed id=%s verifier=%s reason=%s", erasure.id, asked.name, words)
        if not erasure.is_over:
            erasing.refusals[erasure.id, asked.name] = words
        return
    try:
        given = evidence_from(asked.name, words, now_ms=broker.clock.now_ms())
        erasing.give_evidence(broker, erasure, given)
    except _DISK_REFUSED as error:
        _LOG.warning("evidence refused id=%s verifier=%s reason=%s", erasure.id, asked.name, error)


def issue_receipts(erasing: "Erasing", broker: "Broker", ids: Sequence[str]) -> None:
    if not ids:
        return
    now_ms = broker.clock.now_ms()
    made = []
    for erasure_id in ids:
        known = erasing.watch.remembered(erasing.journal.get(erasure_id))
        erasure = erasing.on_this_clock(broker, known)
        outputs = known_outputs(erasure, _refusals(erasing, erasure))
        receipt = _signed(erasing, broker, erasure, outputs)
        made.append(changes.receipted(erasure, receipt, now_ms=now_ms, outputs=outputs))
    erasing.keep(broker, made)


def _refusals(erasing: "Erasing", erasure: Erasure) -> dict[str, str]:
    names = erasure.awaited_verifiers
    found = {name: erasing.refusals.get((erasure.id, name)) for name in names}
    return {name: text[:_MAX_REFUSAL] for name, text in found.items() if text is not None}


def supplement(
    erasing: "Erasing", broker: "Broker", erasure: Erasure, evidence: Sequence[Evidence]
) -> Erasure:
    """Signed and written down before anybody sees it; a crash in between leaves nothing."""
    from ledgerstone.erasure.supplement_issue import new_words, with_supplement

    assert erasing.secrets is not None, "erasures without secrets"
    words = new_words(erasure, evidence, salt=erasing.secrets.salt)
    if not words:
        return erasure
    successor = with_supplement(
        erasing.on_this_clock(broker, erasure),
        words,
        cluster_id=broker.log_dir.meta.cluster_id or "",
        signing_seed=erasing.secrets.signing_seed,
        now_ms=broker.clock.now_ms(),
    )
    erasing.keep(broker, [successor])
    made = successor.supplements[-1]
    _LOG.info(
        "erasure supplemented id=%s number=%d verdict=%s", erasure.id, made.number, made.verdict
    )
    return successor


def with_statements(
    erasing: "Erasing", broker: "Broker", erasures: Sequence[Erasure]
) -> list[Erasure]:
    """Keys that are nowhere get a signed word too, if they were looked for."""
    told = []
    for erasure in erasures:
        if erasure.stage is Stage.NOT_FOUND and erasure.searched is not None:
            known = erasing.on_this_clock(broker, erasure)
            told.append(changes.with_statement(known, _signed(erasing, broker, known)))
        else:
            told.append(erasure)
    return told


def _signed(
    erasing: "Erasing", broker: "Broker", erasure: Erasure, outputs: Sequence[KnownOutput] = ()
) -> str:
    from ledgerstone.erasure.receipt_issue import issue

    assert erasing.secrets is not None, "erasures without secrets"
    receipt = issue(
        erasure,
        cluster_id=broker.log_dir.meta.cluster_id or "",
        signing_seed=erasing.secrets.signing_seed,
        now_ms=broker.clock.now_ms(),
        outputs=outputs,
    )
    return receipt.decode("ascii")
