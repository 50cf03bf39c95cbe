"""A key by the place of one of its records, so that no address ever holds a key. Grade D.

Addresses end up in histories, proxy logs and referrers. So a link about a key names a partition and
an offset, and the key is read from there.
"""

from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import Job
from ledgerstone.types import INT64_MAX, TopicPartition
from ledgerstone.web.course import Course
from ledgerstone.web.forms import whole_number
from ledgerstone.web.record_pages import Shown, rows_from
from ledgerstone.web.router import NotShown
from ledgerstone.web.tombstone_course import Latest, course_of_key, first_pass_ms

_MOST_PARTITIONS: Final = 1 << 31


class RecordAddress(NamedTuple):
    partition: int
    offset: int


def place_in(query: Mapping[str, str]) -> RecordAddress | None:
    """The `partition` and `offset` of an address; None without an offset."""
    fields = dict(query)
    offset = whole_number(fields, "offset", at_most=INT64_MAX)
    if offset is None:
        return None
    return RecordAddress(whole_number(fields, "partition", at_most=_MOST_PARTITIONS) or 0, offset)


def record_at(
    broker: Broker, topic: str, place: RecordAddress
) -> Generator[Job | None, Any, Shown | None]:
    """None if there is no record, or no longer one."""
    partition = broker.partitions.find(TopicPartition(topic, place.partition))
    if partition is None:
        raise NotShown(404, f"Partition {place.partition} of {topic} is not hosted here.")
    log = partition.log
    if not log.log_start_offset <= place.offset < log.high_watermark:
        return None
    found = yield from rows_from(log, place.offset, at_most=1)
    row = found.rows[0] if found.rows else None
    return row if row is not None and row.offset == place.offset and not row.marker else None


def key_at(broker: Broker, topic: str, place: RecordAddress) -> Generator[Job | None, Any, bytes]:
    row = yield from record_at(broker, topic, place)
    if row is None or row.key is None:
        raise NotShown(
            404,
            f"There is no longer a record with a key at offset {place.offset} of "
            f"{topic}-{place.partition}, so this link has lost its key. Type the key instead.",
        )
    return row.key


def course_at(broker: Broker, topic: str, place: RecordAddress, row: Shown | None) -> Course | None:
    """The stage of a record's key, as long as no later record has that key."""
    partition = broker.partitions.find(TopicPartition(topic, place.partition))
    if row is None or row.key is None or partition is None or not partition.log.config.compacts:
        return None
    latest = Latest(
        offset=row.offset,
        written_ms=row.timestamp_ms,
        is_tombstone=row.is_tombstone,
        horizon_ms=row.delete_horizon_ms if row.is_tombstone else None,
        stamped_ms=first_pass_ms(broker.cleaning.files.runs(partition.log), row.offset),
    )
    return course_of_key(latest, now_ms=broker.clock.now_ms())
