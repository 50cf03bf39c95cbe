"""Browsing the records of a partition by offset, by time, by key. Grade D."""

from collections.abc import Generator, Mapping
from typing import Any, Final

from ledgerstone.errors import KafkaError
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest, Job
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import offset_for_timestamp
from ledgerstone.types import INT64_MAX
from ledgerstone.web.forms import whole_number
from ledgerstone.web.hosting import partition_of, topic_facts, topic_of
from ledgerstone.web.record_at import RecordAddress, course_at
from ledgerstone.web.record_pages import PAGE_RECORDS, Slices, rows_before, rows_from
from ledgerstone.web.router import Answer, NotShown, Rendered
from ledgerstone.web.times import parse_time

# The most of a value that the page of one record shows.
WHOLE_BYTES: Final = 64 << 10


def records_view(
    broker: Broker, request: HttpRequest, parts: Mapping[str, str]
) -> Generator[Job | None, Any, Answer]:
    """The newest, unless the query has `offset`, `before` or `time`."""
    topic, query = topic_of(broker, parts), dict(request.query)
    log = partition_of(broker, topic, request).log
    found = yield from _asked_for(log, query, broker.clock.now_ms())
    rows = found.rows
    end = log.high_watermark
    first, following = (rows[0].offset, rows[-1].offset + 1) if rows else (end, end)
    return Rendered(
        "records.html",
        {
            **topic_facts(broker, topic),
            "partition": log.topic_partition.partition,
            "rows": rows,
            "log_start_offset": log.log_start_offset,
            "high_watermark": end,
            "earlier": first if first > log.log_start_offset and rows else None,
            "later": following if following < end and rows else None,
            "missing": following - first - len(rows) if rows else 0,
            "offset": query.get("offset", ""),
            "time": query.get("time", ""),
        },
    )


def _asked_for(log: PartitionLog, query: dict[str, str], now_ms: int) -> Slices:
    offset = whole_number(query, "offset", at_most=INT64_MAX)
    before = whole_number(query, "before", at_most=INT64_MAX)
    if query.get("time", "").strip():
        offset = _offset_at(log, parse_time(query["time"].strip(), now_ms))
    if offset is not None:
        return rows_from(log, min(max(offset, log.log_start_offset), log.high_watermark))
    end_offset = log.high_watermark if before is None else min(before, log.high_watermark)
    return rows_before(log, max(end_offset, log.log_start_offset))


def _offset_at(log: PartitionLog, timestamp_ms: int) -> int:
    try:
        found = offset_for_timestamp(log, timestamp_ms)
    except (KafkaError, OSError) as error:
        raise NotShown(503, f"{log.topic_partition} cannot be searched: {error}") from None
    return log.high_watermark if found is None else found.offset


def record_view(
    broker: Broker, request: HttpRequest, parts: Mapping[str, str]
) -> Generator[Job | None, Any, Answer]:
    """One record with as much of its value as fits a page."""
    topic = topic_of(broker, parts)
    named = request._replace(query={"partition": parts["partition"]})
    log = partition_of(broker, topic, named).log
    offset = whole_number(dict(parts), "offset", at_most=INT64_MAX) or 0
    if not log.log_start_offset <= offset < log.high_watermark:
        raise NotShown(
            404,
            f"{log.topic_partition} has offsets {log.log_start_offset} to "
            f"{log.high_watermark - 1}; {offset} is not among them.",
        )
    found = yield from rows_from(log, offset, at_most=1)
    row = found.rows[0] if found.rows and found.rows[0].offset == offset else None
    return Rendered(
        "record.html",
        {
            **topic_facts(broker, topic),
            "partition": log.topic_partition.partition,
            "offset": offset,
            "row": row,
            "course": course_at(
                broker, topic, RecordAddress(log.topic_partition.partition, offset), row
            ),
            "whole_bytes": WHOLE_BYTES,
            "page_records": PAGE_RECORDS,
        },
        200 if row is not None else 404,
    )
