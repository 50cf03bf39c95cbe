"""Runs a script on one broker: its answers, without what two brokers cannot have in common."""

from collections.abc import Sequence
from typing import Any, Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import Struct
from ledgerstone.records.batch import iter_headers
from tests.compat.both_brokers import CLOSED, Case, Outcome, Side, comparable
from tests.compat.txn_pen import T0, Script, Step
from tests.kit.broker import wait_until

HOUR_MS: Final = 3_600_000
YEARS_MS: Final = 100 * 365 * 24 * HOUR_MS
PARTITIONS: Final = 3
NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
FINISHING: Final = ("PrepareCommit", "PrepareAbort")
ORDERED_BY: Final = ("partition_index", "index", "name", "topic", "transactional_id", "producer_id")


def make_topics(side: Side, scripts: Sequence[Script]) -> None:
    # Records are old and markers are new: no segment may roll because of that.
    whole = {"name": "segment.ms", "value": str(YEARS_MS)}
    common = {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": [whole]}
    asked = [{"name": each.topic, **common} for each in scripts]
    fields = {"topics": asked, "timeout_ms": 30_000}
    made: Any = side.ask(Case("make topics", "CreateTopics", fields), 7)
    assert [each.error_code for each in made.topics] == [ErrorCode.NONE] * len(asked)


def run(side: Side, asked: Script) -> dict[str, Outcome]:
    """The answer to each step, by its label."""
    _await_coordinator(side, asked)
    found: dict[str, Outcome] = {}
    for step in asked.steps:
        if step.case is None:
            _await_markers(side, asked.tid)
        else:
            found[step.label] = _answer(side, asked, step)
    return found


def _answer(side: Side, asked: Script, step: Step) -> Outcome:
    assert step.case is not None
    answer: Any = side.ask(step.case, step.version)
    if answer is None:
        return CLOSED
    # InitProducerId, and EndTxn from version 5 on.
    if getattr(answer, "producer_id", -1) >= 0 and answer.error_code == ErrorCode.NONE:
        side.known[f"pid {asked.name}"] = answer.producer_id
        side.known[f"epoch {asked.name}"] = answer.producer_epoch
    _sort(answer)
    found = comparable(side, answer)
    return {path: _without_times(path, each) for path, each in found.items()}


def _sort(value: Any) -> None:
    """Kafka answers in the order of its hash maps."""
    if isinstance(value, Struct):
        for name in value.__slots__:
            each = getattr(value, name)
            _sort(each)
            if name == "partitions" and each and isinstance(each[0], int):
                each.sort()
    elif isinstance(value, list) and value and isinstance(value[0], Struct):
        for each in value:
            _sort(each)
        by = next((name for name in ORDERED_BY if hasattr(value[0], name)), None)
        if by is not None:
            value.sort(key=lambda each: getattr(each, by))


def _without_times(path: str, value: object) -> object:
    """Markers have the time at which they were written."""
    if path.endswith(".records"):
        return _batches(value)
    if path.endswith(".timestamp") and isinstance(value, int) and value > T0 + HOUR_MS:
        return "now"
    return value


def _batches(records: object) -> object:
    """Batches without producer ids and times, which are each broker's own."""
    if not isinstance(records, bytes):
        return records
    return [
        [
            batch.base_offset,
            batch.record_count,
            batch.producer_epoch,
            batch.base_sequence,
            "transactional" if batch.is_transactional else "plain",
            "control" if batch.is_control else "data",
        ]
        for _, batch in iter_headers(records)
    ]


def _await_coordinator(side: Side, asked: Script) -> None:
    """Of the transactional id and of the group."""
    tid = asked.tid

    def is_there() -> bool:
        group: Any = side.ask(
            Case("", "FindCoordinator", {"key_type": 0, "coordinator_keys": [asked.group]}), 4
        )
        if group.coordinators[0].error_code != ErrorCode.NONE:
            return False
        offsets: Any = side.ask(
            Case("", "OffsetFetch", {"groups": [{"group_id": asked.group, "topics": None}]}), 8
        )
        if offsets.groups[0].error_code != ErrorCode.NONE:
            return False
        found: Any = side.ask(
            Case("", "FindCoordinator", {"key_type": 1, "coordinator_keys": [tid]}), 4
        )
        if found.coordinators[0].error_code != ErrorCode.NONE:
            return False
        fields = {"transactional_id": None, "transaction_timeout_ms": 10}
        ids: Any = side.ask(Case("", "InitProducerId", fields), 4)
        return ids.error_code == ErrorCode.NONE and _state(side, tid) != "loading"

    wait_until(is_there, "the coordinator is there", 60.0)


def _await_markers(side: Side, tid: str) -> None:
    wait_until(lambda: _state(side, tid) not in FINISHING, "markers are written")


def _state(side: Side, tid: str) -> str:
    answer: Any = side.ask(Case("", "DescribeTransactions", {"transactional_ids": [tid]}), 0)
    (found,) = answer.transaction_states
    return "loading" if found.error_code in NOT_YET else str(found.transaction_state)
