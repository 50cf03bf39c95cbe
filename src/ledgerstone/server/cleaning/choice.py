"""Which log the owner cleans next, and the plan it makes of it. Grade D.

Goes through every hosted log each time, as Kafka does, rolls an active segment where that is due or
asked for, and lets `cleaner.selection` choose. What becomes of a pass is in `agent`.
"""

import logging
from typing import Final

from ledgerstone.cleaner.deadlines import Pending, must_roll, reason_now
from ledgerstone.cleaner.planning import make_plan
from ledgerstone.cleaner.selection import Candidate, CleaningReason, choose, kafka_candidates
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.parts import Appraisal, PassFailed, RunningPass
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import Clean
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSED: Final = (OSError, StorageError, KafkaError)


def start_next(work: CleaningWork) -> Clean | None:
    _refuse_hopeless(work)
    candidates: dict[TopicPartition, Candidate] = {}
    for partition in work.partitions:
        if _may_be_cleaned(work, partition):
            candidate = _candidate(work, partition)
            if candidate is not None:
                candidates[partition.topic_partition] = candidate
    while candidates:
        chosen = choose(candidates.values(), due_first=work.settings.finish_deletes)
        assert chosen is not None
        del candidates[chosen.log.topic_partition]
        started = _start(work, chosen)
        if started is not None:
            return started
    return None


def _refuse_hopeless(work: CleaningWork) -> None:
    """Refuses tickets for passes that cannot come."""
    for tp in list(work.asked):
        partition = work.partitions.find(tp)
        if partition is None:
            work.refuse(tp, "the partition is not here")
        elif partition.log.failure is not None:
            work.refuse(tp, f"the log takes no writes: {partition.log.failure}")
        elif not partition.log.config.compacts:
            # It may have been compacted when the pass was asked for. Whoever takes compact from a
            # policy wants to keep every record from then on.
            work.refuse(tp, "cleanup.policy does not contain compact")


def _may_be_cleaned(work: CleaningWork, partition: Partition) -> bool:
    tp, log = partition.topic_partition, partition.log
    if log.failure is not None or not work.states.is_free(tp):
        return False
    if tp in work.asked:
        return True
    trouble = work.troubles.get(tp)
    if trouble is not None:
        retry_at_ms = trouble.retry_at_ms
        if retry_at_ms is None or work.clock.monotonic_ms() < retry_at_ms:
            work.look_at(retry_at_ms)
            return False
    return log.config.compacts


def _candidate(work: CleaningWork, partition: Partition) -> Candidate | None:
    """What is wrong with one log does not keep the others from being cleaned."""
    tp, log = partition.topic_partition, partition.log
    try:
        appraisal = work.appraise(log)
        if appraisal.log.checkpoint_is_wrong:
            work.files.set_first_dirty_offset(tp, appraisal.log.first_dirty_offset)
        if tp in work.asked:
            if log.segments.active.size > 0:
                log.roll()
            return Candidate(work.appraise(log).log, CleaningReason.ASKED)
        if must_roll(appraisal.facts, appraisal.dues, now_ms=log.clock.now_ms()):
            log.roll()
            appraisal = work.appraise(log)
        return _judge(work, tp, appraisal)
    except _DISK_REFUSED as error:
        work.failed(tp, PassFailed(f"{error}"))
        work.refuse(tp, f"{error}")
        return None


def _judge(work: CleaningWork, tp: TopicPartition, appraisal: Appraisal) -> Candidate | None:
    pending = work.pending.get(tp, Pending())
    now_ms, monotonic_ms = work.clock.now_ms(), work.clock.monotonic_ms()
    reason = reason_now(appraisal.log, pending, appraisal.dues, now_ms=now_ms)
    if reason is not None:
        return Candidate(appraisal.log, reason)
    waits = [max(due.at_ms, pending.rest_until_ms) - now_ms for due in appraisal.dues]
    for wait_ms in waits:
        if wait_ms > 0:
            work.look_at(monotonic_ms + wait_ms)
    return next(iter(kafka_candidates([appraisal.log])), None)


def _start(work: CleaningWork, chosen: Candidate) -> Clean | None:
    tp = chosen.log.topic_partition
    partition = work.partitions.get(tp)
    log, now_ms = partition.log, work.clock.now_ms()
    number = work.asked.pop(tp, None)
    try:
        holds = work.holds_of(log)
        plan = make_plan(log, chosen.log, work.settings, now_ms=now_ms, holds=holds)
    except _DISK_REFUSED as error:
        work.failed(tp, PassFailed(f"{error}"))
        plan = None
    if plan is None:
        if number is not None:
            work.tickets[number].refusal = _nothing_sealed(work, log)
        return None
    work.guard.pass_begins(log, plan, holds)
    running = RunningPass(
        number=work.take_number(),
        plan=plan,
        topic_id=partition.topic_id,
        reason=chosen.reason,
        truncations=log.truncations,
        started_monotonic_ms=work.clock.monotonic_ms(),
        ticket=number,
    )
    work.states.grab(tp)
    work.running[running.number] = running
    _LOG.info(
        "cleaning started partition=%s first_dirty_offset=%d first_uncleanable_offset=%d "
        "segments=%d dirty_ratio=%.3f reason=%s",
        tp, plan.first_dirty_offset, plan.first_uncleanable_offset, len(plan.segments),
        chosen.log.dirty_ratio, chosen.reason.value,
    )  # fmt: skip
    return Clean(running.number, plan)


def _nothing_sealed(work: CleaningWork, log: PartitionLog) -> str:
    trouble = work.troubles.get(log.topic_partition)
    if trouble is not None:
        return trouble.detail
    if not log.size_bytes:
        return "the log is empty"
    return "no segment may be cleaned yet; `ledgerstone why` tells what keeps them"
