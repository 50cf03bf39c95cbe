"""Records that do not fit the definition: refused, skipped, or sent to another topic. Pure.

A dead letter has the key and value of the record; its headers say where it was and what is wrong
with it. Dead letters are sent before the table's positions advance, so none is lost. A run that
dies in between sends some again, unless the definition says `exactly_once`; topic, partition and
offset identify them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from ledgerstone.pipeline.changes import split_bad
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import RecordRefused
from ledgerstone.pipeline.layout import BAD, KEY, OFFSET, PARTITION, VALUE

HEADER_PREFIX: Final = "ledgerstone.dead-letter"
SHOWN: Final = 5  # of the bad records that stop a run


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
    key: bytes | None = None
    value: bytes | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}: {self.reason}"


def judged(changes: pa.Table, unfit: Callable[[pa.Table], Mapping[int, str]]) -> pa.Table:
    """The changes, of which those that the table cannot hold are bad too."""
    return pa.concat_tables(sorted_out(changes, unfit))


def sorted_out(
    changes: pa.Table, unfit: Callable[[pa.Table], Mapping[int, str]]
) -> tuple[pa.Table, pa.Table]:
    """The good changes, and the bad ones; `unfit` names rows that the table cannot hold."""
    good, bad = split_bad(changes)
    reasons = unfit(good)
    if not reasons:
        return good, bad
    column = pa.array([reasons.get(row) for row in range(good.num_rows)], pa.string())
    at = good.schema.get_field_index(BAD)
    good, more = split_bad(good.set_column(at, good.schema.field(BAD), column))
    return good, pa.concat_tables([bad, more])


def bad_records(topic: str, changes: pa.Table) -> Iterator[BadRecord]:
    """`changes` contains only bad ones."""
    names = (PARTITION, OFFSET, BAD, KEY, VALUE)
    cells = zip(*(changes.column(name).to_pylist() for name in names), strict=True)
    return (BadRecord(topic, *each) for each in cells)


def refused(some: Sequence[BadRecord], count: int) -> RecordRefused:
    shown = "; ".join(map(str, some[:SHOWN]))
    more = f"; and {count - SHOWN} more" if count > SHOWN else ""
    return RecordRefused(
        f"{shown}{more}. Change the definition, or choose on_bad_record: skip or dead_letter"
    )


def letters_of(pipeline: Pipeline, bad: Iterable[BadRecord]) -> list[Letter]:
    assert pipeline.dead_letter_topic is not None, "dead letters without a topic"
    return [_letter(pipeline.name, pipeline.dead_letter_topic, each) for each in bad]


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
