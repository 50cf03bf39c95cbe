"""Rows as keys and values: the same row, the same bytes; no row without a key."""

import json
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from ledgerstone.pipeline.sources.row_bytes import KeyFormat, key_bytes, value_bytes

HOSTILE = ["", " ", '"', "\\", "\x00", "\n", "ключ", "🪦", "a:b", "' OR 1=1 --", "\ud800", "null"]


def test_order_of_columns_does_not_change_a_value() -> None:
    assert value_bytes({"b": 1, "a": 2}) == value_bytes({"a": 2, "b": 1}) == b'{"a":2,"b":1}'


def test_what_json_has_no_word_for_is_text() -> None:
    row = {
        "bytes": b"\x00\xff",
        "decimal": Decimal("1E+3"),
        "moment": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "span": timedelta(seconds=90),
        "id": uuid.UUID(int=1),
        "nan": float("nan"),
        "list": [Decimal("0.10"), None],
        "map": {"x": b"a"},
    }

    content = json.loads(value_bytes(row))

    assert content == {
        "bytes": "AP8=",
        "decimal": "1000",
        "moment": "2026-01-02T03:04:05.000006+00:00",
        "day": "2026-01-02",
        "span": 90.0,
        "id": "00000000-0000-0000-0000-000000000001",
        "nan": "nan",
        "list": ["0.10", None],
        "map": {"x": "YQ=="},
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_data(name: str) -> None:
    value = value_bytes({name: name})
    key = key_bytes([name], [name], KeyFormat.STRING)

    assert json.loads(value.decode("utf-8", "surrogatepass")) == {name: name}
    assert key.decode("utf-8", "surrogatepass") == name


def test_a_key_of_several_columns_is_json_and_one_of_one_is_text() -> None:
    assert key_bytes(["b", "a"], [1, "x"], KeyFormat.JSON) == b'{"a":"x","b":1}'
    assert key_bytes(["a"], [1], KeyFormat.STRING) == b"1"


def test_a_row_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="key column 'id' is null"):
        key_bytes(["id"], [None], KeyFormat.STRING)
