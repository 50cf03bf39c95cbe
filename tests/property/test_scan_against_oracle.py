"""The residue scan of log files against a scanner that shares no code with it.

Files are made of batches of every codec, emptied ones (in the middle and at the end), control
batches and thinned ones; windows and pieces are small, so that their borders fall anywhere. What is
looked for is a planted key, or any bytes of the file or of a payload: so also bytes of headers,
across records, across batches, and compressed ones.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import assume, example
from hypothesis import strategies as st

from ledgerstone.erasure import log_windows
from ledgerstone.records.batch import Codec, read_header
from ledgerstone.records.builder import RecordParts, build_batch, empty_batch, seal_batch
from ledgerstone.records.control import end_txn_marker
from tests.kit.planted_keys import LOG, PARTITION, disk_with, scanned
from tests.kit.sized import sized
from tests.oracles.plain_scan import PlainCounts, batches_of, plain_scan

KEY = b"alice@example.org"
MIN_TELLING = 5

content = st.one_of(
    st.just(KEY),
    st.sampled_from([b"", b"bob", b"friend of " + KEY, KEY + b" and " + KEY, KEY[:9], KEY[9:]]),
    st.binary(max_size=12),
    st.integers(1, 60).map(lambda count: b"v" * count),
)
records = st.tuples(
    st.just(1_700_000_000_000),
    st.one_of(st.none(), content),
    st.one_of(st.none(), content),
    st.lists(
        st.tuples(
            st.sampled_from(["h", KEY.decode(), "x" + KEY.decode()]),
            st.one_of(st.none(), content),
        ),
        max_size=2,
    ),
)
# What the scan may look for besides KEY: a piece of the file or of a payload, by two fractions.
slices = st.one_of(st.none(), st.tuples(st.booleans(), st.floats(0, 1), st.integers(5, 40)))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    parts: list[bytes] = []
    offset = 0
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["data", "data", "empty", "control", "thinned", "planted"]))
        batch = draw(batches(kind, offset))
        parts.append(batch)
        offset = read_header(batch).next_offset
    return b"".join(parts)


@st.composite
def batches(draw: st.DrawFn, kind: str, offset: int) -> bytes:
    if kind == "control":
        return bytes(
            end_txn_marker(
                commit=draw(st.booleans()),
                base_offset=offset,
                timestamp=5,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
            )
        )
    made = draw(st.lists(records, min_size=1, max_size=4))
    codec = draw(st.sampled_from(list(Codec)))
    if kind == "thinned":
        offsets = [offset + 3 * at for at in range(len(made))]
        last = offsets[-1] - offset + draw(st.integers(0, 3))
        return bytes(
            build_batch(
                made, base_offset=offset, codec=codec, offsets=offsets, last_offset_delta=last
            )
        )
    batch = bytes(build_batch(made, base_offset=offset, codec=codec))
    if kind == "empty":
        return draw(emptied(batch))
    if kind == "planted":
        # Two times and an id are 24 bytes side by side that clients choose.
        return _resealed(batch, 27 + draw(st.integers(0, 7)), KEY)
    return batch


@st.composite
def emptied(draw: st.DrawFn, batch: bytes) -> bytes:
    """As the cleaner leaves it, or with the codec still in its attributes."""
    header = read_header(batch)
    left = empty_batch(header)
    if draw(st.booleans()):
        kept = read_header(left)._replace(attributes=header.attributes)
        left = bytes(seal_batch(kept, b""))
    return left


def _resealed(batch: bytes, position: int, planted: bytes) -> bytes:
    changed = bytearray(batch)
    changed[position : position + len(planted)] = planted
    return bytes(seal_batch(read_header(changed), bytes(changed[61:])))


def chosen(log: bytes, choice: tuple[bool, float, int] | None) -> bytes:
    if choice is None:
        return KEY
    in_payloads, where, length = choice
    source = b"".join(each.payload for each in batches_of(log)) if in_payloads else log
    start = int(where * max(len(source) - length, 0))
    return source[start : start + length]


def overlaps_itself(key: bytes) -> bool:
    return any(key[:size] == key[-size:] for size in range(1, len(key)))


@contextmanager
def small_windows(window: int, piece: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_windows, "WINDOW_BYTES", window)
        patch.setattr(log_windows, "PIECE_LIMIT_BYTES", piece)
        yield


def found_by_us(log: bytes, key: bytes) -> PlainCounts:
    report = scanned(disk_with({f"{PARTITION}/{LOG}": log}), key)
    assert report.trouble is None
    found = report.prints[0]
    assert sum(span.records for span in found.spans) == found.records
    return PlainCounts(found.records, found.mentions, found.residue)


def _erased(codec: Codec) -> bytes:
    """A compacted topic after an erasure: what mentions the key is left, the end is empty."""
    kept = [(1, b"bob", b"friend of " + KEY, ())]
    batch = bytes(build_batch(kept, codec=codec, offsets=[1], last_offset_delta=1))
    tombstone = build_batch([(1, KEY, None, ())], base_offset=2)
    return batch + empty_batch(read_header(tombstone))


@pytest.mark.parametrize("codec", list(Codec))
def test_mention_before_an_empty_last_batch_is_one_mention(codec: Codec) -> None:
    assert found_by_us(_erased(codec), KEY) == PlainCounts(0, 1, 0)
    assert plain_scan(_erased(codec), KEY) == PlainCounts(0, 1, 0)


_PLACES: dict[str, list[RecordParts]] = {
    "key": [(1, b"<" + KEY + b">", b"v", ())],
    "value": [(1, b"bob", b"of " + KEY + b" and " + KEY, ())],
    "header key": [(1, b"bob", None, [(KEY.decode(), b"v")])],
    "header value": [(1, None, b"v", [("h", KEY)])],
    "own key": [(1, KEY, b"of " + KEY, ()), (1, b"bob", KEY, ())],
}
_MARKER = end_txn_marker(
    commit=True, base_offset=9, timestamp=5, producer_id=7, producer_epoch=0, coordinator_epoch=0
)
_LATER = read_header(build_batch([(1, b"carol", b"v", ())], base_offset=9, codec=Codec.GZIP))
_TAILS = {
    "nothing": b"",
    "an emptied batch": empty_batch(_LATER),
    "two emptied batches": empty_batch(_LATER) * 2,
    "one that keeps its codec": bytes(
        seal_batch(read_header(empty_batch(_LATER))._replace(attributes=int(Codec.GZIP)), b"")
    ),
    "a marker": bytes(_MARKER),
    "an emptied marker": empty_batch(read_header(_MARKER)),
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("tail", list(_TAILS))
@pytest.mark.parametrize("place", list(_PLACES))
@pytest.mark.parametrize("is_emptied_between", [False, True])
def test_every_codec_place_and_tail(
    codec: Codec, tail: str, place: str, is_emptied_between: bool
) -> None:
    batch = bytes(build_batch(_PLACES[place], codec=codec))
    between = _TAILS["an emptied batch"] if is_emptied_between else b""
    log = batch + between + batch + _TAILS[tail]
    hits = {"value": 2}.get(place, 1)

    found = found_by_us(log, KEY)

    assert found == plain_scan(log, KEY)
    assert found == PlainCounts(2 if place == "own key" else 0, 2 * hits, 0)


@sized(
    few=60,
    many=500,
    log=logs(),
    choice=slices,
    window=st.sampled_from([70, 100, 333, 2 << 20]),
    piece=st.sampled_from([0, 64, 8 << 20]),
)
@example(log=_erased(Codec.GZIP), choice=None, window=2 << 20, piece=8 << 20)
@example(log=_erased(Codec.ZSTD), choice=None, window=100, piece=0)
def test_scan_finds_what_the_oracle_finds(
    log: bytes, choice: tuple[bool, float, int] | None, window: int, piece: int
) -> None:
    key = chosen(log, choice)
    assume(len(key.strip(b"\x00\xff")) >= MIN_TELLING)
    assume(not overlaps_itself(key))

    with small_windows(window, piece):
        assert found_by_us(log, key) == plain_scan(log, key)


def test_bytes_side_by_side_only_in_memory_hide_no_mention() -> None:
    # The second payload begins with these six bytes; the first ends with five of them. What is
    # looked for begins and ends alike, so the false hit reaches into the true one.
    later = [(1, b"\x12k", b"v", ()), (1, b"bob", b"w" * 500, ())]
    wanted = bytes(build_batch(later))[61:67]
    assert wanted[0] == wanted[-1]
    first = build_batch([(1, b"bob", b"1", [("h", wanted[:5])])], codec=Codec.LZ4)

    log = bytes(first) + bytes(build_batch(later, base_offset=1, codec=Codec.LZ4))

    assert found_by_us(log, wanted) == PlainCounts(0, 1, 0)
