"""Where did my key go: the remaining records of a key, why they are there, and what removed others.

Grade D. The scanning worker searches the files, as for `ledgerstone where`; the page polls until it
is done. Only a hash of the key is kept, as long as its search. The key is never part of an address:
a form sends it, or a link names one of its records.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ledgerstone.cleaner.why import Gate, Situation
from ledgerstone.client.partitioner import partition_of
from ledgerstone.erasure.places import LIVE
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.records.batch import DELETE_HORIZON_FLAG, HEADER_SIZE, read_header
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.view import situation_of
from ledgerstone.server.erasing.scans import SearchTicket
from ledgerstone.server.http import erasure as http_erasure
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.storage.filenames import parse_file_name
from ledgerstone.types import TopicPartition
from ledgerstone.web.course import Course
from ledgerstone.web.forms import as_field, bytes_in, form_of
from ledgerstone.web.hosting import topic_facts, topic_of
from ledgerstone.web.key_history_words import (
    PlaceRow,
    gates_of,
    latest_of,
    pass_rows,
    place_row,
    summary,
)
from ledgerstone.web.record_at import key_at, place_in
from ledgerstone.web.router import NotShown, Rendered, SlowAnswer
from ledgerstone.web.tombstone_course import course_of_key, course_of_lost_key

SHOWN_PLACES: Final = 200
# Each reads the whole topic; further searches wait until some are done.
MOST_SEARCHES: Final = 4


class KeyStanding(NamedTuple):
    """The key's stage in one partition; `partition` is None if it is in none."""

    partition: int | None
    offset: int | None
    course: Course


def key_history_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    topic = topic_of(broker, parts)
    facts: dict[str, object] = {
        **topic_facts(broker, topic),
        "key": "",
        "key_as": "text",
        "place": None,
        "history": None,
        "search": None,
        "failure": None,
    }
    if request.method == "POST":
        fields = form_of(request)
        key = bytes_in(fields, "key")
    else:
        fields, place = dict(request.query), place_in(request.query)
        if place is None:
            return Rendered("key_history.html", facts)
        key = yield from key_at(broker, topic, place)
        facts["place"] = place
    facts["key"], facts["key_as"] = as_field(key)
    ticket = _ticket(broker, topic, key, fields.get("search"))
    if ticket.result is None:
        facts["search"] = ticket.number
    else:
        content = ticket.to_json()
        facts["failure"] = content["failure"]
        if content["answer"] is not None:
            facts["history"] = _history(broker, topic, key, content["answer"], request.asker)
    return Rendered("key_history.html", facts)


# -- the search -----------------------------------------------------------------------------------


def _ticket(broker: Broker, topic: str, key: bytes, number: str | None) -> SearchTicket:
    """The search that this page started, or a new one."""
    tickets, begun = broker.erasing.tickets, broker.anatomy.key_searches
    asked = sha256(f"{topic}/".encode() + key).digest()
    if number is not None and number.isascii() and number.isdecimal() and len(number) <= 18:
        ticket = tickets.get(int(number))
        if ticket is not None and begun.get(ticket.number) == asked:
            return ticket
    for old in [each for each in begun if tickets.get(each) is None]:
        del begun[old]
    waiting = [each for each in begun if _is_waiting(tickets.get(each))]
    if len(waiting) >= MOST_SEARCHES:
        raise NotShown(503, f"{len(waiting)} searches are under way; try again when they are done.")
    body = json.dumps({"key": b64encode(key).decode("ascii")}).encode()
    search = HttpRequest("POST", "", {}, {}, body)
    calls = http_erasure.calls(broker, search, ["topics", topic, "where"])
    assert calls is not None
    answer: Any = calls["POST"]()
    begun[answer["search"]] = asked
    broker.anatomy.wake()
    begun_ticket = tickets.get(answer["search"])
    assert begun_ticket is not None
    return begun_ticket


def _is_waiting(ticket: SearchTicket | None) -> bool:
    return ticket is not None and ticket.result is None


# -- what it found --------------------------------------------------------------------------------


def _history(
    broker: Broker, topic: str, key: bytes, answer: dict[str, Any], asker: Asker
) -> dict[str, object]:
    numbers = sorted(broker.image.topics[topic].partitions)
    home = partition_of(key, len(numbers))
    rows: list[PlaceRow] = []
    situations: dict[int, tuple[Situation | None, list[Gate]]] = {}
    places = answer["places"][-SHOWN_PLACES:]
    next_offsets = _next_offsets(places)
    for place in places:
        number = place["partition"]
        partition = broker.partitions.find(TopicPartition(topic, number))
        if number not in situations:
            about = _situation(broker, partition, asker)
            situations[number] = about, gates_of(about)
        horizon_ms = _horizon_ms(partition, place)
        next_offset = next_offsets.get((number, place["offset"]))
        rows.append(place_row(place, *situations[number], horizon_ms, next_offset))
    latest = {row.partition: row.offset for row in rows if row.file_state == LIVE}
    passes = []
    for number in sorted({home, *latest}):
        partition = broker.partitions.find(TopicPartition(topic, number))
        if partition is not None:
            runs = broker.cleaning.files.runs(partition.log)
            passes += pass_rows(number, runs, latest.get(number))
    return {
        "courses": _courses(broker, topic, rows, sorted(latest)),
        "words": summary(rows, now_ms=broker.clock.now_ms(), home=home),
        "rows": sorted(rows, key=lambda row: (row.partition, -row.offset, row.file)),
        "hidden": answer["records"] - len(rows),
        "passes": passes,
        "home": home,
        "ledger": _ledger(broker, TopicPartition(topic, home)),
        "scanned_bytes": answer["scanned_bytes"],
        "trouble": answer["trouble"],
    }


def _courses(
    broker: Broker, topic: str, rows: Sequence[PlaceRow], numbers: Sequence[int]
) -> list[KeyStanding]:
    """The key's stage in each partition that has records of it."""
    now_ms = broker.clock.now_ms()
    found: list[KeyStanding] = []
    for number in numbers:
        partition = broker.partitions.find(TopicPartition(topic, number))
        runs = [] if partition is None else broker.cleaning.files.runs(partition.log)
        latest = latest_of(rows, number, runs)
        found.append(KeyStanding(number, latest.offset, course_of_key(latest, now_ms=now_ms)))
    return found or [KeyStanding(None, None, course_of_lost_key(is_in_files=bool(rows)))]


def _next_offsets(places: Sequence[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """For each record of the key, the next one in its partition."""
    in_log = sorted(
        (each["partition"], each["offset"]) for each in places if each["file_state"] == LIVE
    )
    return {
        record: following[1] for record, following in pairwise(in_log) if record[0] == following[0]
    }


def _situation(broker: Broker, partition: Partition | None, asker: Asker) -> Situation | None:
    if partition is None:
        return None
    try:
        return situation_of(broker.cleaning, partition, asker)
    except (OSError, StorageError, KafkaError):
        return None


def _horizon_ms(partition: Partition | None, place: Mapping[str, Any]) -> int | None:
    """For a tombstone: the horizon of its batch, if it is still there."""
    parsed = parse_file_name(place["file"])
    if partition is None or parsed is None or not place["is_tombstone"] or parsed.suffix:
        return None
    segment = partition.log.segments.at_base(parsed.offset)
    if segment is None or place["position"] + HEADER_SIZE > segment.size:
        return None
    try:
        header = read_header(segment.file.pread(HEADER_SIZE, place["position"]), 0)
    except (OSError, KafkaError):
        return None
    is_it = header.base_offset <= place["offset"] <= header.last_offset
    if not is_it or not header.attributes & DELETE_HORIZON_FLAG:
        return None
    return header.base_timestamp


def _ledger(broker: Broker, home: TopicPartition) -> dict[str, int | None]:
    """Up to where tombstones of the key's partition were removed, as far as known."""
    partition = broker.partitions.find(home)
    if partition is None:
        return {"removed_below_offset": None, "removed_at_ms": None}
    ledger = broker.cleaning.files.ledger(partition.log)
    return {
        "removed_below_offset": ledger.removed_below_offset,
        "removed_at_ms": ledger.removed_at_ms,
    }
