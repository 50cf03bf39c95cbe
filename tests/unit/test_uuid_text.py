"""Ids as text: 22 characters, and chance that keeps away from special ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.uuid_text import random_uuid, uuid_from_text, uuid_to_text


class _ScriptedDice:
    """Throws what it was told to."""

    def __init__(self, *throws: bytes) -> None:
        self._throws = list(throws)

    def below(self, bound: int) -> int:
        raise AssertionError(f"nobody should ask for a number below {bound}")

    def random_bytes(self, count: int) -> bytes:
        throw = self._throws.pop(0)
        assert len(throw) == count
        return throw


def test_the_metadata_topic_id_has_its_known_text() -> None:
    assert uuid_to_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"


@given(st.binary(min_size=16, max_size=16))
def test_text_and_bytes_are_the_same_id(uuid: bytes) -> None:
    text = uuid_to_text(uuid)

    assert len(text) == 22
    assert uuid_from_text(text) == uuid


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 21 + "=", "A" * 21 + "B", "+" * 22, "A" * 21 + "A\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid"):
        uuid_from_text(text)


def test_an_id_of_another_length_has_no_text() -> None:
    with pytest.raises(ValueError, match="not 15"):
        uuid_to_text(bytes(15))


def test_an_id_that_would_start_with_a_dash_is_drawn_again() -> None:
    dash = b"\xf8" + bytes(15)

    drawn = random_uuid(_ScriptedDice(dash, dash, bytes(range(16))))

    assert uuid_to_text(dash).startswith("-")
    assert drawn == bytes.fromhex("0001020304054607" + "88090a0b0c0d0e0f")


def test_even_all_zero_dice_give_no_special_id() -> None:
    drawn = random_uuid(_ScriptedDice(bytes(16)))

    assert int.from_bytes(drawn) > 2**64
