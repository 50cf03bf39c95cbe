"""Requests are checked before anything is written; headers say what they must and no more."""

from typing import Any

import pytest

from ledgerstone.erasure.audit_headers import check_text, erasure_id_in, headers_of
from ledgerstone.erasure.erasure import Stage, is_id, new_id
from ledgerstone.erasure.sealing import unseal
from ledgerstone.errors import InvalidRequest
from ledgerstone.sim.dice import SeededDice
from ledgerstone.time_text import MAX_TIME_MS, iso_time
from tests.unit.erasure.making import DAY_MS, KEY, PRINT_KEY, T0, requested

HOSTILE_KEYS = [
    b"", b"\0", b"\0" * 16, b"\xff\xfe", b"\n\r\t", b'"}', b"ledgerstone.erasure.id", b"%s%n",
    "größe".encode(), "\u202egro".encode(), b"../../etc", b"a" * (1 << 20), bytes(range(256)),
]  # fmt: skip


def test_request_becomes_an_erasure_with_a_sealed_key() -> None:
    erasure = requested()

    assert erasure.stage is Stage.REQUESTED
    assert erasure.key_print == PRINT_KEY.print_of("customers", KEY)
    assert erasure.sealed_key is not None
    assert unseal(erasure.sealed_key, erasure_id=erasure.id, print_key=PRINT_KEY) == KEY
    assert (erasure.due_ms, erasure.deadline_ms) == (T0, T0 + 30 * DAY_MS)


def test_request_for_later_is_scheduled() -> None:
    erasure = requested(after_ms=7 * DAY_MS)

    assert erasure.stage is Stage.SCHEDULED
    assert erasure.due_ms == T0 + 7 * DAY_MS


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_hostile_keys_are_keys_like_any_other(key: bytes) -> None:
    erasure = requested(key=key)

    assert erasure.sealed_key is not None
    assert unseal(erasure.sealed_key, erasure_id=erasure.id, print_key=PRINT_KEY) == key
    assert len(key) < 6 or key.decode("latin-1") not in repr(erasure)


@pytest.mark.parametrize("field", ["reason", "requested_by"])
def test_text_that_contains_the_key_is_refused_without_repeating_it(field: str) -> None:
    change: dict[str, Any] = {field: f"erase {KEY.decode()} please"}
    with pytest.raises(InvalidRequest, match="contains the key") as caught:
        requested(**change)

    assert KEY.decode() not in str(caught.value)


def test_verifier_named_like_the_key_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="verifier contains the key"):
        requested(awaited_verifiers=["lake", KEY.decode()])


@pytest.mark.parametrize(("key", "is_refused"), [(b"4", False), (b"47", False), (b"471", True)])
def test_keys_of_one_or_two_bytes_are_in_every_text(key: bytes, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(InvalidRequest):
            requested(key=key, reason="ticket 4711")
    else:
        assert requested(key=key, reason="ticket 4711").reason == "ticket 4711"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * 1025, "1025 characters, at most 1024"),
        ("ä" * 513, "1026 bytes, at most 1024"),
        ("a\ud800", "not UTF-8 at character 1"),
    ],
)
def test_text_that_is_no_header_value_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        requested(reason=text)


def test_text_of_a_kibibyte_is_taken() -> None:
    assert check_text("reason", "ä" * 512) == ("ä" * 512).encode()


@pytest.mark.parametrize("deadline_ms", [T0, T0 + DAY_MS, MAX_TIME_MS + 1])
def test_deadline_that_cannot_be_met_or_written_is_refused(deadline_ms: int) -> None:
    with pytest.raises(InvalidRequest, match=f"deadline {deadline_ms}"):
        requested(after_ms=DAY_MS, deadline_ms=deadline_ms)


def test_time_limit_counts_from_when_the_request_is_taken() -> None:
    """Not from when the call came in: it may have waited, and the clock may have been set since."""
    assert requested(deadline_ms=None, within_ms=DAY_MS).deadline_ms == T0 + DAY_MS


@pytest.mark.parametrize("after_ms", [-1, MAX_TIME_MS])
def test_delay_that_is_no_time_is_refused(after_ms: int) -> None:
    with pytest.raises(InvalidRequest, match=f"after={after_ms}"):
        requested(after_ms=after_ms)


def test_too_many_verifiers_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="65 verifiers, at most 64"):
        requested(awaited_verifiers=[f"v{number}" for number in range(65)])


# -- ids ------------------------------------------------------------------------------------------


def test_ids_are_sixteen_letters_of_crockfords_alphabet() -> None:
    ids = [new_id(SeededDice(seed)) for seed in range(200)]

    assert all(is_id(each) for each in ids)
    assert len(dict.fromkeys(ids)) == 200
    assert sorted({letter for each in ids for letter in each[3:]}) == sorted(
        "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    )


@pytest.mark.parametrize("text", ["", "ER-", "ER-" + "I" * 16, "er-" + "0" * 16, "ER-" + "0" * 17])
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)


# -- headers --------------------------------------------------------------------------------------


def test_headers_name_id_reason_person_times_and_never_the_key() -> None:
    erasure = requested()

    headers = headers_of(erasure)

    assert headers == [
        ("ledgerstone.erasure.id", erasure.id.encode()),
        ("ledgerstone.erasure.reason", b"ticket 4711"),
        ("ledgerstone.erasure.requested-by", b"clerk"),
        ("ledgerstone.erasure.requested-at", b"2027-01-15T08:00:00.000Z"),
        ("ledgerstone.erasure.deadline", b"2027-02-14T08:00:00.000Z"),
    ]
    assert not any(KEY in value for _, value in headers if value is not None)


def test_deadline_header_is_left_out_without_a_deadline() -> None:
    names = [name for name, _ in headers_of(requested(deadline_ms=None))]

    assert "ledgerstone.erasure.deadline" not in names


def test_erasure_id_is_found_among_other_headers() -> None:
    erasure = requested()

    assert erasure_id_in([("trace", b"x"), *headers_of(erasure)]) == erasure.id
    assert erasure_id_in([("trace", b"x")]) is None
    assert erasure_id_in([("ledgerstone.erasure.id", None)]) is None
    assert erasure_id_in([("ledgerstone.erasure.id", b"\xff")]) == "\ufffd"


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (T0 + 999, "2027-01-15T08:00:00.999Z"),
        (MAX_TIME_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_iso_8601_to_the_millisecond(time_ms: int, text: str) -> None:
    assert iso_time(time_ms) == text
