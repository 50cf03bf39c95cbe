"""Strangers' words in the log: one record is one line, whatever it carries."""

import json
import logging
import sys

import pytest

from ledgerstone.cli.log_format import formatter

FORGED = "g\n2026-01-01 00:00:00,000 ERROR ledgerstone.server.broker the disk is gone"
HOSTILE = [FORGED, "a\rb", "\x1b[2Jc", "d\u2028e", "f\x85g", "h\u202ei", "\x00\x7f"]


def record(text: str, error: BaseException | None = None) -> logging.LogRecord:
    trace = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("x", logging.INFO, __file__, 1, "group=%s", (text,), trace)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", ["text", "json"])
def test_one_record_is_one_line_that_moves_no_cursor(kind: str, text: str) -> None:
    line = formatter(kind).format(record(text))
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_what_was_said_can_still_be_told() -> None:
    assert r"group=g\n2026-01-01" in formatter("text").format(record(FORGED))
    assert "group=café ✓" in formatter("text").format(record("café ✓"))
    assert json.loads(formatter("json").format(record(FORGED)))["message"] == f"group={FORGED}"


def test_an_exception_cannot_forge_a_line_either() -> None:
    try:
        raise ValueError(f"{FORGED}\r\x1b[2J")
    except ValueError:
        error = sys.exception()
    lines = formatter("text").format(record("a", error)).split("\n")
    assert len(lines) > 3
    assert all(line.startswith("    ") for line in lines[1:])
    assert all(line.isprintable() for line in lines)
