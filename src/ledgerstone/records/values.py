"""The values of a batch's records, where nothing else of them is wanted. Pure.

Logs of state have records without headers, and those of metadata without keys. Such a record is
read here in one go; any other one is left to `record`, as is the complaint about a broken one.
"""

from typing import Final

from ledgerstone.records.batch import read_header
from ledgerstone.records.compression import STORED_LIMIT
from ledgerstone.records.record import iter_payload, records_payload
from ledgerstone.types import Buffer

_NULL: Final = 1  # The length -1, zigzag encoded.


def record_values(
    batch: Buffer, position: int = 0, *, limit: int = STORED_LIMIT
) -> list[bytes | None]:
    """Of the batch at `position`, in order. The caller checks the CRC."""
    header = read_header(batch, position)
    payload = bytes(records_payload(batch, position, header, limit=limit))
    values = _keyless_values(payload, header.record_count)
    if values is None:
        return [record.value for record in iter_payload(header, payload)]
    return list(values)


def _keyless_values(payload: bytes, count: int) -> list[bytes] | None:
    """None: some record has another shape, or is broken."""
    values = []
    at = 0
    try:
        for _ in range(count):
            length, body = _length(payload, at)
            end = body + length
            # Attributes, then two deltas that nobody asked for.
            at = body + 1
            for _ in range(2):
                while payload[at] > 127:
                    at += 1
                at += 1
            if payload[at] != _NULL or at - body > 14:
                return None
            length, start = _length(payload, at + 1)
            at = start + length
            if length < 0 or at + 1 != end or payload[at]:
                return None
            values.append(payload[start:at])
            at = end
    except IndexError:
        return None
    return values if at == len(payload) else None


def _length(payload: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most three bytes, and where it ends. Negative for any other."""
    first = payload[at]
    if first < 128:
        encoded, at = first, at + 1
    elif (second := payload[at + 1]) < 128:
        encoded, at = first & 127 | second << 7, at + 2
    elif (third := payload[at + 2]) < 128:
        encoded, at = first & 127 | (second & 127) << 7 | third << 14, at + 3
    else:
        return -1, at
    return (-1 if encoded & 1 else encoded >> 1), at
