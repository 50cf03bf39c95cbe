"""A log made of small facts, and its state worked out with a dict. An oracle for tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.state.fold import FoldCounts
from ledgerstone.types import AbortedTxn
from ledgerstone.uuid_text import UUID_BYTES
from tests.oracles.plain_siphash import siphash128

T = 1_700_000_000_000
SEED = bytes(range(UUID_BYTES))

# Key and value; None is null.
KeyValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One thing that happens to a log. `thinned` are indexes of records that compaction took."""

    records: tuple[KeyValue, ...] = ()
    codec: Codec = Codec.NONE
    producer_id: int = -1
    ends: bool | None = None  # a marker: True commits, False aborts
    gap: int = 0  # offsets before it whose batches are gone
    thinned: tuple[int, ...] = ()


@dataclass(slots=True)
class Batch:
    base_offset: int
    last_offset: int
    data: bytes
    kept: list[tuple[int, bytes | None, bytes | None]] = field(default_factory=list)
    producer_id: int = -1
    is_control: bool = False


@dataclass(slots=True)
class Model:
    """The log, and which of its transactions were aborted: (producer, first, marker) offsets."""

    batches: list[Batch] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    end_offset: int = 0
    _open: dict[int, int] = field(default_factory=dict)

    def write(self, written: Written) -> None:
        base = self.end_offset + written.gap
        if written.ends is not None:
            self._end(written.producer_id, base, commit=written.ends)
            return
        offsets = [base + i for i in range(len(written.records)) if i not in written.thinned]
        if not offsets:
            return
        kept = [(offset, *written.records[offset - base]) for offset in offsets]
        is_txn = written.producer_id >= 0
        data = build_batch(
            [(T + offset, key, value, ()) for offset, key, value in kept],
            base_offset=base,
            leader_epoch=3,
            offsets=offsets,
            last_offset_delta=len(written.records) - 1,
            codec=written.codec,
            producer_id=written.producer_id,
            producer_epoch=0 if is_txn else -1,
            base_sequence=0 if is_txn else -1,
            transactional=is_txn,
        )
        last = base + len(written.records) - 1
        self.batches.append(Batch(base, last, bytes(data), kept, written.producer_id))
        self.end_offset = last + 1
        if is_txn:
            self._open.setdefault(written.producer_id, base)

    def _end(self, producer_id: int, offset: int, *, commit: bool) -> None:
        first = self._open.pop(producer_id, None)
        if first is None:
            return
        data = end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=T,
            base_offset=offset,
            leader_epoch=3,
        )
        self.batches.append(Batch(offset, offset, bytes(data), is_control=True))
        self.end_offset = offset + 1
        if not commit:
            self.aborted.append((producer_id, first, offset))

    def end_all(self) -> None:
        for producer_id in list(self._open):
            self._end(producer_id, self.end_offset, commit=True)

    def answers(self, size: int) -> list[tuple[bytes, list[AbortedTxn]]]:
        """Batches in responses of this size, each with the aborted transactions it touches."""
        found = []
        for at in range(0, len(self.batches), size):
            group = self.batches[at : at + size]
            low, high = group[0].base_offset, group[-1].last_offset
            data = b"".join(batch.data for batch in group)
            found.append((data, self.aborted_within(low, high)))
        return found

    def aborted_within(self, low: int, high: int) -> list[AbortedTxn]:
        """As a broker lists them for an answer with these offsets, both included."""
        return [
            AbortedTxn(producer_id, first)
            for producer_id, first, marker in self.aborted
            if first <= high and marker >= low
        ]

    def is_aborted(self, batch: Batch) -> bool:
        return any(
            batch.producer_id == producer_id and first <= batch.base_offset < marker
            for producer_id, first, marker in self.aborted
        )

    def state(
        self, *, start_offset: int = 0, end_offset: int | None = None, committed: bool = True
    ) -> tuple[dict[bytes, tuple[int, bytes | None]], FoldCounts]:
        """The latest (offset, value) of each key, tombstones too, and the counts."""
        end = self.end_offset if end_offset is None else end_offset
        table: dict[bytes, tuple[int, bytes | None]] = {}
        counts = FoldCounts()
        explained = 0
        for batch in self.batches:
            low, high = max(batch.base_offset, start_offset), min(batch.last_offset + 1, end)
            if low >= high:
                continue
            counts.batches += 1
            counts.bytes += len(batch.data)
            hidden = committed and self.is_aborted(batch)
            counts.control_batches += batch.is_control
            counts.aborted_batches += hidden
            if batch.is_control or hidden:
                explained += high - low
                continue
            for offset, key, value in batch.kept:
                if start_offset <= offset < end:
                    _fold(table, counts, offset, key, value)
        counts.missing = max(end - start_offset, 0) - explained - counts.records
        return table, counts


def _fold(
    table: dict[bytes, tuple[int, bytes | None]],
    counts: FoldCounts,
    offset: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    counts.records += 1
    if key is None:
        counts.records_without_key += 1
        return
    before = table.get(key)
    counts.tombstones += value is None
    counts.deletes_applied += value is None and before is not None and before[1] is not None
    counts.recreated += value is not None and before is not None and before[1] is None
    table[key] = (offset, value)


def plain_checksum(live: dict[bytes, bytes]) -> int:
    total = 0
    for key, value in live.items():
        low, high = siphash128(_sized(key) + _sized(value), b"ledgerstonestate")
        total += low + (high << 64)
    return total % 2**128


def _sized(data: bytes) -> bytes:
    """Behind its length as a zigzag varint."""
    zigzag, out = len(data) * 2, bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag]) + data


keys = st.sampled_from([None, b"", b"a", b"b", b"c", b"long" * 40, b"\xff\x00"])
small_values = [None, None, b"", b"1", b"22", b"x" * 100]
# A length takes three bytes from 8192 on.
all_values = [*small_values, b"y" * 9000]


def written(values: Sequence[bytes | None]) -> st.SearchStrategy[Written]:
    records = st.lists(st.tuples(keys, st.sampled_from(values)), min_size=1, max_size=8)
    return st.one_of(
        st.builds(
            Written,
            records=records.map(tuple),
            codec=st.sampled_from(Codec),
            producer_id=st.sampled_from([-1, -1, 7, 8]),
            gap=st.sampled_from([0, 0, 0, 5]),
            thinned=st.sampled_from([(), (), (0,), (1, 2)]),
        ),
        st.builds(Written, producer_id=st.sampled_from([7, 8]), ends=st.booleans()),
    )


@st.composite
def models(draw: st.DrawFn, values: Sequence[bytes | None] = all_values) -> Model:
    model = Model()
    for each in draw(st.lists(written(values), max_size=14)):
        model.write(each)
    model.end_all()
    return model


def model_of(*pieces: Written) -> Model:
    model = Model()
    for each in pieces:
        model.write(each)
    return model


def put(*records: KeyValue, codec: Codec = Codec.NONE, gap: int = 0) -> Written:
    return Written(records=records, codec=codec, gap=gap)
