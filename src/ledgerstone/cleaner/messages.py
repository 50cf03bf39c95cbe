"""How plans and reports travel between a broker and its cleaning worker. Pure.

A frame is a length of four bytes, then JSON. Both ends are the same program, so there is only one
version. Nothing is unpickled. The conversation is in `worker`.
"""

import json
from dataclasses import asdict
from typing import Any, Final

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
from ledgerstone.types import TopicPartition

LENGTH_BYTES: Final = 4
# A plan names every segment and every live producer; none comes close to this.
MAX_FRAME_BYTES: Final = 256 << 20

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def body_size(prefix: bytes) -> int:
    """Raises ValueError for a length that none of our messages has."""
    size = int.from_bytes(prefix, "big")
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {size} bytes, at most {MAX_FRAME_BYTES} are accepted")
    return size


def decode(body: bytes) -> Message:
    message = json.loads(body)
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ValueError(f"{body[:80]!r} is not a message")
    return message


def plan_message(plan: CleaningPlan) -> Message:
    return {"kind": "clean", "plan": asdict(plan)}


def plan_of(message: Message) -> CleaningPlan:
    content = dict(message["plan"])
    content["topic_partition"] = TopicPartition(*content["topic_partition"])
    content["segments"] = tuple(SourceSegment(**each) for each in content["segments"])
    content["producers"] = {
        # JSON keys cannot be numbers.
        int(producer_id): LastBatch(**last)
        for producer_id, last in content["producers"].items()
    }
    return CleaningPlan(**content)


def group_message(group: CleanedGroup) -> Message:
    return {"kind": "group", "group": asdict(group)}


def group_of(message: Message) -> CleanedGroup:
    return _group_from(message["group"])


def _group_from(content: Message) -> CleanedGroup:
    return CleanedGroup(**{**content, "source_bases": tuple(content["source_bases"])})


def report_message(report: PassReport) -> Message:
    return {"kind": "done", "report": asdict(report)}


def report_of(message: Message) -> PassReport:
    content = dict(message["report"])
    content["topic_partition"] = TopicPartition(*content["topic_partition"])
    content["groups"] = tuple(_group_from(each) for each in content["groups"])
    content["stats"] = PassStats(**content["stats"])
    if content["tombstones"] is None:
        return PassReport(**content)
    removed = content["tombstones"]["removed"]
    content["tombstones"] = TombstoneTraces(
        pending=tuple(TombstoneRange(*each) for each in content["tombstones"]["pending"]),
        removed=None if removed is None else OffsetSpan(*removed),
    )
    return PassReport(**content)
