"""Whom a quota can be for, and what values it can have."""

import math

import pytest

from ledgerstone.errors import InvalidRequest
from ledgerstone.quotas.entities import QuotaEntity, check_value, checked_entity, plain_address

USER = QuotaEntity.of({"user": "ann"})
IP = QuotaEntity.of({"ip": "10.0.0.1"})

Parts = list[tuple[str, str | None]]


@pytest.mark.parametrize(
    "parts",
    [
        [("user", "a")],
        [("user", None)],
        [("client-id", "c")],
        [("client-id", None), ("user", "a")],
        [("ip", None)],
        [("user", "a/b ,=ü")],
    ],
)
def test_entities_that_can_have_quotas(parts: Parts) -> None:
    assert dict(checked_entity(parts).parts) == dict(parts)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("user", "")],
        [("planet", "mars")],
        [("user", "a"), ("user", "b")],
        [("ip", "10.0.0.1"), ("user", "a")],
        [("ip", None), ("client-id", None)],
        [("ip", "localhost")],
        [("ip", "10.0.0.0/8")],
    ],
)
def test_entities_that_cannot(parts: Parts) -> None:
    with pytest.raises(InvalidRequest):
        checked_entity(parts)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80::1"),
        ("local", None),
    ],
)
def test_address_has_one_text(text: str, plain: str | None) -> None:
    assert plain_address(text) == plain


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf, 1.5, 2.0**64])
def test_bytes_a_second_are_positive_whole_numbers(value: float) -> None:
    with pytest.raises(InvalidRequest):
        check_value(USER, "producer_byte_rate", value)


@pytest.mark.parametrize(
    ("key", "value"), [("request_percentage", 0.5), ("producer_byte_rate", 1.0000000001)]
)
def test_values_that_are_taken(key: str, value: float) -> None:
    check_value(USER, key, value)


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER, "connection_creation_rate", 5.0),
        (IP, "producer_byte_rate", 5.0),
        (IP, "connection_creation_rate", 2.0**31),
        (USER, "nonsense", 1.0),
        (USER, "controller_mutation_rate", math.inf),
    ],
)
def test_values_that_are_refused(entity: QuotaEntity, key: str, value: float) -> None:
    with pytest.raises(InvalidRequest):
        check_value(entity, key, value)
