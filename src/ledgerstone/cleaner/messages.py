"""Plans, groups and reports as the content of messages. Pure. How they travel is in `workers`."""

from ledgerstone.cleaner.plan import (
    CleanedGroup,
    CleaningPlan,
    LastBatch,
    OffsetSpan,
    PassReport,
    PassStats,
    SourceSegment,
    TombstoneRange,
    TombstoneTraces,
)
from ledgerstone.dataclasses import asdict
from ledgerstone.types import TopicPartition
from ledgerstone.workers.frames import Message


def plan_message(plan: CleaningPlan) -> Message:
    return asdict(plan)


def plan_of(message: Message) -> CleaningPlan:
    content = dict(message)
    content["topic_partition"] = TopicPartition(*content["topic_partition"])
    content["segments"] = tuple(SourceSegment(**each) for each in content["segments"])
    content["producers"] = {
        # JSON keys cannot be numbers.
        int(producer_id): LastBatch(**last)
        for producer_id, last in content["producers"].items()
    }
    return CleaningPlan(**content)


def group_message(group: CleanedGroup) -> Message:
    return asdict(group)


def group_of(message: Message) -> CleanedGroup:
    return CleanedGroup(**{**message, "source_bases": tuple(message["source_bases"])})


def report_message(report: PassReport) -> Message:
    return asdict(report)


def report_of(message: Message) -> PassReport:
    content = dict(message)
    content["topic_partition"] = TopicPartition(*content["topic_partition"])
    content["groups"] = tuple(group_of(each) for each in content["groups"])
    content["stats"] = PassStats(**content["stats"])
    if content["tombstones"] is None:
        return PassReport(**content)
    removed = content["tombstones"]["removed"]
    content["tombstones"] = TombstoneTraces(
        pending=tuple(TombstoneRange(*each) for each in content["tombstones"]["pending"]),
        removed=None if removed is None else OffsetSpan(*removed),
    )
    return PassReport(**content)
