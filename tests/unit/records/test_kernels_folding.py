"""Folding kernels: the sources over checked pointers, the compiled code, and plain twins."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ledgerstone.errors import CorruptRecord, InvariantViolation, KafkaError
from ledgerstone.records.batch import write_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import Hashes, scan
from ledgerstone.records.kernels import folding as glue
from ledgerstone.records.kernels.descriptors import FindCall
from ledgerstone.records.kernels.folding import (
    FACTS_WITH_CONTENT,
    FoldColumns,
    FoldPlan,
    FoldState,
    check_crcs,
    find_keys,
    fold_payloads,
    moved_to_more_slots,
)
from ledgerstone.records.kernels.payloads import Payloads
from ledgerstone.records.kernels.source import contents, folding, key_facts
from ledgerstone.types import INT64_MAX, Buffer
from tests.kit.sized import examples
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s, uint64s
from tests.oracles.plain_siphash import siphash128
from tests.oracles.uncompiled_folding import fold_call, fold_uncompiled
from tests.unit.records import vectors

SEED, CONTENT_SEED = bytes(range(16)), bytes(range(16, 32))
WINDOWS = {
    "three and a tombstone": vectors.THREE
    + build_batch([(1, b"k", None, ()), (1, b"k", b"v" * 70, ())], base_offset=9),
    "keyless between": build_batch(
        [(1, b"", b"", ()), (1, None, b"x", ()), (1, b"k" * 70, b"", ())]
    ),
}
PLAN = FoldPlan(0, INT64_MAX, SEED, CONTENT_SEED, checks_crc=False)


def payloads_of(window: Buffer) -> Payloads:
    batches = scan(window)
    return Payloads(window, np.empty(0, np.uint8), 0, batches, 0, len(batches))


def folded(window: Buffer, plan: FoldPlan = PLAN) -> tuple[list[list[int]], FoldState]:
    """Compiled, with more room than keys."""
    facts = np.zeros((64, FACTS_WITH_CONTENT), np.uint64)
    slots, state = np.zeros(128, np.uint64), FoldState(keys=0)
    payloads = payloads_of(window)
    skip = np.zeros(len(payloads.batches), np.uint8)
    assert fold_payloads(payloads, skip, plan, slots, facts, FoldColumns(), state, limit=64)
    return facts[: state.keys].tolist(), state


def mutations(sample: bytes) -> Iterator[bytes]:
    yield sample
    for end in range(len(sample)):
        yield sample[:end]
    for position, byte in enumerate(sample):
        for other in (byte ^ 0x01, byte ^ 0x80, 0x00, 0x7F, 0xFF):
            yield sample[:position] + bytes([other]) + sample[position + 1 :]


@pytest.mark.parametrize("name", list(WINDOWS))
def test_fold_stays_in_bounds_and_compiled_gives_the_same(name: str) -> None:
    compared = refused = 0

    for mutation in mutations(bytes(WINDOWS[name])):
        expected = fold_uncompiled(mutation, SEED, CONTENT_SEED)
        if expected is None:
            continue
        try:
            facts, state = folded(mutation)
        except KafkaError:
            assert expected.status != 0
            refused += 1
            continue
        assert expected.status == 0
        _without_stale_contents(facts)
        _without_stale_contents(expected.facts)
        assert (facts, list(state.counts)) == (expected.facts, expected.counts)
        assert state.last_seen == expected.last_seen
        compared += 1

    assert compared > 100
    assert refused > 50


def _without_stale_contents(facts: list[list[int]]) -> None:
    """Where a key is not live its content is whatever it was, which depends on the columns."""
    for row in facts:
        if row[2] >= 2**63:
            row[3:] = []


def test_facts_are_hash_mark_and_content_of_the_latest_record() -> None:
    story = [(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"a", b"3"), (b"c", None), (b"b", None)]

    facts, state = folded(build_batch([(1, key, value, ()) for key, value in story]))

    assert [tuple(row[:2]) for row in facts] == [
        siphash128(key, SEED) for key in (b"a", b"b", b"c")
    ]
    assert [row[2] for row in facts] == [3, 2**64 + ~5, 2**64 + ~4]
    assert tuple(facts[0][3:]) == siphash128(b"\x02a\x023", CONTENT_SEED)
    assert state.counts == (6, 0, 3, 2, 1)


def test_only_records_between_the_offsets_are_folded() -> None:
    window = build_batch([(1, b"%d" % n, b"v", ()) for n in range(9)])

    facts, state = folded(window, PLAN._replace(start_offset=3, end_offset=5))

    assert [row[2] for row in facts] == [3, 4]
    assert state.counts.records == 2
    assert state.last_seen == 8


def test_skipped_batches_are_neither_checked_nor_parsed() -> None:
    window = build_batch([(1, b"a", b"1", ())]) + bytes(
        build_batch([(1, b"b", b"1", ())], base_offset=1)[:-8] + b"\xff" * 8
    )
    payloads, state = payloads_of(window), FoldState(keys=0)
    slots, facts = np.zeros(8, np.uint64), np.zeros((4, FACTS_WITH_CONTENT), np.uint64)
    plan, skip = PLAN._replace(checks_crc=True), np.array([0, 2], np.uint8)

    done = fold_payloads(payloads, skip, plan, slots, facts, FoldColumns(), state, limit=4)

    assert done
    assert state.keys == 1


def test_wrong_crc_is_refused_with_and_without_an_instruction_for_it() -> None:
    window = bytearray(build_batch([(1, b"a", b"1", ())]))
    window[-2] ^= 1

    with pytest.raises(CorruptRecord, match="crc 0x"):
        folded(window, PLAN._replace(checks_crc=True))
    with pytest.raises(CorruptRecord, match="crc 0x"):
        check_crcs(window, scan(window), np.zeros(1, np.uint8))
    folded(window)


@examples(60)
@given(st.lists(st.integers(0, 9) | st.integers(0, 200), max_size=70))
def test_pieces_of_any_lengths_are_hashed_as_one_by_one(lengths: list[int]) -> None:
    data = bytes(range(251)) * 2
    starts = [(7 * index) % 100 for index in range(len(lengths))]
    low, high = uint64s([0] * len(lengths)), uint64s([0] * len(lengths))
    k0, k1 = (int.from_bytes(SEED[at : at + 8], "little") for at in (0, 8))

    contents.hash_pieces(
        CheckedPointer(data), int64s(starts), int32s(lengths), len(lengths), k0, k1, low, high,
        uint64s([0] * contents.PIECE_LANE_WORDS),
    )  # fmt: skip

    spans = zip(starts, lengths, strict=True)
    expected = [siphash128(data[start : start + length], SEED) for start, length in spans]
    assert list(zip(low.numbers, high.numbers, strict=True)) == expected


@examples(60)
@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 300)), max_size=300))
def test_compiled_fold_hashes_contents_of_any_lengths(records: list[tuple[bytes, int]]) -> None:
    window = build_batch(
        [(1, key, b"v" * size, ()) for key, size in records] or [(1, None, b"", ())]
    )
    live = {key: b"v" * size for key, size in records}
    facts = np.zeros((300, FACTS_WITH_CONTENT), np.uint64)
    state, payloads = FoldState(keys=0), payloads_of(window)

    fold_payloads(
        payloads, np.zeros(1, np.uint8), PLAN, np.zeros(512, np.uint64), facts, FoldColumns(),
        state, limit=300,
    )  # fmt: skip

    plain = [siphash128(key, SEED) for key in live]
    assert [tuple(row[:2]) for row in facts[: state.keys].tolist()] == plain
    assert [tuple(row[3:]) for row in facts[: state.keys].tolist()] == [
        siphash128(_length(key) + key + _length(value) + value, CONTENT_SEED)
        for key, value in live.items()
    ]


def _length(data: bytes) -> bytes:
    number = 2 * len(data)
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def test_lengths_that_take_too_much_are_hashed_as_if_they_did_not() -> None:
    body = b"\0\0\0" + b"\x86\0abc" + b"\x88\x80\0" + b"1234" + b"\0"
    batch = build_batch([(1, b"abc", b"1234???", ())])
    batch[61:] = bytes([2 * len(body)]) + body
    write_crc(batch, 0, len(batch))

    facts, _ = folded(batch, PLAN._replace(checks_crc=True))

    assert tuple(facts[0][3:]) == siphash128(b"\x06abc\x081234", CONTENT_SEED)


# -- keys -------------------------------------------------------------------------------------


def fed_one_by_one(limit: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64], FoldState]:
    """Fifty keys in a table that is given room for one more each time it is full."""
    window = build_batch([(1, b"%d" % (n % 50), b"v", ()) for n in range(150)])
    payloads, columns, state = payloads_of(window), FoldColumns(), FoldState(keys=0)
    slots, facts = np.zeros(1, np.uint64), np.zeros((0, FACTS_WITH_CONTENT), np.uint64)
    skip = np.zeros(1, np.uint8)
    while not fold_payloads(payloads, skip, PLAN, slots, facts, columns, state, limit=len(facts)):
        facts = np.concatenate((facts, np.zeros((limit, FACTS_WITH_CONTENT), np.uint64)))
        slots = moved_to_more_slots(slots, len(slots) + limit)
    return slots, facts, state


@pytest.mark.parametrize("step", [1, 7, 60])
def test_full_keys_go_on_where_they_stopped(step: int) -> None:
    slots, facts, state = fed_one_by_one(step)

    hashes = np.array([siphash128(b"%d" % n, SEED) for n in range(60)], np.uint64)
    numbers = find_keys(slots, facts, state.keys, Hashes(hashes[:, 0], hashes[:, 1]))

    assert numbers.tolist() == [*range(50), *[-1] * 10]
    assert facts[:50, 2].tolist() == list(range(100, 150))
    assert state.counts.records == 150


@examples(100)
@given(st.lists(st.integers(0, 12), unique=True, max_size=12), st.integers(13, 20))
def test_keys_of_one_tag_are_told_apart_by_their_facts(keys: list[int], slots: int) -> None:
    tags = [(key % 3) << 62 for key in keys]
    low, high = uint64s([tag | key % 2 for tag, key in zip(tags, keys, strict=True)]), uint64s(keys)
    table, facts = uint64s([0] * slots), uint64s([0] * (3 * len(keys)))
    state = int64s([0] * folding.STATE_FIELDS)
    state[folding.ROWS] = len(keys)
    column = int64s([0] * len(keys))

    status = folding.settle_rows(
        fold_call(
            table=table,
            slots=slots,
            facts=facts,
            limit=len(keys),
            stride=3,
            offset=int64s(range(len(keys))),
            content_length=int32s([1] * len(keys)),
            low=low,
            high=high,
            number=column,
            state=state,
        )
    )
    larger = uint64s([0] * (slots + 3))
    moved = key_facts.move_keys(table, slots, larger, slots + 3)
    key_facts.find_keys(
        FindCall(
            table=larger,
            slots=slots + 3,
            facts=facts,
            size=len(keys),
            stride=3,
            low=low,
            high=high,
            count=len(keys),
            number=column,
        )
    )

    assert (status, moved) == (0, 0)
    assert column.numbers == list(range(len(keys)))


def test_table_without_a_free_slot_is_refused() -> None:
    window = build_batch([(1, b"%d" % n, b"v", ()) for n in range(3)])
    facts = np.zeros((9, FACTS_WITH_CONTENT), np.uint64)

    with pytest.raises(InvariantViolation, match="status 121"):
        fold_payloads(
            payloads_of(window), np.zeros(1, np.uint8), PLAN, np.zeros(2, np.uint64), facts,
            FoldColumns(), FoldState(keys=0), limit=9,
        )  # fmt: skip


def test_number_above_the_facts_is_never_followed() -> None:
    slots = np.array([5], np.uint64)
    facts = np.zeros((1, FACTS_WITH_CONTENT), np.uint64)

    numbers = find_keys(slots, facts, 1, Hashes(*np.zeros((2, 1), np.uint64)))

    assert numbers.tolist() == [-1]


@pytest.mark.parametrize(
    ("skip", "facts", "slots", "limit"),
    [
        (0, (4, 5), 8, 4),
        (2, (4, 5), 8, 4),
        (1, (4, 4), 8, 4),
        (1, (4, 5), 0, 4),
        (1, (4, 5), 8, 5),
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_the_kernel_sees_them(
    skip: int, facts: tuple[int, int], slots: int, limit: int
) -> None:
    window = build_batch([(1, b"a", b"1", ())])

    with pytest.raises(ValueError, match=r"flags|facts"):
        fold_payloads(
            payloads_of(window), np.zeros(skip, np.uint8), PLAN, np.zeros(slots, np.uint64),
            np.zeros(facts, np.uint64), FoldColumns(), FoldState(keys=0), limit=limit,
        )  # fmt: skip


def test_glue_makes_room_for_all_that_the_kernel_writes() -> None:
    assert (
        glue._STATE_FIELDS,
        glue._REPORT_FIELDS,
        glue._LANE_WORDS,
        glue._KEYS_FULL,
        glue._BAD_ORDER,
        glue._BAD_CRC,
    ) == (
        folding.STATE_FIELDS,
        folding.REPORT_FIELDS,
        contents.PIECE_LANE_WORDS,
        folding.KEYS_FULL,
        folding.BAD_ORDER,
        folding.BAD_CRC,
    )
