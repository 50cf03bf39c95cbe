"""Produces a record or a tombstone from a form, to the partition of its key. Grade D.

It goes through the handler for clients' records, so the same rules apply. The form distinguishes an
empty value from no value: only the latter deletes.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.client.partitioner import partition_of
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.security.principal import ANONYMOUS
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers import produce
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.gate import need
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.server.request import Parked, Request
from ledgerstone.server.session import Session
from ledgerstone.web.forms import as_field, bytes_in, form_of, path_of, see_other, whole_number
from ledgerstone.web.hosting import topic_facts, topic_of
from ledgerstone.web.record_at import key_at, place_in
from ledgerstone.web.router import NotShown, Rendered, SlowAnswer

_VERSION: Final = 11
_API_KEY: Final = 0
_TIMEOUT_MS: Final = 10_000
_CLIENT: Final = "ledgerstone-page"


def produce_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    """Filled with the key of the record that `partition` and `offset` name, if given."""
    topic, place = topic_of(broker, parts), place_in(request.query)
    if place is not None:
        need(broker, request.asker, AclOperation.READ, AclResourceType.TOPIC, topic)
    key = b"" if place is None else (yield from key_at(broker, topic, place))
    text, written = as_field(key)
    facts = {"key": text, "key_as": written, "is_tombstone": "tombstone" in request.query}
    return Rendered("produce.html", {**topic_facts(broker, topic), **facts})


def produce_record(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Page:
    topic, fields = topic_of(broker, parts), form_of(request)
    count = len(broker.image.topics[topic].partitions)
    key = None if "keyless" in fields else bytes_in(fields, "key")
    is_tombstone = fields.get("kind") == "tombstone"
    value = None if is_tombstone else bytes_in(fields, "value")
    number = whole_number(fields, "partition", at_most=count - 1)
    if number is None:
        number = 0 if key is None else partition_of(key, count)
    record = (broker.clock.now_ms(), key, value, _headers(fields))
    offset = _append(broker, request.asker, topic, number, build_batch([record]))
    what = "Tombstone" if is_tombstone else "Record"
    return see_other(
        path_of("topics", topic, "records"),
        partition=str(number),
        notice=f"{what} written to partition {number} at offset {offset}.",
    )


def _headers(fields: dict[str, str]) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for line in fields.get("headers", "").splitlines():
        if line.strip():
            name, colon, text = line.partition(":")
            if not colon:
                raise NotShown(400, f"Headers are name: value, one a line; not {line[:80]!r}.")
            headers.append((name.strip(), text.strip().encode()))
    return headers


def _append(broker: Broker, asker: Asker, topic: str, number: int, batch: bytearray) -> int:
    message = ProduceRequest(
        acks=-1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            ProduceTopicData(
                name=topic, partition_data=[ProducePartitionData(index=number, records=batch)]
            )
        ],
    )
    session = Session(asker.host or "127.0.0.1", "HTTP", asker.principal or ANONYMOUS)
    asked = Request(-1, _API_KEY, _VERSION, 0, _CLIENT, session, broker.clock.monotonic_ms())
    answer = produce.handle(broker, asked, message)
    if isinstance(answer, Parked):
        raise NotShown(503, "The record is written, but not yet on every required replica.")
    assert isinstance(answer, ProduceResponse)
    part = answer.responses[0].partition_responses[0]
    if part.error_code:
        reasons = [each.batch_index_error_message for each in part.record_errors]
        told = part.error_message or next(filter(None, reasons), None)
        raise NotShown(400, f"The record was not written: {told or f'error {part.error_code}'}")
    return part.base_offset
