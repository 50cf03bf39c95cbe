"""Byte strings of one length, known only by fingerprints, found anywhere in a buffer. Pure.

What is searched never comes here in clear: a polynomial fingerprint finds the places, SipHash under
a secret seed confirms them. The fingerprint is h = h * base + (byte + 1) modulo 2^64. Most buffers
hold none of the strings, and of a few strings that is shown three times as fast by 16 bits of it.
"""

import ctypes
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ledgerstone.errors import InvariantViolation
from ledgerstone.records.kernels.descriptors import CandidatesCall, RollingCall
from ledgerstone.records.kernels.filling import filled
from ledgerstone.records.kernels.hashing import SEED_SIZE, UInt64s, hash_keys
from ledgerstone.records.kernels.loader import kernel
from ledgerstone.records.kernels.source.rolling import LANES, SEVERAL, TAGS
from ledgerstone.records.kernels.windows import Bytes, Int32s, Int64s
from ledgerstone.types import Buffer

# For each string 256 places of the filter: most windows are then dismissed at the first look. At
# most a MiB, which a core's own cache still holds.
_PLACES_PER_STRING: Final = 256
_MIN_FILTER_BITS: Final = 12
_MAX_FILTER_BITS: Final = 20
_TAG_SHIFT: Final = 24
# Up to so many strings, and so long, the 16 bits are asked first.
_FEW_STRINGS: Final = 8
_SHORT_BYTES: Final = 1024
_BLOCK: Final = 2048
# By chance a MiB has sixteen for each string; where there are far more, looking is no waste.
_MAX_CANDIDATES: Final = 4096
_POWERS: Final = 32
_Report: Final = ctypes.c_int64 * (2 * LANES)


class StringPrint(NamedTuple):
    """What is known of one string: its fingerprint and the words of its SipHash."""

    fingerprint: int
    sip_low: int
    sip_high: int


class RollingSearch:
    """Looks for strings of one length; `find` may be called for any number of buffers."""

    __slots__ = ("_base", "_filter", "_filter_bits", "_fingerprints", "_high", "_low", "_order",
                 "_powers", "_seed", "_words", "length")  # fmt: skip

    def __init__(
        self, prints: Sequence[StringPrint], *, length: int, base: int, seed: bytes
    ) -> None:
        if len(seed) != SEED_SIZE:
            raise ValueError(f"a seed has {SEED_SIZE} bytes, not {len(seed)}")
        if length < 1 or not prints:
            raise ValueError(f"{len(prints)} strings of {length} bytes")
        self.length = length
        self._seed = seed
        self._base = base
        self._words = int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")
        table = np.array(prints, np.uint64)
        self._order = np.argsort(table[:, 0], kind="stable")
        self._fingerprints, self._low, self._high = np.ascontiguousarray(table[self._order].T)
        wanted_bits = (len(prints) * _PLACES_PER_STRING - 1).bit_length()
        self._filter_bits = min(max(wanted_bits, _MIN_FILTER_BITS), _MAX_FILTER_BITS)
        self._filter = _filter(self._fingerprints, self._filter_bits)
        powers = [pow(base, 1 << level, 1 << 16) for level in range(_POWERS)]
        self._powers = np.array(powers, np.uint16).view(np.int16)

    def find(
        self, buffer: Buffer, *, start: int = 0, end: int | None = None
    ) -> tuple[Int64s, Int32s]:
        """(positions, which string), by position, of the windows wholly in [start, end)."""
        total = memoryview(buffer).nbytes
        stop = total if end is None else end
        if not 0 <= start <= stop <= total:
            raise ValueError(f"window [{start}, {stop}) of a buffer of {total} bytes")
        if self._is_quick and not self._may_hold(buffer, start, stop):
            return np.empty(0, np.int64), np.empty(0, np.int32)
        room = max(stop - start - self.length + 1, 0)
        # A place for every window is asked for; memory is taken only for those that are hits.
        positions = np.empty(room, np.int64)
        which = np.empty(room, np.int32)
        report = _Report()
        self._call(buffer, start, stop, positions, which, report)
        lanes = [slice(first, first + count) for first, count in _pairs(report)]
        places = np.concatenate([positions[lane] for lane in lanes])
        strings = np.concatenate([which[lane] for lane in lanes])
        return places, self._order[strings].astype(np.int32)

    @property
    def _is_quick(self) -> bool:
        return len(self._fingerprints) <= _FEW_STRINGS and self.length <= _SHORT_BYTES

    def _may_hold(self, buffer: Buffer, start: int, end: int) -> bool:
        """Whether one of the strings is there, or too much that looks like it."""
        scratch = _BLOCK + self.length
        doubled, spare, sums = (np.empty(scratch, np.int16) for _ in range(3))
        wanted = np.unique(self._fingerprints.astype(np.uint16)).view(np.int16)
        positions = np.empty(_MAX_CANDIDATES, np.int64)
        report = (ctypes.c_int64 * 1)()
        call = filled(
            CandidatesCall,
            buffer=buffer,
            start=start,
            end=end,
            length=self.length,
            positions=positions,
            room=len(positions),
            report=report,
            powers=self._powers,
            doubled=doubled,
            spare=spare,
            sums=sums,
            scratch=scratch,
            block=_BLOCK,
            wanted=wanted,
            wanted_count=len(wanted),
        )
        status = kernel("list_candidates")(call)
        if status != 0:
            return True
        found = positions[: report[0]]
        low, _ = hash_keys(buffer, found, np.full(len(found), self.length, np.int32), self._seed)
        return bool(np.isin(low, self._low).any())

    def _call(
        self,
        buffer: Buffer,
        start: int,
        end: int,
        positions: Int64s,
        which: Int32s,
        report: "ctypes.Array[ctypes.c_int64]",
    ) -> None:
        count = len(self._fingerprints)
        k0, k1 = self._words
        call = filled(
            RollingCall,
            buffer=buffer,
            start=start,
            end=end,
            length=self.length,
            positions=positions,
            room=len(positions),
            report=report,
            base=self._base,
            k0=k0,
            k1=k1,
            known=self._filter,
            filter_bits=self._filter_bits,
            fingerprints=self._fingerprints,
            low=self._low,
            high=self._high,
            count=count,
            leaving=np.empty(256, np.uint64),
            free_from=np.empty(LANES * count, np.int64),
            which=which,
        )
        status = kernel("find_rolling")(call)
        if status != 0:
            raise InvariantViolation(
                f"{self.length} bytes in [{start}, {end}) have no {len(positions)} places"
            )


def _filter(fingerprints: UInt64s, bits: int) -> Bytes:
    """By the upper bits of a fingerprint: nobody's, the tag of one, or more than one."""
    places = (fingerprints >> np.uint64(64 - bits)).astype(np.int64)
    tags = (fingerprints >> np.uint64(_TAG_SHIFT)) % np.uint64(TAGS) + np.uint64(1)
    known = np.zeros(1 << bits, np.uint8)
    known[places] = tags
    alone = np.bincount(places, minlength=1 << bits) == 1
    known[(known != 0) & ~alone] = SEVERAL
    return known


def _pairs(report: "ctypes.Array[ctypes.c_int64]") -> list[tuple[int, int]]:
    return [(report[2 * lane], report[2 * lane + 1]) for lane in range(LANES)]
