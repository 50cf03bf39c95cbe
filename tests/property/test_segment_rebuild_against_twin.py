"""Recovery by windows against the plain way: each batch read, checked and accounted for."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import strategies as st

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.batch import BatchHeader, verify_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.storage import segment_rebuild
from ledgerstone.storage.batch_scan import last_offset_in, scan_batches, scan_headers
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.leader_epochs import EpochEntry, LeaderEpochs
from ledgerstone.storage.producer_replay import apply_batch
from ledgerstone.storage.producer_state import ProducerStateTable
from ledgerstone.storage.segment import Segment
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0, World
from tests.kit.scenario import disk, new_segment, put
from tests.kit.sized import sized

BASE_OFFSET = 1000


class Facts(NamedTuple):
    """All that recovery learns from a log file."""

    size: int
    next_offset: int
    max_timestamp: tuple[int, int]
    first_timestamp: int | None
    bytes_since_index_entry: int
    offset_index: bytes
    time_index: bytes
    epochs: list[EpochEntry]
    producers: list[object]
    map_end_offset: int


class Listener:
    """What the log keeps of the batches that recovery tells it about."""

    def __init__(self) -> None:
        self.epochs = LeaderEpochs()
        self.producers = ProducerStateTable(BASE_OFFSET)

    def heard(self, header: BatchHeader, batch: memoryview) -> None:
        if header.leader_epoch >= 0:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        apply_batch(self.producers, header, batch)


@st.composite
def log_files(draw: st.DrawFn) -> bytes:
    """Batches one after the other; then perhaps a changed byte, or an end in the middle."""
    content = bytearray()
    offset = BASE_OFFSET + draw(st.integers(0, 2))
    for number in range(draw(st.integers(0, 20))):
        producer_id = draw(st.sampled_from([-1, -1, 7, 7, 8]))
        count = draw(st.integers(1, 3))
        content += build_batch(
            [(draw(st.integers(-1, 40)), b"k", bytes(draw(st.integers(0, 90))), ())] * count,
            base_offset=offset,
            leader_epoch=draw(st.sampled_from([-1, 0, 3, 5])),
            producer_id=producer_id,
            producer_epoch=draw(st.sampled_from([0, 0, 0, 1])) if producer_id >= 0 else -1,
            base_sequence=number if producer_id >= 0 else -1,
            transactional=producer_id == 8 and draw(st.booleans()),
        )
        # Backwards is damage, far ahead what compaction leaves, and too far an overflow.
        offset += count + draw(st.sampled_from([0, 0, 0, 0, 5, -1, INT32_MAX]))
    if content and draw(st.booleans()):
        content[draw(st.integers(0, len(content) - 1))] ^= draw(st.integers(0, 255))
    if draw(st.booleans()):
        del content[draw(st.integers(0, len(content))) :]
    return bytes(content)


def segment_with(content: bytes, world: World, **config: Any) -> Segment:
    segment = new_segment(world, BASE_OFFSET, **config)
    put(disk(world), segment.path(Kind.LOG), content, 0)
    return segment


def good_batches(segment: Segment, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    previous = BASE_OFFSET - 1
    try:
        for _, header, batch in scan_batches(segment.file, 0, end):
            verify_crc(batch, 0, header)
            if header.base_offset <= previous or not segment.fits(header.last_offset):
                return
            yield header, batch
            previous = header.last_offset
    except CorruptRecord:
        return


def facts_of(segment: Segment, listener: Listener) -> Facts:
    segment.time_index.maybe_append(*segment.max_timestamp, skip_full_check=True)
    segment.offset_index.flush()
    segment.time_index.flush()
    return Facts(
        segment.size,
        segment.next_offset(),
        segment.max_timestamp,
        segment.first_timestamp,
        segment.bytes_since_index_entry,
        _content(segment, segment.offset_index.path),
        _content(segment, segment.time_index.path),
        listener.epochs.entries(),
        [
            *listener.producers.entries(),
            *(listener.producers.last_entry(each) for each in (7, 8)),
            listener.producers.first_unstable_offset,
        ],
        listener.producers.map_end_offset,
    )


def _content(segment: Segment, path: str) -> bytes:
    filesystem = segment._fs
    return filesystem.open(path).pread(1 << 20, 0) if filesystem.exists(path) else b""


@sized(
    few=50,
    many=500,
    content=log_files(),
    window_bytes=st.sampled_from([61, 100, 333, 1 << 20]),
    interval_bytes=st.sampled_from([0, 100, 400]),
    index_bytes=st.sampled_from([24, 48, 1 << 20]),
    compiled_bytes=st.sampled_from([0, 1 << 20]),
)
def test_recovery_by_windows_learns_what_batch_by_batch_does(
    content: bytes, window_bytes: int, interval_bytes: int, index_bytes: int, compiled_bytes: int
) -> None:
    config: dict[str, Any] = {
        "index_interval_bytes": interval_bytes,
        "segment_index_bytes": index_bytes,
    }
    plain, plain_listener = segment_with(content, World(), **config), Listener()
    quick, quick_listener = segment_with(content, World(), **config), Listener()

    for header, batch in good_batches(plain, len(content)):
        plain_listener.heard(header, batch)
        plain.account((header,))
    with (
        mock.patch.object(segment_rebuild, "WINDOW_BYTES", window_bytes),
        mock.patch.object(segment_rebuild, "_COMPILED_BYTES", compiled_bytes),
    ):
        cut = quick.recover(quick_listener.heard, now_ms=T0)

    assert cut == len(content) - plain.size
    assert facts_of(quick, quick_listener) == facts_of(plain, plain_listener)


@sized(few=40, many=400, content=log_files())
def test_last_offset_is_the_one_of_the_last_header_that_a_scan_meets(content: bytes) -> None:
    segment = segment_with(content, World())
    expected: int | None = None

    try:
        for _, header in scan_headers(segment.file, 0, len(content)):
            expected = header.last_offset
    except CorruptRecord:
        pass
    found = last_offset_in(segment.file, len(content))

    assert found == expected
