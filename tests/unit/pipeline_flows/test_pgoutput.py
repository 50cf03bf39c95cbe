"""Messages of logical decoding: which keys changed, and nothing believed that is not there."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.sources.pgoutput import ChangedKeys
from tests.kit.sized import examples

COLUMNS = ("id", "name")


def relation(relation_id: int, name: str, columns: Sequence[str] = COLUMNS) -> bytes:
    parts = [b"R", struct.pack(">I", relation_id), b"public\x00"]
    parts += [name.encode() + b"\x00", b"d", struct.pack(">H", len(columns))]
    for column in columns:
        parts.append(b"\x01" + column.encode() + b"\x00" + struct.pack(">Ii", 25, -1))
    return b"".join(parts)


def cells(*values: str | None) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        text = b"" if value is None else value.encode()
        parts.append(b"n" if value is None else b"t" + struct.pack(">I", len(text)) + text)
    return b"".join(parts)


def changed(*messages: bytes, table: str = "users") -> ChangedKeys:
    found = ChangedKeys(table, ["id"])
    for message in (relation(1, "users"), *messages):
        found.read(message)
    return found


INSERT = b"I" + struct.pack(">I", 1) + b"N" + cells("7", "x")


def test_inserts_updates_and_deletes_tell_their_keys() -> None:
    update = b"U" + struct.pack(">I", 1) + b"N" + cells("8", None)
    moved = b"U" + struct.pack(">I", 1) + b"K" + cells("9", None) + b"N" + cells("10", "")
    delete = b"D" + struct.pack(">I", 1) + b"K" + cells("11", None)

    found = changed(b"B" + bytes(20), INSERT, update, moved, delete, b"C" + bytes(25))

    assert list(found.keys) == [("7",), ("8",), ("9",), ("10",), ("11",)]
    assert not found.is_truncated


def test_other_tables_are_passed_over() -> None:
    other = b"I" + struct.pack(">I", 2) + b"N" + cells("7", "x")

    found = changed(relation(2, "orders"), other)

    assert not found.keys


def test_a_table_may_be_named_with_its_schema() -> None:
    assert list(changed(INSERT, table="public.users").keys) == [("7",)]
    assert not changed(INSERT, table="private.users").keys


def test_a_truncated_table_is_noticed() -> None:
    truncate = b"T" + struct.pack(">I", 1) + b"\x00" + struct.pack(">I", 1)

    assert changed(truncate).is_truncated


def test_a_change_that_does_not_tell_the_key_is_refused() -> None:
    with pytest.raises(PipelineError, match="replica identity"):
        changed(b"D" + struct.pack(">I", 1) + b"K" + cells(None, "x"))


@pytest.mark.parametrize("length", range(1, len(INSERT)))
def test_a_message_that_is_cut_is_refused(length: int) -> None:
    with pytest.raises(PipelineError):
        changed(INSERT[:length])


@given(st.binary(max_size=60))
@examples(200)
def test_bytes_that_are_no_message_never_do_more_than_fail(data: bytes) -> None:
    found = ChangedKeys("users", ["id"])

    try:
        found.read(relation(1, "users"))
        found.read(data)
    except (PipelineError, UnicodeDecodeError):
        return

    assert len(found.keys) <= len(data)
