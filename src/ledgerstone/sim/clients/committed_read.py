"""What a consumer makes of the bytes of a fetch, as the Java client does it. Pure.

An aborted entry becomes active at its first offset; batches of that producer are skipped until its
ABORT marker. Markers are not delivered, and they move the position on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.batch import iter_headers
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.records.record import iter_records
from ledgerstone.sim.model import SERIAL_HEADER


class DeliveredRecord(NamedTuple):
    offset: int
    serial: int
    key: bytes
    value: bytes | None


class AbortedRange(NamedTuple):
    producer_id: int
    first_offset: int


def deliver(
    data: bytes, position: int, aborted: Sequence[AbortedRange]
) -> tuple[list[DeliveredRecord], int]:
    """The records from `position` on, and the next position."""
    found: list[DeliveredRecord] = []
    pending = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    active: set[int] = set()
    for at, header in iter_headers(data):
        while pending and pending[-1].first_offset <= header.last_offset:
            active.add(pending.pop().producer_id)
        is_skipped = header.is_control
        if header.is_control and header.record_count:
            if read_control_record(data, at).type is ControlType.ABORT:
                active.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in active:
            is_skipped = True
        if not is_skipped:
            for record in iter_records(data, at):
                if record.offset >= position:
                    serial = int(bytes(dict(record.headers).get(SERIAL_HEADER) or b"-1"))
                    value = None if record.value is None else bytes(record.value)
                    key = bytes(record.key or b"")
                    found.append(DeliveredRecord(record.offset, serial, key, value))
        position = max(position, header.next_offset)
    return found, position
