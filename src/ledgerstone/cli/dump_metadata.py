"""Records of `__cluster_metadata`, its snapshots and `bootstrap.checkpoint`, decoded. Shell.

As with transactions, the bytes themselves are in the line of the record, and a record that cannot
be decoded is a problem: no node would follow such a log.

Output of this command ends in tickets and chats. Keys of users and passwords among settings are
shown to those who ask for them (`--secrets`), and neither in the fields nor in the bytes otherwise.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, TypeVar

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.errors import LedgerstoneError
from ledgerstone.fs import name_of, parent_of
from ledgerstone.metadata.records import decode_record
from ledgerstone.protocol.message import MetadataRecord, Struct
from ledgerstone.protocol.messages.metadata_records import (
    ConfigRecord,
    UserScramCredentialRecord,
)
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.storage.dump_facts import Problem
from ledgerstone.storage.dump_log import RecordFacts
from ledgerstone.storage.filenames import BOOTSTRAP_CHECKPOINT
from ledgerstone.uuid_text import UUID_BYTES, uuid_to_text

F = TypeVar("F")

_METADATA_DIRECTORY: Final = "__cluster_metadata-0"
_HIDDEN: Final = "[hidden]"
_SECRET_SETTING: Final = re.compile(r"password|secret|jaas|\.key$|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFacts:
    """What the record at `offset` says. `fields` leaves out those at their defaults."""

    type: ClassVar[str] = "metadata"
    path: str
    offset: int
    record: str
    fields: dict[str, object]


def with_metadata(
    facts: Iterable[F], *, shows_secrets: bool = False
) -> Iterator[F | RecordFacts | MetadataFacts | Problem]:
    """The same facts, and behind each record of the metadata what it says."""
    for fact in facts:
        if isinstance(fact, RecordFacts) and _is_of_metadata(fact):
            yield from _decoded(fact, shows_secrets=shows_secrets)
        else:
            yield fact


def _is_of_metadata(record: RecordFacts) -> bool:
    is_there = name_of(parent_of(record.path)) == _METADATA_DIRECTORY
    return not record.is_control and (is_there or name_of(record.path) == BOOTSTRAP_CHECKPOINT)


def _decoded(
    record: RecordFacts, *, shows_secrets: bool
) -> Iterator[RecordFacts | MetadataFacts | Problem]:
    try:
        found = decode_record(record.value or b"")
    except (LedgerstoneError, ProtocolViolation, ValueError) as error:
        yield record
        reason = f"the record at offset {record.offset} is none of the metadata: {error}"
        yield Problem(path=record.path, position=record.batch_position, reason=reason)
        return
    fields = _fields_of(found)
    secrets = [] if shows_secrets else _secrets_in(found)
    yield replace(record, value=_HIDDEN.encode()) if secrets else record
    yield MetadataFacts(
        path=record.path,
        offset=record.offset,
        record=type(found).__name__.removesuffix("Record"),
        fields={name: _HIDDEN if name in secrets else value for name, value in fields.items()},
    )


def _secrets_in(record: MetadataRecord) -> list[str]:
    """Names of its fields. Apache Kafka keeps passwords of dynamic settings in the clear."""
    if isinstance(record, UserScramCredentialRecord):
        return ["salt", "stored_key", "server_key"]
    is_secret = isinstance(record, ConfigRecord) and _SECRET_SETTING.search(record.name)
    return ["value"] if is_secret else []


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
