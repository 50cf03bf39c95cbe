"""Checks data that was on disk before the start, once, when it is first read. Grade D.

Owns the range of a log file that has been checked since the start and is trusted from then on.
README.md, "Damage", rule 2.
"""

from ledgerstone.errors import CorruptFile, CorruptRecord, KafkaError
from ledgerstone.fs import File
from ledgerstone.records.batch import verify_crc
from ledgerstone.storage.batch_scan import scan_batches
from ledgerstone.types import INT32_MAX, INT64_MAX


class FirstRead:
    """For one segment. `[start, end)` is the checked range."""

    __slots__ = ("_base_offset", "end", "start")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self.start = self.end = 0

    def holds(self, start: int, end: int) -> bool:
        """Whether all of the range was checked before."""
        return self.start <= start and end <= self.end

    def covers(self, size: int) -> bool:
        """Whether all of a file of this size was checked: nothing is left to do."""
        return self.start == 0 and self.end == size

    def check(
        self, file: File, path: str, start: int, end: int, start_offset: int, *, is_gapless: bool
    ) -> None:
        """Checks whole batches at [start, end) before they are served from `start_offset`.

        Once: afterwards the page cache is trusted. A reader that continues where it stopped extends
        the checked range; one that jumps starts a new range. CorruptFile names the bad place."""
        joins = self.start <= start <= self.end
        position = first_unchecked = self.end if joins else start
        # The checksum does not cover offsets; but they rise, and stay within the segment's reach.
        due = start_offset if first_unchecked == start else INT64_MAX
        is_exact = False
        try:
            for at, header, batch in scan_batches(file, first_unchecked, end):
                position = at
                verify_crc(batch, 0, header)
                is_due = header.base_offset <= due if not is_exact else header.base_offset == due
                is_late = header.base_offset < due and is_exact
                is_near = 0 <= header.last_offset - self._base_offset <= INT32_MAX
                if is_late or (is_gapless and not is_due) or not is_near:
                    raise CorruptRecord(f"offset {header.base_offset}, expected {due}")
                due, is_exact = header.next_offset, True
                position += header.size
            if position < end:
                # A walk stops silently at a length that reaches too far: here it is damage.
                raise CorruptRecord(f"the batch does not end before {end}")
        except KafkaError as error:
            raise CorruptFile(path, position, str(error)) from error
        self.start, self.end = self.start if joins else start, end
