"""Java properties files: read as Java reads them, written as Java would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.config.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("content", "properties"),
    [
        (b"", {}),
        (b"# comment\n  ! another\n\n \t\n", {}),
        (b"a=1\nb:2\nc 3\nd\te\n", {"a": "1", "b": "2", "c": "3", "d": "e"}),
        (b"  a  =  1 \n", {"a": "1 "}),
        (b"a\nb=\n", {"a": "", "b": ""}),
        (b"a\\ b\\=c\\:d=x\n", {"a b=c:d": "x"}),
        (b"a=one, \\\n    two\n", {"a": "one, two"}),
        (b"a=one\\\\\nb=2\n", {"a": "one\\", "b": "2"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=\\t\\n\\r\\f\\q\\u00e9\n", {"a": "\t\n\r\fq\u00e9"}),
        (b"a=\\uD83D\\uDE00\n", {"a": "\U0001f600"}),
        (b"a=\xe9\n", {"a": "\u00e9"}),
        (b"a==b\n", {"a": "=b"}),
        (b"a=1\na=2\n", {"a": "2"}),
        (b"a=x\\", {"a": "x"}),
    ],
)
def test_properties_are_read_as_java_reads_them(content: bytes, properties: dict[str, str]) -> None:
    assert parse_properties(content) == properties


def test_properties_are_escaped_as_java_escapes_them() -> None:
    content = format_properties({"k e:y": " a b#!", "u": "\u00e9\U0001f600\t"})

    assert content == b"#\nk\\ e\\:y=\\ a b\\#\\!\nu=\\u00E9\\uD83D\\uDE00\\t\n"


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=12), max_size=4))
def test_properties_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties
