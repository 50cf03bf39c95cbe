"""One erasure as it stands: its facts, its next step, and when it will be done. Grade D.

What an erasure needs next is decided by `erasure.life` from facts; here the facts are gathered, and
an alarm is logged where the deadline is in danger.
"""

import logging
from typing import Final

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.facts import Facts
from ledgerstone.erasure.forecast import forecast
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.readings import observed
from ledgerstone.erasure.steps import Step
from ledgerstone.metadata.image import TopicImage
from ledgerstone.server.erasing import steps
from ledgerstone.server.erasing.facts import Look
from ledgerstone.server.erasing.scans import missing_partition
from ledgerstone.server.erasing.work import ErasingWork, Outlook
from ledgerstone.time_text import iso_time
from ledgerstone.types import TopicPartition

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
    trouble = None
    retention_ms, delay_ms = 86_400_000, 60_000
    if exists:
        partitions = look.partitions_of(erasure)
        trouble = missing_partition(work.image(), work.partitions, erasure.topic)
        hosted = work.partitions.find(TopicPartition(erasure.topic, 0))
        if hosted is not None:
            retention_ms = hosted.log.config.delete_retention_ms
            delay_ms = hosted.log.config.file_delete_delay_ms
    else:
        partitions = look.deleted_topic(erasure.topic)
    trouble = trouble or work.why_not_alone
    in_flight = _in_flight(work, erasure)
    sealed = False
    if erasure.stage is Stage.UNLINKED:
        sealed, hindrance = steps.sealed_copies(work, look, erasure)
        in_flight = in_flight or hindrance
    scan = work.replica_scans.get(erasure.id)
    salt = None if work.secrets is None else work.secrets.salt
    seen = work.watch.seen(look, erasure, salt, topic_exists=exists)
    return Facts(
        topic_exists=exists,
        partitions=partitions,
        search=work.searches.get(erasure.id),
        scans=() if scan is None else (scan,),
        node_ids=_holders(work, topic if exists else None),
        in_flight=in_flight,
        trouble=trouble,
        blocked_since_ms=work.blocked_since.get(erasure.id),
        groups_are_known=seen.are_known,
        groups=seen.groups,
        missed=seen.missed,
        removed_ms=seen.removed_ms,
        full_ledgers=seen.full_ledgers,
        more_groups=seen.more,
        sealed_copies_left=sealed,
        delete_retention_ms=retention_ms,
        file_delete_delay_ms=delay_ms,
    )


def _holders(work: ErasingWork, topic: TopicImage | None) -> tuple[int, ...]:
    """Nodes that may hold the key: every broker. A replica that was moved away may have left files
    behind, and the metadata forgets where replicas were."""
    states = () if topic is None else topic.partitions.values()
    nodes = {work.config.node_id, *work.image().brokers}
    return tuple(sorted(nodes.union(*(each.replicas for each in states))))


def _in_flight(work: ErasingWork, erasure: Erasure) -> str | None:
    """One search of a topic at a time, and one scan: what comes meanwhile is in the next."""
    if erasure.id in work.in_flight:
        return work.in_flight[erasure.id]
    needs_search = erasure.stage in (Stage.REQUESTED, Stage.SEARCHED)
    if needs_search and erasure.topic in work.searching and erasure.id not in work.searches:
        return f"a search of {erasure.topic} for others is under way; the next one is for this"
    if erasure.stage is Stage.UNLINKED and work.is_scanning:
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
