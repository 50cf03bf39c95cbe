"""The schema notation: what a text says, and how a wrong one is refused."""

from pathlib import Path

import pytest

from ledgerstone.protocol import notation
from ledgerstone.protocol.notation import NEWEST, NO_VERSIONS, NotationError, VersionRange, parse

SCHEMAS = Path(notation.__file__).parent / "schemas"
HEAD = "api 1 Fetch\nrequest v4-18 flexible 12+\n"


def test_field_carries_everything_its_line_says() -> None:
    text = HEAD + "    cluster_id: str?5+ #3 = null @12-15\n"

    (message,) = parse(text, "t.txt").messages
    (field,) = message.root.fields

    assert (message.name, message.number, message.kind) == ("FetchRequest", 1, "request")
    assert message.versions == VersionRange(4, 18)
    assert not message.is_flexible(11)
    assert message.is_flexible(12)
    assert (field.name, field.type, field.tag, field.default) == ("cluster_id", "str", 3, None)
    assert field.nullable == VersionRange(5, NEWEST)
    assert field.versions == VersionRange(12, 15)


def test_defaults_are_numbers_and_flags() -> None:
    text = HEAD + "    a: i32 = -1\n    b: bool = true\n    c: i64\n"

    (message,) = parse(text, "t.txt").messages

    assert [each.default for each in message.root.fields] == [-1, True, None]
    assert message.root.fields[0].nullable == NO_VERSIONS


def test_indented_lines_are_the_fields_of_the_struct_above() -> None:
    text = HEAD + "    topics: [Topic]\n        id: uuid\n        parts: [i32]\n    rack: str\n"

    (message,) = parse(text, "t.txt").messages
    topics, rack = message.root.fields

    assert topics.is_array
    assert topics.struct is not None
    assert [each.name for each in topics.struct.fields] == ["id", "parts"]
    assert rack.name == "rack"
    assert [each.name for each in message.structs()] == ["Topic", "FetchRequest"]


def test_struct_described_above_is_used_again_by_its_name() -> None:
    text = HEAD + "    old: Topic\n        name: str\n    new: [Topic]\n"

    (message,) = parse(text, "t.txt").messages
    old, new = message.root.fields

    assert old.struct is new.struct


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("    acks", 5, "not a field"),
        ("    acks: i17", 11, "no such type"),
        ("    acks: i16 = 1 surplus", 18, "not understood"),
        ("    acks: i16?", 14, "cannot be null"),
        ("    acks: [i16", 12, "both brackets"),
        ("    acks: i16 = null", 17, "never null"),
        ("    acks: i16 = true", 17, "is not a valid i16"),
        ("    name: str = 5", 17, "cannot have the default"),
        ("    topics: [Topic]", 14, "not described above"),
        ("      acks: i16", 7, "not by fours"),
        ("        acks: i16", 9, "deeper"),
    ],
)
def test_error_names_file_line_and_column(line: str, column: int, reason: str) -> None:
    with pytest.raises(NotationError, match=reason) as caught:
        parse(HEAD + line + "\n", "fetch.txt")

    assert str(caught.value).startswith(f"fetch.txt:3:{column}: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("request v0-1 rigid\n", "no api"),
        ("api 1 Fetch\ndata Thing v0-0 rigid\n", "an api"),
        ("api 1 Fetch\nrequest v0 rigid\n", "not the head"),
        ("thing Name v0-1 rigid\n", "no such kind"),
        (HEAD + "    a: i8 #1\n    b: i8 #1\n", "share tag 1"),
        (HEAD + "    a: i8\n    a: i8\n", "repeated"),
        (HEAD + "    a: T\n        b: i8\n    c: T\n        d: i8\n", "described twice"),
        (HEAD + "    a: i8\n        b: i8\n", "cannot hold fields"),
    ],
)
def test_text_that_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(NotationError, match=reason):
        parse(text, "t.txt")


def test_every_schema_text_is_understood_and_names_its_fields_once() -> None:
    texts = sorted(SCHEMAS.glob("*.txt"))

    schemas = [parse(path.read_text(encoding="utf-8"), path.name) for path in texts]

    keys = [schema.api_key for schema in schemas if schema.api_key is not None]
    assert len(keys) == len(set(keys)) == 90
    assert all(len(schema.messages) == 2 for schema in schemas if schema.api_key is not None)
