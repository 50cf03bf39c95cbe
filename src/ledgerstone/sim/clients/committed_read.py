"""What a consumer makes of the bytes of a fetch, as the Java client does it. Pure.

An aborted entry becomes active at its first offset; batches of that producer are skipped until its
ABORT marker. Markers are not delivered, and they move the position on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerstone.records.batch import iter_headers
from ledgerstone.records.control import ControlType, read_control_record
from ledgerstone.sim.model import FoundRecord, records_of


class AbortedRange(NamedTuple):
    producer_id: int
    first_offset: int


def deliver(
    data: bytes, position: int, aborted: Sequence[AbortedRange]
) -> tuple[list[FoundRecord], int]:
    """The records from `position` on, and the next position."""
    found: list[FoundRecord] = []
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
            records = records_of(data[at : at + header.size])
            found += [record for record in records if record.offset >= position]
        position = max(position, header.next_offset)
    return found, position
