"""How pages write what they show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.web import wording


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, ""),
        (b"", ""),
        (b"plain", "plain"),
        ("zażółć ✓".encode(), "zażółć ✓"),
        (b"\xff\xfe", "0xfffe"),
        (b"two\nlines\tand a tab", "two\nlines\tand a tab"),
        (b"bell\x07 return\r nul\x00", "bell\\x07 return\\r nul\\0"),
        ("\u202eright to left".encode(), "\\u{202e}right to left"),
        ("zero\u200bwidth".encode(), "zero\\u{200b}width"),
    ],
)
def test_bytes_are_text_where_they_are_text_and_no_character_hides(
    data: bytes | None, text: str
) -> None:
    assert wording.as_text(data) == text


def test_long_value_is_cut_and_says_its_size() -> None:
    assert wording.as_text(b"x" * 5000, 10) == "xxxxxxxxxx … 4.9 KiB"


def test_cut_goes_between_characters() -> None:
    assert wording.as_text("€€€€".encode(), 4) == "€ … 12 B"


@given(st.text())
def test_nothing_that_is_shown_can_move_or_hide_the_rest(text: str) -> None:
    shown = wording.visible(text)

    assert wording.visible(shown) == shown
    assert all(each.isprintable() or not each.isascii() or each in "\n\t" for each in shown)


@given(st.binary(max_size=300), st.integers(8, 100))
def test_any_bytes_become_a_bounded_text(data: bytes, limit: int) -> None:
    shown = wording.as_text(data, limit)

    # A byte becomes four characters at most where it is written out, plus the size.
    assert len(shown) <= limit * 9 + 16


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (200 << 20, "200 MiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert wording.size(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d 1 h"),
        (3_601_000, "1 h"),
    ],
)
def test_durations_have_their_two_largest_units(ms: int, text: str) -> None:
    assert wording.span(ms) == text


def test_moments_and_distances() -> None:
    assert wording.moment(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert wording.moment(1_700_000_000_000) == "2023-11-14T22:13:20.000Z"
    assert wording.moment(-1) == "-1 ms"
    assert wording.moment(1 << 62) == f"{1 << 62} ms"
    assert wording.away(70_000, 10_000) == "in 1 min"
    assert wording.away(10_000, 70_000) == "1 min ago"
    assert wording.away(10_000, 10_400) == "now"


def test_some_is_never_shown_as_none() -> None:
    assert [wording.percent(share) for share in (0, 0.004, 0.37, 1)] == [
        "0 %", "0.4 %", "37 %", "100 %",
    ]  # fmt: skip
