"""Where a group lives, against values that Java computed."""

import pytest

from ledgerstone.coordinator.partitioning import java_hash, java_length, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}", 233),
        # Two UTF-16 units: 0xD83D, 0xDE00.
        ("\N{GRINNING FACE}", 31 * 0xD83D + 0xDE00),
    ],
)
def test_hash_is_that_of_a_java_string(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_partition_of_a_negative_hash_is_taken_from_its_absolute_value() -> None:
    group_id = "console-consumer"
    value = java_hash(group_id)

    assert value < 0
    assert partition_for(group_id, 50) == -value % 50
    assert partition_for(group_id, 50) != (value & 0x7FFFFFFF) % 50


def test_partition_of_the_smallest_hash_is_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_characters_outside_the_first_plane_count_twice() -> None:
    assert java_length("a\N{GRINNING FACE}") == 3
