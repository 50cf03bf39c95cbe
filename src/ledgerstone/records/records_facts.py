"""The facts found by inspecting every record of a payload. Grade P.

Separate from `record`, whose codecs and checksums are not available when kernels are built.
"""

from enum import IntEnum
from typing import NamedTuple


class NearKind(IntEnum):
    """A value that was probably meant to be a tombstone."""

    EMPTY = 0  # no bytes, which is not null
    NULL_TEXT = 1  # the four bytes `null`
    FRAMED_NULL = 2  # a schema registry's frame around nothing, or around the null of a union


class RecordsFacts(NamedTuple):
    """What a leader needs to know about a payload. With a fault, only the first three count."""

    status: int  # a RecordFault
    fault_index: int  # of the record; -1 without a fault
    fault_position: int  # in the payload, where the field that is wrong starts; -1 without a fault
    max_timestamp_delta: int  # 0 in an empty payload
    max_timestamp_index: int  # the first record that carries the maximum; -1 in an empty payload
    min_timestamp_delta: int  # 0 in an empty payload
    null_key_count: int
    first_null_key_index: int  # -1: every record has a key
    sequential: bool  # offset deltas are 0, 1, 2, …
    tombstone_count: int
    last_offset_delta: int  # of the last record; -1 in an empty payload
    # Records of each NearKind, and the first of them all; -1 if there are none.
    empty_value_count: int = 0
    null_text_count: int = 0
    framed_null_count: int = 0
    first_near_index: int = -1
    first_near_kind: int = -1

    @property
    def near(self) -> "NearTombstones | None":
        if self.first_near_index < 0:
            return None
        counts = (self.empty_value_count, self.null_text_count, self.framed_null_count)
        return NearTombstones(counts, self.first_near_index, NearKind(self.first_near_kind))


class NearTombstones(NamedTuple):
    """Records of a batch that resemble failed deletes, by kind, and the first of them."""

    counts: tuple[int, int, int]  # in the order of NearKind
    first_index: int
    first_kind: NearKind
