"""Records that do not fit the definition: refused, skipped, or sent to another topic. Pure.

A dead letter has the key and value of the record; its headers say where it was and what is wrong
with it. Dead letters are sent before the table's positions advance, so none is lost. A run that
dies in between sends some again, unless the definition says `exactly_once`; topic, partition and
offset identify them.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from ledgerstone.pipeline.definition import OnBadRecord, Pipeline
from ledgerstone.pipeline.errors import RecordRefused
from ledgerstone.pipeline.layout import BAD, KEY, OFFSET, PARTITION, VALUE

HEADER_PREFIX: Final = "ledgerstone.dead-letter"
_SHOWN: Final = 5


class Letter(NamedTuple):
    """A record to send."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int  # of the bad record
    offset: int


SendLetters = Callable[[list[Letter]], None]


class BadRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}: {self.reason}"


def bad_records(topic: str, changes: pa.Table) -> Iterator[BadRecord]:
    """`changes` contains only bad ones."""
    names = (PARTITION, OFFSET, BAD, KEY, VALUE)
    cells = zip(*(changes.column(name).to_pylist() for name in names), strict=True)
    return (BadRecord(topic, *each) for each in cells)


def settle(pipeline: Pipeline, bad: list[BadRecord], send: SendLetters) -> None:
    """Handles them as the definition says; raises RecordRefused if that is to stop."""
    if not bad or pipeline.on_bad_record is OnBadRecord.SKIP:
        return
    if pipeline.on_bad_record is OnBadRecord.FAIL:
        shown = "; ".join(map(str, bad[:_SHOWN]))
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise RecordRefused(
            f"{shown}{more}. Change the definition, or choose on_bad_record: skip or dead_letter"
        )
    assert pipeline.dead_letter_topic is not None, "dead letters without a topic"
    send([_letter(pipeline.name, pipeline.dead_letter_topic, each) for each in bad])


def _letter(pipeline: str, topic: str, bad: BadRecord) -> Letter:
    said = {
        "pipeline": pipeline,
        "topic": bad.topic,
        "partition": str(bad.partition),
        "offset": str(bad.offset),
        "reason": bad.reason,
    }
    headers = [(f"{HEADER_PREFIX}.{name}", text.encode()) for name, text in said.items()]
    return Letter(topic, bad.key, bad.value, headers, bad.partition, bad.offset)
