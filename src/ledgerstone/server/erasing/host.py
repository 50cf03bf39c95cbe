"""What a broker does for the erasures of another one, which leads the journal. Grade D.

It tells how far its replicas are, searches and scans its own files, writes tombstones where it
leads, and compacts when asked. Only brokers of this cluster are served; `check_asker` is the one
place that says who. Contract: erasure/README.md, "Several brokers".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.erasure.erasure import ReplicaScan, Stage
from ledgerstone.erasure.host_messages import (
    MAX_KEYS,
    ReplicaWord,
    ScanOrder,
    SearchWord,
    TombstoneAt,
    TombstoneQuestion,
    WorkKind,
    WrittenTombstone,
    checked,
    decoded,
    encoded,
    keys_of,
    questions_of,
    scans_json,
    search_word_json,
    words_json,
    writes_of,
    written_json,
)
from ledgerstone.errors import InvalidRequest
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.erasure_work import ErasureWorkRequest, ErasureWorkResponse
from ledgerstone.server.erasing.facts import About, Look
from ledgerstone.server.erasing.groups import is_pipeline, missed_in
from ledgerstone.server.erasing.jobs import JobKey
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.looking import scan_here, search_here, topic_of
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.erasing.survey import MAX_TOLD_GROUPS, MAX_TOPICS, GroupRow
from ledgerstone.server.erasing.work import ErasingWork
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_MAX_PLACES: Final = 100_000
_SHOWN_MISSED: Final = 100
# What changes something: only the broker that leads the journal may ask for it.
_COORDINATORS: Final = (WorkKind.ASK, WorkKind.ABORT)


class WorkRefusal(NamedTuple):
    code: int
    reason: str


def check_asker(work: ErasingWork, request: ErasureWorkRequest) -> WorkRefusal | None:
    """Whether a request comes from a broker of this cluster, as CLUSTER_ACTION; what the asker says
    of itself must be what the metadata say of it."""
    if request.cluster_id != work.others.cluster_id():
        return WorkRefusal(ErrorCode.INCONSISTENT_CLUSTER_ID, "it is for another cluster")
    asker = work.image().brokers.get(request.broker_id)
    if asker is None or asker.broker_epoch != request.broker_epoch:
        reason = f"broker {request.broker_id} with epoch {request.broker_epoch} is not known here"
        return WorkRefusal(ErrorCode.STALE_BROKER_EPOCH, reason)
    return None


def check_leads(work: ErasingWork, request: ErasureWorkRequest) -> WorkRefusal | None:
    """Whether the asker leads the journal, as far as it is known here."""
    journal = work.image().partition(*JOURNAL)
    if journal is None or (journal.leader, journal.leader_epoch) != (
        request.broker_id,
        request.journal_epoch,
    ):
        reason = f"broker {request.broker_id} does not lead the journal, as far as is known here"
        return WorkRefusal(ErrorCode.NOT_COORDINATOR, reason)
    return None


def answer(work: ErasingWork, request: ErasureWorkRequest) -> ErasureWorkResponse:
    """To everything but calls of the JSON API and secrets."""
    refusal = check_asker(work, request)
    if refusal is None and request.kind in _COORDINATORS:
        refusal = check_leads(work, request)
    if refusal is not None:
        return refused(work, refusal)
    try:
        size, content = _served(work, request)
    except InvalidRequest as error:
        return refused(work, WorkRefusal(ErrorCode.INVALID_REQUEST, str(error)))
    return said(work, content, size)


def refused(work: ErasingWork, refusal: WorkRefusal) -> ErasureWorkResponse:
    response = said(work, b"")
    response.error_code, response.error_message = refusal
    return response


def said(work: ErasingWork, content: bytes, size: int = 0) -> ErasureWorkResponse:
    incarnation_id, broker_epoch = work.others.identity
    return ErasureWorkResponse(
        broker_id=work.config.node_id,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        size=size,
        content=content,
    )


def _served(work: ErasingWork, request: ErasureWorkRequest) -> tuple[int, bytes]:
    key = JobKey(request.broker_id, request.broker_epoch, request.job)
    if request.kind == WorkKind.RESULT:
        return work.host_jobs.result(key, request.position)
    content = decoded(bytes(request.content))
    match request.kind:
        case WorkKind.FACTS:
            return 0, encoded(_facts(work, content))
        case WorkKind.GROUPS:
            return 0, encoded(_groups(work, content))
        case WorkKind.GONE:
            return 0, encoded(_gone(work, content))
        case WorkKind.ASK:
            _ask(work, content)
        case WorkKind.ABORT:
            _abort(work, content)
        case WorkKind.START:
            if content.get("what") == "write" and (why := check_leads(work, request)) is not None:
                raise InvalidRequest(why.reason)
            _start(work, key, content)
        case _:
            raise InvalidRequest(f"there is no work of kind {request.kind}")
    return 0, b"{}"


# -- facts ----------------------------------------------------------------------------------------


def _facts(work: ErasingWork, content: Mapping[str, Any]) -> dict[str, Any]:
    now_ms, look = work.clock.now_ms(), work.look()
    words = [_word(work, look, each) for each in questions_of(content, now_ms=now_ms)]
    return words_json(words, now_ms=now_ms)


def _word(work: ErasingWork, look: Look, question: TombstoneQuestion) -> ReplicaWord | None:
    """None where the partition is not hosted here, or is one of another topic."""
    tp = TopicPartition(question.topic, question.partition)
    partition = work.partitions.find(tp)
    if partition is None or uuid_to_text(partition.topic_id) != question.topic_id:
        return None
    stage = next((each for each in Stage if each.value == question.stage), None)
    if stage is None:
        raise InvalidRequest(f"there is no stage {question.stage[:20]}")
    asked = About(*tp, question.offset, stage, question.since_ms)
    ledger = work.cleaning.files.ledger(partition.log)
    missed = missed_in(ledger, question.offset)[:_SHOWN_MISSED]
    return ReplicaWord(look.about(partition, asked), missed)


def _gone(work: ErasingWork, content: Mapping[str, Any]) -> dict[str, Any]:
    now_ms, look = work.clock.now_ms(), work.look()
    return {
        topic: [
            (number, None if due_ms is None else due_ms - now_ms)
            for number, due_ms in look.left_of(topic).items()
        ]
        for topic in _topics(content)
    }


def _groups(work: ErasingWork, content: Mapping[str, Any]) -> dict[str, Any]:
    told = {topic: groups_here(work, topic) for topic in _topics(content)}
    return {"loaded": list(work.offsets.loaded()), "topics": told}


def groups_here(work: ErasingWork, topic: str) -> tuple[list[GroupRow], int]:
    """Of groups whose coordinator is here: those that can answer first; and how many more."""
    rows: list[GroupRow] = []
    for group_id, partitions in work.offsets.committed_on(topic).items():
        for number, at in partitions.items():
            can_answer, at_ms = is_pipeline(at.metadata), at.commit_timestamp_ms
            rows.append((group_id, number, at.offset, can_answer, at_ms))
    names = dict.fromkeys(each[0] for each in sorted(rows, key=lambda row: (not row[3], row[0])))
    told = dict.fromkeys(list(names)[:MAX_TOLD_GROUPS])
    return [row for row in rows if row[0] in told], len(names) - len(told)


def _topics(content: Mapping[str, Any]) -> list[str]:
    topics = content.get("topics")
    if not isinstance(topics, list) or len(topics) > MAX_TOPICS:
        raise InvalidRequest(f"topics must be a list of at most {MAX_TOPICS}")
    checked("topics", tuple(topics), tuple[str, ...])
    return topics


# -- what is to be done ---------------------------------------------------------------------------


def _ask(work: ErasingWork, content: Mapping[str, Any]) -> None:
    topic, topic_id, partition = (content.get(each) for each in ("topic", "topic_id", "partition"))
    checked("a pass", (topic, topic_id, partition), tuple[str, str, int])
    assert isinstance(topic, str)
    assert isinstance(topic_id, str)
    assert isinstance(partition, int)
    topic_of(work, topic, topic_id)
    tp = TopicPartition(topic, partition)
    if work.partitions.find(tp) is None:
        raise InvalidRequest(f"{tp} is not hosted here")
    work.asked[tp] = (work.clock.now_ms(), work.cleaning.ask(tp))


def _abort(work: ErasingWork, content: Mapping[str, Any]) -> None:
    producer_id = content.get("producer_id")
    if type(producer_id) is not int:
        raise InvalidRequest("producer_id must be a number")
    work.transactions.abort(producer_id)


def _start(work: ErasingWork, key: JobKey, content: Mapping[str, Any]) -> None:
    what, jobs = content.get("what"), work.host_jobs
    if what not in ("search", "scan", "write"):
        raise InvalidRequest("a job is a search, a scan, or writing tombstones")
    if what == "write":
        writes = writes_of(content)
        if jobs.begin(key):
            work.writer.write(writes, lambda written: _written(work, key, written))
        return
    keys = keys_of(content.get("keys") or {})
    if what == "search":
        numbers, places = content.get("partitions"), content.get("max_places")
        topic, topic_id = content.get("topic"), content.get("topic_id")
        checked("a search", (topic, topic_id, places), tuple[str, str, int])
        if not isinstance(numbers, list) or not 0 < int(places or 0) <= _MAX_PLACES:
            raise InvalidRequest("a search without partitions")
        topic_of(work, str(topic), str(topic_id))
        if jobs.begin(key):
            search_here(
                work, str(topic), numbers, keys, int(places or 0),
                lambda word: _searched(work, key, word),
            )  # fmt: skip
        return
    orders = _orders(content, len(keys.prints))
    if jobs.begin(key):
        scan_here(work, orders, keys, lambda scans: _scanned(work, key, scans))


def _orders(content: Mapping[str, Any], count: int) -> list[ScanOrder]:
    given = content.get("orders")
    if not isinstance(given, list) or len(given) != count or not 0 < count <= MAX_KEYS:
        raise InvalidRequest(f"a scan of {count} prints, at most {MAX_KEYS}, and an order for each")
    try:
        orders = [_order(*each) for each in given]
    except TypeError:
        raise InvalidRequest("an order that is none") from None
    checked("orders", tuple(orders), tuple[ScanOrder, ...])
    return orders


def _order(
    erasure_id: str, topic: str, topic_id: str, tombstones: Sequence[Sequence[int]]
) -> ScanOrder:
    places = tuple(TombstoneAt(*each) for each in tombstones)
    return ScanOrder(erasure_id, topic, topic_id, places)


def _written(work: ErasingWork, key: JobKey, written: Sequence[WrittenTombstone]) -> None:
    work.host_jobs.end(key, written_json(written, now_ms=work.clock.now_ms()))


def _searched(work: ErasingWork, key: JobKey, word: SearchWord | ScanFailed) -> None:
    result = word.reason if isinstance(word, ScanFailed) else search_word_json(word)
    work.host_jobs.end(key, result)


def _scanned(work: ErasingWork, key: JobKey, scans: list[ReplicaScan] | ScanFailed) -> None:
    result = scans.reason if isinstance(scans, ScanFailed) else scans_json(scans)
    work.host_jobs.end(key, result)
