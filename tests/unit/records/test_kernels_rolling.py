"""`RollingSearch`: strings found by their fingerprints alone, wherever they lie."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.records.kernels.rolling import RollingSearch, StringPrint
from ledgerstone.records.kernels.source.words import i16
from tests.kit.sized import examples
from tests.oracles.plain_rolling import every_place, fingerprint
from tests.oracles.plain_siphash import siphash128
from tests.oracles.uncompiled import candidates_uncompiled, find_rolling_uncompiled

BASE = 0x9E37_79B9_7F4A_7C15
SEED = bytes(range(16))


def search_for(*strings: bytes) -> RollingSearch:
    prints = [StringPrint(fingerprint(each, BASE), *siphash128(each, SEED)) for each in strings]
    return RollingSearch(prints, length=len(strings[0]), base=BASE, seed=SEED)


def found(search: RollingSearch, buffer: bytes, **window: int) -> list[tuple[int, int]]:
    positions, which = search.find(buffer, **window)
    return list(zip(positions.tolist(), which.tolist(), strict=True))


def thue_morse(size: int, letters: bytes) -> bytes:
    return bytes(letters[index.bit_count() & 1] for index in range(size))


@pytest.mark.parametrize("size", [6, 7, 9, 10, 13, 50, 51, 52, 53, 1000])
def test_string_is_found_at_every_place_it_may_have(size: int) -> None:
    search = search_for(b"needle", b"thread")

    for position in range(0, size - 5, 1 if size < 100 else 31):
        buffer = bytes(position) + b"thread" + bytes(size - position - 6)
        assert found(search, buffer) == [(position, 1)]


@given(
    st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from([b"a", b"b", b"\0", b"\xff", b"abc"]), max_size=80),
    st.data(),
)
@examples(100)
def test_what_is_found_is_what_is_there(
    strings: list[bytes], parts: list[bytes], data: st.DataObject
) -> None:
    buffer = b"".join([*parts, *strings])
    start = data.draw(st.integers(0, len(buffer)))
    end = data.draw(st.integers(start, len(buffer)))

    hits = found(search_for(*strings), buffer, start=start, end=end)
    status, uncompiled = find_rolling_uncompiled(
        buffer, strings, length=3, start=start, end=end, base=BASE, seed=SEED
    )

    there = every_place(buffer[start:end], strings)
    assert hits == sorted(hits)
    assert {(position - start, index) for position, index in hits} <= set(there)
    # Those left out overlap one that was found.
    for position, index in there:
        assert any(
            position - 3 < other - start <= position and index == same for other, same in hits
        )
    assert (status, uncompiled) == (0, hits)


def test_run_of_one_byte_is_not_found_at_every_position() -> None:
    hits = found(search_for(b"a" * 1000), b"a" * 100_000)

    assert 95 <= len(hits) <= 104


def test_strings_of_one_fingerprint_are_told_apart() -> None:
    # Such pairs exist for every base: the difference is a product of factors, all of them even.
    one, other = thue_morse(2048, b"ab"), thue_morse(2048, b"ba")
    assert fingerprint(one, BASE) == fingerprint(other, BASE)

    hits = found(search_for(one, other), b"x" + other + b"x" + one)

    assert hits == [(1, 1), (2050, 0)]


def test_string_that_only_shares_its_fingerprint_is_not_found() -> None:
    one, other = thue_morse(2048, b"ab"), thue_morse(2048, b"ba")

    assert found(search_for(one), b"x" * 7 + other) == []


def test_many_strings_are_found_in_their_order() -> None:
    strings = [b"key-%06d" % number for number in range(3000)]
    chosen = [2999, 0, 1234, 7]

    hits = found(search_for(*strings), b"--".join(strings[index] for index in chosen))

    assert hits == [(12 * at, index) for at, index in enumerate(chosen)]


@pytest.mark.parametrize("length", [1, 2, 3, 6, 7, 8, 21, 1024, 1025])
def test_string_is_found_whatever_its_length(length: int) -> None:
    string = bytes((7 * at + 3) % 251 for at in range(length))

    for position in (0, 1, 2047, 2048, 2049, 4096 - length, 5000):
        buffer = b"\xff" * position + string + b"\xff" * 3000
        assert found(search_for(string), buffer) == [(position, 0)]


def test_bytes_that_only_look_like_the_string_do_not_hide_it() -> None:
    # Every window of zeros has the low bits of the string, so there are too many candidates.
    low = fingerprint(bytes(8), BASE) & 0xFFFF
    alike = next(
        each
        for each in (number.to_bytes(8, "big") for number in range(1, 10**6))
        if fingerprint(each, BASE) & 0xFFFF == low
    )

    assert found(search_for(alike), bytes(20_000)) == []
    assert found(search_for(alike), b"\xff" + bytes(20_000) + b"\xff" + alike) == [(20_002, 0)]


@given(
    st.binary(max_size=60),
    st.integers(1, 20),
    st.integers(1, 9),
    st.data(),
)
@examples(100)
def test_candidates_are_the_windows_with_the_low_bits(
    buffer: bytes, length: int, block: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(buffer)))
    end = data.draw(st.integers(start, len(buffer)))
    lows = [
        i16(fingerprint(buffer[at : at + length], BASE)) for at in range(start, end - length + 1)
    ]
    wanted = sorted(set(lows[::2]))

    status, positions = candidates_uncompiled(
        buffer, wanted, length=length, base=BASE, start=start, end=end, block=block
    )

    expected = [start + at for at, low in enumerate(lows) if low in wanted]
    assert (status, sorted(positions)) == (0, expected)


@pytest.mark.parametrize(
    ("length", "start", "block", "scratch", "room", "status"),
    [
        (3, 0, 4, 7, 100, 0),
        (3, 0, 4, 6, 100, 2),
        (3, 0, 0, 9, 100, 2),
        (0, 0, 4, 9, 100, 2),
        (-1, 0, 4, 9, 100, 2),
        (9, 0, 4, 8, 100, 2),
        (3, -1, 4, 9, 100, 2),
        (3, 0, 2**62, 9, 100, 2),
        (3, 0, 4, 7, 2, 1),
        (3, 0, 4, 7, 0, 1),
    ],
)
def test_candidates_stay_inside_scratch_and_room(
    length: int, start: int, block: int, scratch: int, room: int, status: int
) -> None:
    low = i16(fingerprint(b"abc", BASE))

    answer, positions = candidates_uncompiled(
        b"abcabcabc", [low], length=length, base=BASE, start=start, block=block, scratch=scratch,
        room=room,
    )  # fmt: skip

    assert answer == status
    assert positions == ([0, 3, 6] if status == 0 else [])


def test_kernel_stays_inside_its_window_and_its_room() -> None:
    buffer, strings = b"abcabcabcabcab", [b"abc", b"bca"]

    for start in range(len(buffer) + 1):
        for end in range(start, len(buffer) + 1):
            status, hits = find_rolling_uncompiled(
                buffer, strings, length=3, start=start, end=end, base=BASE, seed=SEED
            )
            assert status == 0
            assert all(start <= position <= end - 3 for position, _ in hits)


@pytest.mark.parametrize(
    ("length", "start", "end", "room"),
    [
        (3, -1, 9, 99),
        (0, 0, 9, 99),
        (-5, 0, 9, 99),
        (3, 0, 9, 6),
        (3, 0, 9, 0),
        (3, -(2**62), 9, 0),
    ],
)
def test_kernel_refuses_arguments_that_do_not_fit(
    length: int, start: int, end: int, room: int
) -> None:
    strings: Sequence[bytes] = [b"abc"]

    status, hits = find_rolling_uncompiled(
        b"abcabcabc", strings, length=length, start=start, end=end, base=BASE, seed=SEED, room=room
    )

    assert (status, hits) == (1, [])


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (3, 2), (0, 10), (10, 10)])
def test_window_outside_the_buffer_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="window"):
        search_for(b"abc").find(b"abcabcabc", start=start, end=end)


def test_read_only_and_writable_buffers_are_searched_alike() -> None:
    array = np.frombuffer(b"..needle", np.uint8).copy()

    assert found(search_for(b"needle"), b"..needle") == [(2, 0)]
    assert found(search_for(b"needle"), array.data) == [(2, 0)]  # type: ignore[arg-type]
