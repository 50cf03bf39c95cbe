"""One erasure as it stands: its facts, its next step, and when it will be done. Grade D.

What an erasure needs next is decided by `erasure.life` from facts; here the facts are gathered, and
an alarm is logged where the deadline is in danger.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from ledgerstone.erasure.erasure import Erasure, ReplicaScan, Stage, Tombstone
from ledgerstone.erasure.facts import Facts, PartitionFacts
from ledgerstone.erasure.forecast import forecast
from ledgerstone.erasure.host_messages import ReplicaWord, TombstoneQuestion
from ledgerstone.erasure.hosting import must_scan, unknown_replica
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.readings import observed
from ledgerstone.erasure.steps import Step
from ledgerstone.metadata.config_entries import topic_values
from ledgerstone.metadata.image import NO_LEADER, TopicImage
from ledgerstone.server.erasing import steps
from ledgerstone.server.erasing.facts import About, Look, about_of, files_left
from ledgerstone.server.erasing.groups import LedgerFacts, own_ledger
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.scans import missing_partition
from ledgerstone.server.erasing.survey import SurveyPlan
from ledgerstone.server.erasing.work import ErasingWork, Outlook
from ledgerstone.time_text import iso_time
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

ASKED_STAGES: Final = (Stage.TOMBSTONED, Stage.STAMPED, Stage.REMOVED)
_LOG: Final = logging.getLogger(__name__)


def look_at(work: ErasingWork, look: Look, erasure_id: str, now_ms: int) -> tuple[Erasure, Step]:
    """The erasure with what was noted of its groups, and its next step; keeps its outlook."""
    erasure = work.journal.get(erasure_id)
    facts = facts_of(work, look, erasure)
    erasure = work.watch.noted(observed(work.watch.remembered(erasure), facts))
    step = next_step(erasure, facts, now_ms=now_ms)
    expected = forecast(erasure, facts, now_ms=now_ms)
    if expected.blocked_by is None:
        work.blocked_since.pop(erasure.id, None)
    else:
        work.blocked_since.setdefault(erasure.id, now_ms)
    outlook = work.outlooks[erasure.id] = Outlook(*steps.what_for(step), expected)
    _alarm(work, erasure, outlook)
    return erasure, step


def facts_of(work: ErasingWork, look: Look, erasure: Erasure) -> Facts:
    topic = work.image().topics.get(erasure.topic)
    exists = topic is not None and topic.topic_id == erasure.topic_id
    partitions: dict[int, PartitionFacts] = {}
    replicas: dict[int, list[PartitionFacts]] = {}
    if work.is_alone:
        partitions = look.partitions_of(erasure) if exists else look.deleted_topic(erasure.topic)
    else:
        replicas = replicas_of(work, look, erasure) if exists else _left_over(work, look, erasure)
    in_flight = _in_flight(work, erasure)
    sealed = steps.SealedCopies()
    if erasure.stage is Stage.UNLINKED:
        sealed = steps.sealed_copies(work, look, erasure)
        in_flight = in_flight or sealed.waits_for
    retention_ms, delay_ms = _delays(work, erasure.topic)
    scans = _current_scans(work, erasure)
    salt = None if work.secrets is None else work.secrets.salt
    ledgers = partial(_ledger, work, look, erasure)
    seen = work.watch.seen(look, ledgers, erasure, salt, topic_exists=exists)
    more = 0 if work.survey is None else work.survey.more_groups.get(erasure.topic, 0)
    return Facts(
        topic_exists=exists,
        partitions=partitions,
        replicas=replicas,
        search=work.searches.get(erasure.id),
        scans=scans,
        node_ids=_holders(work, erasure, topic if exists else None),
        in_flight=in_flight,
        trouble=(_trouble(work, erasure) if exists else None) or sealed.silent,
        blocked_since_ms=work.blocked_since.get(erasure.id),
        groups_are_known=seen.are_known,
        groups=seen.groups,
        missed=seen.missed,
        removed_ms=seen.removed_ms,
        full_ledgers=seen.full_ledgers,
        more_groups=seen.more + (0 if work.is_alone else more),
        sealed_copies_left=sealed.are_left,
        delete_retention_ms=retention_ms,
        file_delete_delay_ms=delay_ms,
    )


def _current_scans(work: ErasingWork, erasure: Erasure) -> list[ReplicaScan]:
    """The newest of each node. A clean one counts no more once its broker has a disk that it has
    not seen: that would be waited for for ever. Others are repeated after a rest anyway."""
    found = []
    for _, scan in sorted(work.replica_scans.get(erasure.id, {}).items()):
        registered, proof = work.image().brokers.get(scan.node_id), scan.proof
        seen = () if proof is None else proof.directory_ids
        disks = () if registered is None else registered.log_dirs
        if scan.trouble is not None or all(uuid_to_text(each) in seen for each in disks):
            found.append(scan)
    return found


def _delays(work: ErasingWork, topic: str) -> tuple[int, int]:
    """delete.retention.ms and file.delete.delay.ms of a topic."""
    image = work.image().topics.get(topic)
    for number in () if image is None else image.partitions:
        hosted = work.partitions.find(TopicPartition(topic, number))
        if hosted is not None:
            return hosted.log.config.delete_retention_ms, hosted.log.config.file_delete_delay_ms
    values = topic_values(work.image(), work.config, topic)
    retention_ms, delay_ms = values["delete.retention.ms"], values["file.delete.delay.ms"]
    assert isinstance(retention_ms, int)
    assert isinstance(delay_ms, int)
    return retention_ms, delay_ms


def _trouble(work: ErasingWork, erasure: Erasure) -> str | None:
    """Why nothing can be searched or written."""
    if work.is_alone:
        return missing_partition(work.image(), work.partitions, erasure.topic)
    if erasure.stage not in (Stage.REQUESTED, Stage.SEARCHED):
        return None
    for number, state in sorted(work.image().topics[erasure.topic].partitions.items()):
        if state.leader == NO_LEADER:
            return f"{erasure.topic}-{number} has no leader"
    return None


def replicas_of(work: ErasingWork, look: Look, erasure: Erasure) -> dict[int, list[PartitionFacts]]:
    """Of each partition with a tombstone: every replica that is assigned, as its broker says."""
    found: dict[int, list[PartitionFacts]] = {}
    if erasure.stage not in ASKED_STAGES:
        return found
    for tombstone in erasure.tombstones:
        state = work.image().partition(erasure.topic, tombstone.partition)
        question = question_of(erasure, tombstone)
        found[tombstone.partition] = [
            _replica(work, look, each, question, about_of(erasure, tombstone))
            for each in work.awaited(erasure, () if state is None else state.replicas)
        ]
    return found


def _replica(
    work: ErasingWork, look: Look, broker_id: int, question: TombstoneQuestion, asked: About
) -> PartitionFacts:
    if broker_id != work.config.node_id:
        word = _word(work, broker_id, question)
        if isinstance(word, str):
            return unknown_replica(broker_id, word)
        # It does not know whom this broker has just asked.
        fresh = tuple(each for each in word.facts.abortable_txns if not look.is_aborting(each))
        return word.facts._replace(abortable_txns=fresh)
    tp = TopicPartition(question.topic, question.partition)
    partition = work.partitions.find(tp)
    if partition is None:
        why = work.partitions.offline.get(tp, "it is being created")
        return unknown_replica(broker_id, f"{tp} is not here: {why}")
    return look.about(partition, asked)._replace(node_id=broker_id)


def _word(work: ErasingWork, broker_id: int, question: TombstoneQuestion) -> ReplicaWord | str:
    if work.survey is None:
        return "it is being asked"
    return work.survey.word_of(broker_id, question)


def _left_over(work: ErasingWork, look: Look, erasure: Erasure) -> dict[int, list[PartitionFacts]]:
    """Of a topic that is gone: what brokers still have of its files."""
    found: dict[int, list[PartitionFacts]] = {}
    if erasure.stage not in ASKED_STAGES:
        return found
    some = next((each.partition for each in erasure.tombstones), 0)
    brokers = {work.config.node_id, *work.others.ids}
    for broker_id in work.awaited(erasure, sorted(brokers)):
        left: Mapping[int, int | None] | str = "it is being asked"
        if broker_id == work.config.node_id:
            left = look.left_of(erasure.topic)
        elif work.survey is not None:
            left = work.survey.left_of(broker_id, erasure.topic)
        if isinstance(left, str):
            found.setdefault(some, []).append(unknown_replica(broker_id, left))
            continue
        for number, due_ms in left.items():
            found.setdefault(number, []).append(files_left(due_ms, broker_id))
    return found


def question_of(erasure: Erasure, tombstone: Tombstone) -> TombstoneQuestion:
    topic_id = uuid_to_text(erasure.topic_id)
    about = about_of(erasure, tombstone)
    return TombstoneQuestion(
        about.topic, topic_id, about.partition, about.offset, about.stage.value, about.since_ms
    )


def _ledger(
    work: ErasingWork, look: Look, erasure: Erasure, tombstone: Tombstone
) -> LedgerFacts | None:
    """With several brokers a ledger rests on what coordinators said some seconds before the pass:
    what it holds counts, its silence proves nothing."""
    own = own_ledger(look, erasure.topic, tombstone)
    if work.is_alone:
        return own
    missed = list(() if own is None else own.missed)
    state = work.image().partition(erasure.topic, tombstone.partition)
    for broker_id in () if state is None else state.replicas:
        if broker_id != work.config.node_id:
            word = _word(work, broker_id, question_of(erasure, tombstone))
            missed += () if isinstance(word, str) else word.missed
    return LedgerFacts(tuple(missed), None, is_full=True)


def _holders(work: ErasingWork, erasure: Erasure, topic: TopicImage | None) -> tuple[int, ...]:
    """Nodes that may hold the key: every broker. A replica that was moved away may have left files
    behind, and the metadata forgets where replicas were."""
    states = () if topic is None else topic.partitions.values()
    nodes = {work.config.node_id, *work.image().brokers}
    assigned = nodes.union(*(each.replicas for each in states))
    lost = [each.broker_id for each in erasure.lost_brokers]
    return must_scan(erasure.hosts, assigned, work.others.alive, lost)


def survey_plan(work: ErasingWork) -> SurveyPlan:
    """What all erasures under way have to know of the other brokers."""
    questions: dict[int, dict[tuple[object, ...], TombstoneQuestion]] = {}
    groups: dict[str, None] = {}
    gone: dict[str, None] = {}
    for erasure_id in work.journal.unfinished:
        erasure = work.journal.get(erasure_id)
        if erasure.tombstones:
            groups[erasure.topic] = None
        topic = work.image().topics.get(erasure.topic)
        if erasure.stage in ASKED_STAGES and (topic is None or topic.topic_id != erasure.topic_id):
            gone[erasure.topic] = None
        elif erasure.stage in ASKED_STAGES:
            for tombstone in erasure.tombstones:
                asked = question_of(erasure, tombstone)
                _ask_replicas(work, questions, asked)
        sealed = work.journal.sealed.get(erasure_id)
        if erasure.stage is Stage.UNLINKED and sealed is not None:
            gone[JOURNAL.topic] = None
            about_journal = steps.journal_question(work, sealed)
            if about_journal is not None:
                _ask_replicas(work, questions, about_journal)
    return SurveyPlan(
        questions={broker: list(asked.values()) for broker, asked in questions.items()},
        group_topics=list(groups),
        gone_topics=list(gone),
    )


def _ask_replicas(
    work: ErasingWork,
    questions: dict[int, dict[tuple[object, ...], TombstoneQuestion]],
    question: TombstoneQuestion,
) -> None:
    state = work.image().partition(question.topic, question.partition)
    for broker_id in () if state is None else state.replicas:
        if broker_id != work.config.node_id:
            questions.setdefault(broker_id, {})[question.place] = question


def _in_flight(work: ErasingWork, erasure: Erasure) -> str | None:
    """One search of a topic at a time, and one scan: what comes meanwhile is in the next."""
    if erasure.id in work.in_flight:
        return work.in_flight[erasure.id]
    needs_search = erasure.stage in (Stage.REQUESTED, Stage.SEARCHED)
    if needs_search and erasure.topic in work.searching and erasure.id not in work.searches:
        return f"a search of {erasure.topic} for others is under way; the next one is for this"
    if erasure.stage is Stage.UNLINKED and work.scanning:
        return "a scan for others is under way; the next one is for this"
    return None


def _alarm(work: ErasingWork, erasure: Erasure, outlook: Outlook) -> None:
    """Once when a deadline is about to be missed, once when it was."""
    expected = outlook.forecast
    if not expected.will_miss or erasure.deadline_ms is None:
        work.alarmed.pop(erasure.id, None)
        return
    level = "overdue" if expected.is_overdue else "at risk"
    if work.alarmed.get(erasure.id) == level:
        return
    work.alarmed[erasure.id] = level
    _LOG.log(
        logging.ERROR if expected.is_overdue else logging.WARNING,
        "erasure %s id=%s topic=%s stage=%s deadline=%s reason=%s",
        level, erasure.id, erasure.topic, erasure.stage.value, iso_time(erasure.deadline_ms),
        outlook.reason,
    )  # fmt: skip
