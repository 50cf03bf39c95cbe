"""How the steps of erasures are taken: searches, tombstones, passes, scans. Grade D.

Each may be taken twice without harm (erasure/README.md, rule 3). What takes time leaves as an
effect and comes back through `Erasing`; tombstones are on disk before the journal says so.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ledgerstone.dataclasses import replace
from ledgerstone.erasure import changes
from ledgerstone.erasure.audit_headers import ID_HEADER, headers_of
from ledgerstone.erasure.erasure import AskedAbort, Erasure, ReplicaScan, Stage, Tombstone
from ledgerstone.erasure.facts import PartitionFacts, SearchOutcome
from ledgerstone.erasure.host_messages import (
    MAX_KEYS,
    MAX_WRITES,
    ScanOrder,
    TombstoneAt,
    TombstoneQuestion,
    TombstoneWrite,
    WorkKind,
    WrittenTombstone,
    decoded,
    encoded,
    keys_json,
    scans_of,
    writes_json,
    written_of,
)
from ledgerstone.erasure.hosting import unknown_replica
from ledgerstone.erasure.life import REST_MS
from ledgerstone.erasure.scan_plan import KeyPrints
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
from ledgerstone.errors import CorruptRecord, InvalidRequest
from ledgerstone.server.erasing.facts import About, Look
from ledgerstone.server.erasing.journal import SealedAt
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.looking import scan_here
from ledgerstone.server.erasing.others import Said, Unanswered
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.erasing.work import ErasingWork
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_LOG: Final = logging.getLogger(__name__)


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


def unsealed(work: ErasingWork, erasure: Erasure) -> bytes:
    # Imported where it is needed: a broker that erases nothing does without cryptography.
    from ledgerstone.erasure.sealing import unseal

    assert work.secrets is not None
    assert erasure.sealed_key is not None, erasure
    print_key = work.secrets.print_key
    return unseal(erasure.sealed_key, erasure_id=erasure.id, print_key=print_key)


# -- tombstones -----------------------------------------------------------------------------------


class _Writes:
    """Tombstones of many erasures, on their way to the leaders of their partitions.

    What is written becomes part of what the search has found, so that the next look sees all
    targets with their tombstones; what is refused makes the erasure search again."""

    def __init__(self, work: ErasingWork) -> None:
        self._work = work
        self._era = work.era
        self._by_leader: dict[int, list[TombstoneWrite]] = {}
        self._left: dict[str, int] = {}

    def add(self, erasure: Erasure, step: WriteTombstones) -> None:
        work = self._work
        try:
            key = unsealed(work, erasure)
        except CorruptRecord as error:
            _failed(work, erasure.id, str(error))
            return
        headers = headers_of(erasure)
        short = tuple(each for each in headers if each[0] == ID_HEADER)
        for number in step.partitions:
            state = work.image().partition(erasure.topic, number)
            leader = -1 if state is None else state.leader
            write = TombstoneWrite(
                erasure.topic, uuid_to_text(erasure.topic_id), number, key, tuple(headers), short,
                erasure.id,
            )  # fmt: skip
            self._by_leader.setdefault(leader, []).append(write)
        self._left[erasure.id] = len(step.partitions)
        work.in_flight[erasure.id] = "tombstones are being written"

    def send(self) -> None:
        work, own_id = self._work, self._work.config.node_id
        for leader, writes in self._by_leader.items():
            for start in range(0, len(writes), MAX_WRITES):
                some = writes[start : start + MAX_WRITES]
                if leader == own_id:
                    work.writer.write(some, partial(self._written, some))
                else:
                    content = {"what": "write", **writes_json(some)}
                    work.jobs.start(leader, content, partial(self._heard, some))

    def _heard(self, writes: Sequence[TombstoneWrite], result: bytes | Unanswered) -> None:
        try:
            if isinstance(result, Unanswered):
                raise InvalidRequest(result.reason)
            now_ms = self._work.clock.now_ms()
            written = written_of(decoded(result), len(writes), now_ms=now_ms)
        except InvalidRequest as error:
            written = [WrittenTombstone(-1, 0, str(error)) for _ in writes]
        self._written(writes, written)

    def _written(
        self, writes: Sequence[TombstoneWrite], written: Sequence[WrittenTombstone]
    ) -> None:
        work = self._work
        if work.era != self._era:
            return
        for write, one in zip(writes, written, strict=True):
            erasure_id, known = write.erasure_id, work.searches.get(write.erasure_id)
            self._left[erasure_id] -= 1
            if self._left[erasure_id] == 0:
                work.in_flight.pop(erasure_id, None)
            if one.offset < 0:
                _failed(work, erasure_id, one.refusal)
            elif known is not None and known.trouble is None:
                tombstone = Tombstone(write.partition, one.offset, one.written_ms, one.leader_epoch)
                own = (*known.own_tombstones, tombstone)
                work.searches[erasure_id] = known._replace(own_tombstones=own)
        work.look_now()


def write_tombstones(work: ErasingWork, writes: Mapping[str, WriteTombstones]) -> None:
    """Written, synced and committed; then the next look writes it down."""
    if not writes:
        return
    sending = _Writes(work)
    for erasure_id, step in writes.items():
        sending.add(work.journal.get(erasure_id), step)
    sending.send()


def _failed(work: ErasingWork, erasure_id: str, reason: str) -> None:
    """What was written before it failed is found by the next search."""
    known = work.searches.get(erasure_id)
    text = f"a tombstone could not be written: {reason}"
    _LOG.warning("erasure held up id=%s reason=%s", erasure_id, text)
    work.searches[erasure_id] = SearchOutcome(
        home_partition=0 if known is None else known.home_partition,
        ends=() if known is None else known.ends,
        ended_ms=work.clock.now_ms(),
        trouble=text,
    )


# -- passes and the scan --------------------------------------------------------------------------


def ask(work: ErasingWork, tp: TopicPartition) -> None:
    work.asked[tp] = (work.clock.now_ms(), work.cleaning.ask(tp))


def ask_replica(work: ErasingWork, broker_id: int, tp: TopicPartition) -> None:
    """What comes of it is seen by the next survey."""
    if broker_id == work.config.node_id:
        ask(work, tp)
        return
    topic = work.image().topics.get(tp.topic)
    if topic is None:
        return

    def heard(word: Said | Unanswered) -> None:
        if isinstance(word, Unanswered):
            _LOG.warning("pass not asked for partition=%s reason=%s", tp, word.reason)

    content = {
        "topic": tp.topic,
        "topic_id": uuid_to_text(topic.topic_id),
        "partition": tp.partition,
    }
    work.others.ask(broker_id, WorkKind.ASK, heard, encoded(content))


def abort_open(work: ErasingWork, erasure_id: str, step: AbortOpen) -> None:
    """Written down, then asked for: a crash between the two only asks again. Where the journal has
    to be replicated first, the next look asks."""
    erasure, now_ms = work.journal.get(erasure_id), work.clock.now_ms()
    asked_for = [
        AskedAbort(partition, txn.first_offset, txn.producer_id, now_ms)
        for partition, txn in step.txns
    ]
    noted = changes.aborting(erasure, asked_for)
    if noted != erasure:
        work.keep([noted])
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
        for broker_id in work.others.ids:
            # Its coordinator is one of them.
            content = encoded({"producer_id": producer_id})
            work.others.ask(broker_id, WorkKind.ABORT, _ignored, content)


def _ignored(word: Said | Unanswered) -> None:
    """Asked again while the transaction is seen to be open."""


# -- the journal's own copies ---------------------------------------------------------------------


def journal_question(work: ErasingWork, sealed: SealedAt) -> TombstoneQuestion | None:
    topic = work.image().topics.get(JOURNAL.topic)
    if topic is None or sealed.superseded_at is None:
        return None
    stage = Stage.UNLINKED.value
    return TombstoneQuestion(
        *JOURNAL[:1], uuid_to_text(topic.topic_id), 0, sealed.superseded_at, stage, 0
    )


def journal_replicas(
    work: ErasingWork, look: Look, erasure: Erasure, sealed: SealedAt
) -> dict[int, PartitionFacts]:
    """Every replica of the journal whose word counts, by broker."""
    state, question = work.image().partition(*JOURNAL), journal_question(work, sealed)
    if state is None or question is None:
        return {}
    found = {}
    # One that is not registered has left the cluster; if it had a disk since the search, the scans
    # ask for it.
    registered = registered_brokers(work)
    for broker_id in work.awaited(erasure, [each for each in state.replicas if each in registered]):
        if broker_id == work.config.node_id:
            partition = look.partitions.find(JOURNAL)
            if partition is not None:
                asked = About(*JOURNAL, question.offset, Stage.UNLINKED, 0)
                found[broker_id] = look.about(partition, asked)
            continue
        word = (
            "it is being asked" if work.survey is None else work.survey.word_of(broker_id, question)
        )
        if isinstance(word, str):
            found[broker_id] = unknown_replica(broker_id, word)
        else:
            found[broker_id] = word.facts
    return found


def registered_brokers(work: ErasingWork) -> set[int]:
    return {work.config.node_id, *work.others.ids}


class SealedCopies(NamedTuple):
    """Of a sealed key in the journal."""

    are_left: bool = False
    waits_for: str | None = None  # what happens by itself
    silent: str | None = None  # a broker that does not say what it has


def sealed_copies(work: ErasingWork, look: Look, erasure: Erasure) -> SealedCopies:
    sealed = work.journal.sealed.get(erasure.id)
    if sealed is None or look.partitions.find(JOURNAL) is None:
        return SealedCopies()
    if sealed.superseded_at is None:
        return SealedCopies(True)
    replicas = journal_replicas(work, look, erasure, sealed)
    for broker_id, about in replicas.items():
        name = f"{JOURNAL}" if work.is_alone else f"{JOURNAL} on broker {broker_id}"
        if about.is_unknown:
            return SealedCopies(silent=f"{name}: {about.waits_for}")
        if about.first_dirty_offset > sealed.superseded_at:
            continue
        if about.pass_is_pending:
            return SealedCopies(True, "the journal is being compacted")
        return SealedCopies(True, f"{name}: {about.waits_for}" if about.waits_for else None)
    if any(about.leftovers_since_ms is not None for about in replicas.values()):
        return SealedCopies(waits_for="replaced files of the journal wait to be unlinked")
    everyone = [] if work.is_alone else sorted(registered_brokers(work))
    for broker_id in work.awaited(erasure, everyone):
        # One that is down may have had a replica before, and its files may be there still.
        left = _journal_left(work, look, broker_id)
        if isinstance(left, str):
            return SealedCopies(silent=left)
        if left:
            text = f"files of the journal wait to be unlinked on broker {broker_id}"
            return SealedCopies(waits_for=text)
    del work.journal.sealed[erasure.id]
    return SealedCopies()


def _journal_left(work: ErasingWork, look: Look, broker_id: int) -> Mapping[int, int | None] | str:
    """Of brokers that no longer have a replica of it."""
    if broker_id == work.config.node_id:
        return look.left_of(JOURNAL.topic)
    if work.survey is None:
        return "it is being asked"
    return work.survey.left_of(broker_id, JOURNAL.topic)


def ask_journal(work: ErasingWork) -> None:
    """Every replica that has not been through yet; asking once more does no harm."""
    state = work.image().partition(*JOURNAL)
    for broker_id in () if state is None else state.replicas:
        if broker_id in work.others.alive:
            ask_replica(work, broker_id, JOURNAL)


# -- the scan -------------------------------------------------------------------------------------


def scan(work: ErasingWork, broker_id: int, ids: Sequence[str]) -> None:
    """Every file of one broker."""
    ids = ids[:MAX_KEYS]
    secrets = work.secrets
    assert secrets is not None, "erasures without secrets"
    erasures = [work.journal.get(each) for each in ids]
    keys = KeyPrints.under(secrets.print_key, [each.key_print for each in erasures])
    orders = [_order(each) for each in erasures]
    # As stages do, a scan never begins before the stage it is taken in, even if the wall clock was
    # set back since: otherwise it would not count, and the next one would not either. It is this
    # broker's clock, also for scans of others: they begin after they are asked for.
    now_ms = work.clock.now_ms()
    started = {each.id: max(now_ms, each.stage_ms) for each in erasures}
    for each in ids:
        work.in_flight[each] = "a scan of every file is under way"
        work.scans_left.setdefault(each, {})[broker_id] = None
    work.scanning[broker_id] = None
    ended = partial(_scanned, work, work.era, broker_id, started)
    if broker_id == work.config.node_id:
        scan_here(work, orders, keys, ended)
    else:
        content = {"what": "scan", "keys": keys_json(keys), "orders": orders}
        work.jobs.start(broker_id, content, lambda result: ended(_scans_in(result, len(orders))))


def _order(erasure: Erasure) -> ScanOrder:
    places = (TombstoneAt(*each[:2], each.leader_epoch) for each in erasure.tombstones)
    topic_id = uuid_to_text(erasure.topic_id)
    return ScanOrder(erasure.id, erasure.topic, topic_id, tuple(places))


def _scans_in(result: bytes | Unanswered, count: int) -> list[ReplicaScan] | ScanFailed:
    if isinstance(result, Unanswered):
        return ScanFailed(result.reason)
    try:
        scans = scans_of(decoded(result))
    except InvalidRequest as error:
        return ScanFailed(str(error))
    return scans if len(scans) == count else ScanFailed(f"{len(scans)} scans, not {count}")


def _scanned(
    work: ErasingWork,
    era: int,
    broker_id: int,
    started: Mapping[str, int],
    result: list[ReplicaScan] | ScanFailed,
) -> None:
    if work.era != era:
        # The journal has moved on; whoever runs the erasures now scans again.
        return
    work.scanning.pop(broker_id, None)
    work.look_now()
    ended_ms = work.clock.now_ms()
    for index, (erasure_id, started_ms) in enumerate(started.items()):
        work.scans_left[erasure_id].pop(broker_id)
        if not work.scans_left[erasure_id]:
            del work.scans_left[erasure_id]
            work.in_flight.pop(erasure_id, None)
        erasure = work.journal.book.get(erasure_id)
        if erasure is None or erasure.is_over:
            # It was abandoned meanwhile.
            continue
        if isinstance(result, ScanFailed):
            found = ReplicaScan(
                node_id=broker_id, started_ms=started_ms, ended_ms=ended_ms, files=0,
                scanned_bytes=0, digest="", trouble=result.reason,
            )  # fmt: skip
        else:
            found = replace(
                result[index], node_id=broker_id, started_ms=started_ms, ended_ms=ended_ms
            )
            found = replace(found, trouble=found.trouble or _doubt(work, found))
        work.replica_scans.setdefault(erasure_id, {})[broker_id] = found


def _doubt(work: ErasingWork, scan: ReplicaScan) -> str | None:
    """Why it is not the scan of the broker that the metadata know."""
    registered, proof = work.image().brokers.get(scan.node_id), scan.proof
    if registered is None or proof is None:
        return "its broker is not registered"
    if proof.incarnation_id != uuid_to_text(registered.incarnation_id):
        return "its broker was started again since"
    if proof.directory_ids != tuple(sorted(uuid_to_text(each) for each in registered.log_dirs)):
        return "its broker has other log directories than are registered"
    return None
