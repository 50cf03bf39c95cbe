"""Rows as an Arrow batch should show them, from the plain record reader. An oracle for tests."""

from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.types import Buffer

Row = dict[str, object]


def plain_rows(buffer: Buffer) -> list[Row]:
    """The columns key, value, offset, timestamp (microseconds), timestampType and headers."""
    rows: list[Row] = []
    for position, header in iter_headers(buffer):
        if header.is_control:
            continue
        for record in iter_records(buffer, position):
            headers = [{"key": key, "value": value} for key, value in record.headers]
            rows.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "offset": record.offset,
                    "timestamp": record.timestamp * 1000,
                    "timestampType": int(header.timestamp_type),
                    "headers": headers or None,
                }
            )
    return rows
