"""A history as JSON lines, one operation a line, and back. Pure.

    {"op": "sent", "client": "p1", "start_ms": 10, "end_ms": 14, "topic": "t", "partition": 0,
     "id": "p1-7", "outcome": "ok", "offset": 7}
    {"op": "polled", "client": "c1", "start_ms": 20, "end_ms": 21, "topic": "t", "partition": 0,
     "position": 7, "next_position": 8, "records": [[7, "p1-7"]]}

Field names are those of `operations`; `place` is written as `topic` and `partition`. Fields that
have their default may be left out.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING
from typing import Any, Final

from ledgerstone.dataclasses import fields
from ledgerstone.errors import LedgerstoneError
from ledgerstone.sim.history.operations import (
    Assigned,
    ClientHistory,
    LogRead,
    OffsetCommitted,
    OffsetFetched,
    Operation,
    OpOutcome,
    RecordsRead,
    Seen,
    Sent,
    TopicFacts,
    Trimmed,
    TxnEnded,
)
from ledgerstone.types import TopicPartition


class BadHistory(LedgerstoneError):
    """A line that is no operation."""


_KINDS: Final[dict[str, type[Operation]]] = {
    "topic": TopicFacts,
    "sent": Sent,
    "txn_ended": TxnEnded,
    "assigned": Assigned,
    "polled": RecordsRead,
    "offset_committed": OffsetCommitted,
    "offset_fetched": OffsetFetched,
    "trimmed": Trimmed,
    "log": LogRead,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def line_of(operation: Operation) -> str:
    """Without its line end."""
    told: dict[str, object] = {"op": _NAMES[type(operation)]}
    for each in fields(operation):
        value = getattr(operation, each.name)
        if each.default is not MISSING and value == each.default:
            continue
        if each.name == "place":
            told["topic"], told["partition"] = value
        else:
            told[each.name] = value
    return json.dumps(told, separators=(",", ":"))


def lines_of(history: ClientHistory) -> Iterator[str]:
    return map(line_of, history.operations)


def parse(lines: Iterable[str]) -> ClientHistory:
    history = ClientHistory()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            history.add(_operation(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise BadHistory(f"line {number}: {type(error).__name__}: {error}") from error
    return history


def _operation(told: dict[str, Any]) -> Operation:
    kind = _KINDS[told.pop("op")]
    if kind is not TopicFacts and "topic" in told:
        told["place"] = TopicPartition(str(told.pop("topic")), int(told.pop("partition")))
    if "outcome" in told:
        told["outcome"] = OpOutcome(told["outcome"])
    if "records" in told:
        told["records"] = tuple(Seen(int(offset), str(id_)) for offset, id_ in told["records"])
    return kind(**told)
