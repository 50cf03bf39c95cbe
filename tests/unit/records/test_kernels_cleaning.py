"""The kernels of a cleaning, compiled and over pointers that check: CRC, checks, map, rewrite."""

from collections.abc import Iterator

import numpy as np
import pytest
from crc32c import crc32c

from ledgerstone.errors import CorruptRecord, KafkaError
from ledgerstone.records.batch import CODEC_MASK
from ledgerstone.records.builder import build_batch
from ledgerstone.records.compression import Codecs
from ledgerstone.records.kernels import (
    BatchChecker,
    JudgementRules,
    PutState,
    Scratch,
    clean_payloads,
    map_payloads,
    new_table,
    scan,
)
from ledgerstone.records.kernels.checking import BatchNotBelieved
from ledgerstone.records.kernels.newest import NewestBits, discard_superseded
from ledgerstone.records.kernels.source import checking, cleaning, crc, walk
from ledgerstone.records.kernels.source.words import crc_byte, crc_word
from ledgerstone.types import INT64_MAX
from tests.kit.payloads import opened
from tests.oracles.checked_pointer import CheckedPointer
from tests.oracles.uncompiled_cleaning import (
    BITS,
    SEED,
    SLOTS,
    check_uncompiled,
    clean_uncompiled,
)

RULES = JudgementRules(1000, 50, INT64_MAX, 90)


def _window(*, keyless: bool = True) -> bytes:
    first_key = None if keyless else b"n"
    fields = [(first_key, b"n"), (b"a", b"1"), (b"b", None), (b"a", b"2")]
    first = build_batch([(5, key, value, (("h", b"x"),)) for key, value in fields])
    second = build_batch([(-(2**40), b"b", b"3", ())], base_offset=4)
    third = build_batch([(7, b"c", None, ())], base_offset=5, delete_horizon_ms=40)
    return bytes(first + second + third)


def _mutations(sample: bytes, *, some: bool = False) -> Iterator[bytes]:
    for end in range(len(sample)):
        yield sample[:end]
    for position, byte in enumerate(sample):
        for other in (byte ^ 0x80, 0xFF) if some else (byte ^ 0x01, byte ^ 0x80, 0x7F, 0xFF):
            yield sample[:position] + bytes([other]) + sample[position + 1 :]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1535, 1536, 1545, 3 * 5120, 3 * 5120 + 1536 + 13])
def test_crc_is_that_of_the_package_in_one_lane_and_in_three(size: int) -> None:
    data = np.random.default_rng(size).bytes(size + 2)

    assert crc.crc32c(CheckedPointer(data), 1, size + 1) == crc32c(data[1:-1])


def test_word_is_eight_bytes_to_a_crc() -> None:
    register = 0xDEADBEEF
    for byte in range(8):
        register = crc_byte(register, byte)

    assert crc_word(0xDEADBEEF, int.from_bytes(range(8), "little")) == register


def test_compiled_crc_holds_for_batches_of_any_size() -> None:
    value = np.random.default_rng(1).bytes(70_000)

    for size in (0, 1, 1400, 1500, 5000, 15_300, 16_000, 65_000, 70_000):
        batch = build_batch([(1, b"k", value[:size], ())])
        checked = BatchChecker().check(batch, previous_last=-1, end_offset=1)
        assert checked.records == 1
        batch[-1] ^= 1
        with pytest.raises(CorruptRecord, match="batch crc"):
            BatchChecker().check(batch, previous_last=-1, end_offset=1)


@pytest.mark.parametrize(
    ("previous_last", "end_offset", "match"),
    [(0, 6, "offsets 0 to 3 after 0"), (-1, 5, "5 to 5 after 4, the segment ends before 5")],
)
def test_offsets_that_do_not_rise_or_leave_the_segment_are_not_believed(
    previous_last: int, end_offset: int, match: str
) -> None:
    window = _window()

    with pytest.raises(CorruptRecord, match=match):
        BatchChecker().check(window, previous_last=previous_last, end_offset=end_offset)


def test_checked_batches_are_those_of_a_scan() -> None:
    window = _window() + b"\0" * 16

    checked = BatchChecker().check(window, previous_last=-1, end_offset=6)

    scanned = scan(window)
    assert checked.batches.rows.tolist() == scanned.rows.tolist()
    assert checked.batches.consumed == scanned.consumed == len(window) - 16
    assert (checked.attributes, checked.records, checked.most_records) == (0x40, 6, 4)


def test_batches_without_a_row_come_with_the_next_check_which_has_more_rows() -> None:
    sizes, last = [], -1
    window = b"".join(build_batch([(1, b"k", b"", ())], base_offset=at) for at in range(1000))
    checker, position = BatchChecker(), 0

    while position < len(window):
        checked = checker.check(window[position:], previous_last=last, end_offset=1000)
        sizes.append(len(checked.batches))
        last = int(checked.batches.last_offset[-1])
        position += checked.batches.consumed

    assert sizes == [256, 512, 232]
    assert last == 999


def test_first_fault_is_the_one_that_is_told() -> None:
    window = bytearray(_window())
    window[60] ^= 1
    window[-1] ^= 1

    with pytest.raises(BatchNotBelieved, match="batch crc") as caught:
        BatchChecker().check(window, previous_last=-1, end_offset=6)

    assert caught.value.position == 0


def test_fault_in_a_later_batch_is_told_with_its_position() -> None:
    window = bytearray(_window())
    third = int(scan(window).position[2])
    window[third + 16] = 3

    with pytest.raises(KafkaError, match="magic"):
        BatchChecker().check(window, previous_last=-1, end_offset=6)

    window[third + 16] = 2
    window[-1] ^= 1
    with pytest.raises(BatchNotBelieved, match="batch crc") as caught:
        BatchChecker().check(window, previous_last=-1, end_offset=6)
    assert caught.value.position == third


def test_check_writes_no_more_rows_than_it_has_room_for() -> None:
    status, report = check_uncompiled(_window(), capacity=2)

    assert (status, report[checking.BATCHES], report[checking.ROWS_ARE_FULL]) == (0, 2, 1)


def test_check_stays_in_bounds_and_notices_every_changed_byte() -> None:
    window = _window()
    believed = 0

    for mutation in _mutations(window):
        status, report = check_uncompiled(mutation)
        try:
            checked = BatchChecker().check(mutation, previous_last=-1, end_offset=INT64_MAX)
        except KafkaError:
            assert status != 0
        else:
            assert (status, report[checking.BATCHES]) == (0, len(checked.batches))
            believed += len(checked.batches) > 0 and mutation != window[: len(mutation)]
    # A CRC covers neither the base offset, nor the leader epoch before it.
    assert 0 < believed <= 3 * 12 * 4


@pytest.mark.parametrize(
    ("keyless", "some"),
    [
        (True, True),
        (False, True),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, False, marks=pytest.mark.slow),
    ],
)
def test_cleaning_stays_in_bounds_and_compiled_leaves_the_same(keyless: bool, some: bool) -> None:
    cleaned = by_bits = 0

    # A gap, and then a batch that supersedes a whole one.
    last = build_batch([(8, b"b", b"4", ())], base_offset=9)
    for mutation in _mutations(_window(keyless=keyless) + last, some=some):
        uncompiled = clean_uncompiled(mutation, RULES)
        if uncompiled is None or (scan(mutation).attributes & CODEC_MASK).any():
            # A codec the flip made up is for the glue to refuse.
            continue
        try:
            data, table, counts = _compiled(mutation)
        except KafkaError:
            assert uncompiled.map_status != 0 or uncompiled.clean_status != 0
            continue
        if uncompiled.clean_status == 0:
            assert (data, table) == (uncompiled.data, uncompiled.table)
            assert counts == uncompiled.counts[:7]
            cleaned += 1
            by_bits += uncompiled.bits_hold

    assert cleaned > 100
    # The bits say nothing where there are records without a key: in none but the first batch.
    assert (by_bits > cleaned // 2) is not keyless


def _compiled(window: bytes) -> tuple[bytes, list[int], list[int]]:
    table, scratch = new_table(SLOTS), Scratch()
    # The caller that allocates room refuses more records than the bytes can hold.
    if any(count > scratch.room for count in scan(window).record_count.tolist()):
        raise CorruptRecord("too many records")
    payloads, actions = opened(window)
    bits = NewestBits(0, BITS)
    state = PutState(bits)
    map_payloads(payloads, actions, scratch, table, SEED, state, bits, limit=SLOTS, min_offset=None)
    discarded, out = 0, np.empty(len(window) + 10_000, np.uint8)
    if state.bits_hold:
        discarded = discard_superseded(payloads.batches, actions, bits, RULES.latest_offset)
    else:
        bits = NewestBits(0, 0)
    left = clean_payloads(
        payloads, actions, scratch, table, SEED, RULES, bits, out=out, codecs=Codecs()
    )
    counts = [left.kept, left.superseded + discarded, left.expired, left.keyless]
    counts += [left.tombstones_kept, left.tombstones_stamped, left.tombstones_held]
    return bytes(left.data), table.tolist(), counts


def test_full_table_is_handed_back_with_the_place_to_go_on_from() -> None:
    uncompiled = clean_uncompiled(_window(), RULES, limit=2)

    assert uncompiled is not None
    assert uncompiled.map_status == cleaning.TABLE_FULL


def test_batch_with_more_records_than_columns_have_places_is_a_fault() -> None:
    uncompiled = clean_uncompiled(_window(), RULES, room=3)

    assert uncompiled is not None
    assert uncompiled.map_status == uncompiled.clean_status == walk.TOO_MANY_RECORDS


def test_actions_for_fewer_batches_than_there_are_reach_no_kernel() -> None:
    payloads, actions = opened(_window())

    with pytest.raises(ValueError, match="3 of 3 batches, 2 actions"):
        map_payloads(
            payloads,
            actions[:2],
            Scratch(),
            new_table(SLOTS),
            SEED,
            PutState(NewestBits(0, 0)),
            NewestBits(0, 0),
            limit=SLOTS,
            min_offset=None,
        )
