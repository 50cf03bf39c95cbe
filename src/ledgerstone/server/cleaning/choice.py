"""Which log the owner cleans next, and the plan it makes of it. Grade D.

Goes through every hosted log each time, as Kafka does, rolls an active segment where that is due or
asked for, and lets `cleaner.selection` choose. What becomes of a pass is in `cleaning`.
"""

import logging
from typing import TYPE_CHECKING, Final

from ledgerstone.cleaner.deadlines import Pending, must_roll, reason_now
from ledgerstone.cleaner.planning import make_plan
from ledgerstone.cleaner.selection import Candidate, Reason, choose, kafka_candidates
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.cleaning.parts import Appraisal, PassFailed, RunningPass
from ledgerstone.server.effects import Clean
from ledgerstone.storage.log import PartitionLog
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker
    from ledgerstone.server.cleaning.agent import Cleaning

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSED: Final = (OSError, StorageError, KafkaError)


def start_next(cleaning: "Cleaning", broker: "Broker") -> Clean | None:
    _refuse_hopeless(cleaning, broker)
    candidates: dict[TopicPartition, Candidate] = {}
    for partition in broker.partitions:
        if _may_be_cleaned(cleaning, broker, partition):
            candidate = _candidate(cleaning, broker, partition)
            if candidate is not None:
                candidates[partition.topic_partition] = candidate
    while candidates:
        chosen = choose(candidates.values(), due_first=cleaning.settings.finish_deletes)
        assert chosen is not None
        del candidates[chosen.log.topic_partition]
        started = _start(cleaning, broker, chosen)
        if started is not None:
            return started
    return None


def _refuse_hopeless(cleaning: "Cleaning", broker: "Broker") -> None:
    """Who asked for a pass that cannot come is told so."""
    for tp in list(cleaning.asked):
        partition = broker.partitions.find(tp)
        if partition is None:
            cleaning.refuse(tp, "the partition is not here")
        elif partition.log.failure is not None:
            cleaning.refuse(tp, f"the log takes no writes: {partition.log.failure}")


def _may_be_cleaned(cleaning: "Cleaning", broker: "Broker", partition: Partition) -> bool:
    tp, log = partition.topic_partition, partition.log
    if log.failure is not None or not cleaning.states.is_free(tp):
        return False
    if tp in cleaning.asked:
        return True
    trouble = cleaning.troubles.get(tp)
    if trouble is not None:
        retry_at_ms = trouble.retry_at_ms
        if retry_at_ms is None or broker.clock.monotonic_ms() < retry_at_ms:
            cleaning.look_at(retry_at_ms)
            return False
    return log.config.compacts


def _candidate(cleaning: "Cleaning", broker: "Broker", partition: Partition) -> Candidate | None:
    """What is wrong with one log does not keep the others from being cleaned."""
    tp, log = partition.topic_partition, partition.log
    try:
        appraisal = cleaning.appraise(log)
        if appraisal.log.checkpoint_is_wrong:
            cleaning.files.set_first_dirty_offset(tp, appraisal.log.first_dirty_offset)
        if tp in cleaning.asked:
            if log.segments.active.size > 0:
                log.roll()
            return Candidate(cleaning.appraise(log).log, Reason.ASKED)
        if must_roll(appraisal.facts, appraisal.dues, now_ms=log.clock.now_ms()):
            log.roll()
            appraisal = cleaning.appraise(log)
        return _judge(cleaning, broker, tp, appraisal)
    except _DISK_REFUSED as error:
        cleaning.failed(broker, tp, PassFailed(f"{error}"))
        cleaning.refuse(tp, f"{error}")
        return None


def _judge(
    cleaning: "Cleaning", broker: "Broker", tp: TopicPartition, appraisal: Appraisal
) -> Candidate | None:
    pending = cleaning.pending.get(tp, Pending())
    now_ms, monotonic_ms = broker.clock.now_ms(), broker.clock.monotonic_ms()
    reason = reason_now(appraisal.log, pending, appraisal.dues, now_ms=now_ms)
    if reason is not None:
        return Candidate(appraisal.log, reason)
    waits = [max(due.at_ms, pending.rest_until_ms) - now_ms for due in appraisal.dues]
    for wait_ms in waits:
        if wait_ms > 0:
            cleaning.look_at(monotonic_ms + wait_ms)
    return next(iter(kafka_candidates([appraisal.log])), None)


def _start(cleaning: "Cleaning", broker: "Broker", chosen: Candidate) -> Clean | None:
    tp = chosen.log.topic_partition
    partition = broker.partitions.get(tp)
    log, now_ms = partition.log, broker.clock.now_ms()
    number = cleaning.asked.pop(tp, None)
    try:
        holds = cleaning.holds_of(log)
        plan = make_plan(log, chosen.log, cleaning.settings, now_ms=now_ms, holds=holds)
    except _DISK_REFUSED as error:
        cleaning.failed(broker, tp, PassFailed(f"{error}"))
        plan = None
    if plan is None:
        if number is not None:
            cleaning.tickets[number].refusal = _nothing_sealed(cleaning, log)
        return None
    cleaning.guard.pass_begins(log, plan, holds)
    running = RunningPass(
        number=cleaning.take_number(),
        plan=plan,
        topic_id=partition.topic_id,
        reason=chosen.reason,
        truncations=log.truncations,
        started_monotonic_ms=broker.clock.monotonic_ms(),
        ticket=number,
    )
    cleaning.states.grab(tp)
    cleaning.running[running.number] = running
    _LOG.info(
        "cleaning started partition=%s first_dirty_offset=%d first_uncleanable_offset=%d "
        "segments=%d dirty_ratio=%.3f reason=%s",
        tp, plan.first_dirty_offset, plan.first_uncleanable_offset, len(plan.segments),
        chosen.log.dirty_ratio, chosen.reason.value,
    )  # fmt: skip
    return Clean(running.number, plan)


def _nothing_sealed(cleaning: "Cleaning", log: PartitionLog) -> str:
    trouble = cleaning.troubles.get(log.topic_partition)
    if trouble is not None:
        return trouble.detail
    if not log.size_bytes:
        return "the log is empty"
    return "no segment may be cleaned yet; `ledgerstone why` tells what keeps them"
