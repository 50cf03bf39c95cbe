"""Records of `__cluster_metadata`, its snapshots and `bootstrap.checkpoint`, decoded. Shell.

As with transactions, the bytes themselves are in the line of the record, and a record that cannot
be decoded is a problem: no node would follow such a log.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, TypeVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import LedgerstoneError
from ledgerstone.fs import name_of, parent_of
from ledgerstone.metadata.records import decode_record
from ledgerstone.protocol.message import Struct
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.storage.dump_facts import Problem
from ledgerstone.storage.dump_log import RecordFacts
from ledgerstone.storage.filenames import BOOTSTRAP_CHECKPOINT
from ledgerstone.uuid_text import UUID_BYTES, uuid_to_text

F = TypeVar("F")

_METADATA_DIRECTORY: Final = "__cluster_metadata-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFacts:
    """What the record at `offset` says. `fields` leaves out those at their defaults."""

    type: ClassVar[str] = "metadata"
    path: str
    offset: int
    record: str
    fields: dict[str, object]


def with_metadata(facts: Iterable[F]) -> Iterator[F | MetadataFacts | Problem]:
    """The same facts, and behind each record of the metadata what it says."""
    for fact in facts:
        yield fact
        if isinstance(fact, RecordFacts) and _is_of_metadata(fact):
            yield from _decoded(fact)


def _is_of_metadata(record: RecordFacts) -> bool:
    is_there = name_of(parent_of(record.path)) == _METADATA_DIRECTORY
    return not record.is_control and (is_there or name_of(record.path) == BOOTSTRAP_CHECKPOINT)


def _decoded(record: RecordFacts) -> Iterator[MetadataFacts | Problem]:
    try:
        found = decode_record(record.value or b"")
    except (LedgerstoneError, ProtocolViolation, ValueError) as error:
        reason = f"the record at offset {record.offset} is none of the metadata: {error}"
        yield Problem(path=record.path, position=record.batch_position, reason=reason)
        return
    yield MetadataFacts(
        path=record.path,
        offset=record.offset,
        record=type(found).__name__.removesuffix("Record"),
        fields=_fields_of(found),
    )


def _fields_of(struct: Struct) -> dict[str, object]:
    usual = type(struct)()
    return {
        name: _plain(getattr(struct, name))
        for name in struct.__slots__
        if getattr(struct, name) != getattr(usual, name)
    }


def _plain(value: object) -> object:
    match value:
        case Struct():
            return _fields_of(value)
        case list():
            return [_plain(each) for each in value]
        case bytes() if len(value) == UUID_BYTES:
            return uuid_to_text(value)
        case bytes():
            return value.hex()
        case _:
            return value
