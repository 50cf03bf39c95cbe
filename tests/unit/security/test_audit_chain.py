"""A line that was changed, cut out, swapped or put in is found; one that was redacted is not."""

import json

import pytest

from ledgerstone.security.audit_chain import (
    LONGEST_LINE,
    LONGEST_TEXT,
    AuditEvent,
    BrokenChain,
    ChainEnd,
    redacted,
    sealed,
    verified,
)


def _chain(count: int = 5) -> list[bytes]:
    link, lines = ChainEnd(), []
    for number in range(count):
        who = {"principal": f"User:{number}", "host": "10.0.0.1"}
        event = AuditEvent("topic.create", "asked", who, {"what": [f"topic-{number}"]})
        line, link = sealed(event, link, node=1, ts_ms=number, salt=bytes([number]) * 16)
        lines.append(line.rstrip(b"\n"))
    return lines


def _broken_at(lines: list[bytes], after: ChainEnd | None = None) -> int | None:
    try:
        for _ in verified(lines, after):
            pass
    except BrokenChain as broken:
        return broken.seq
    return None


def test_chain_as_it_was_written_is_whole() -> None:
    lines = _chain()

    ends = [link.seq for _, link in verified(lines, ChainEnd())]

    assert ends == [1, 2, 3, 4, 5]
    assert _broken_at(lines[2:]) is None, "old files may be gone"


@pytest.mark.parametrize("character", ["a", "\\", "\x00", "ä", "語", "😀"])
def test_no_event_makes_a_line_that_is_too_long_to_be_one(character: str) -> None:
    what = [f"{number}:{character * 1000}" for number in range(1000)]
    who = {f"said-{number}": character * 1000 for number in range(8)}
    event = AuditEvent("acl.create", "asked", {**who, "what": what}, {"path": character * 1000})

    line, _ = sealed(event, ChainEnd(), node=1, ts_ms=1, salt=bytes(16))

    ((read, _),) = verified([line.rstrip(b"\n")], ChainEnd())
    assert len(line) <= LONGEST_LINE
    assert read["who"]["what"][-1] == "950 more"
    assert read["who"]["what"][49].startswith(f"49:{character * 50}")
    assert read["who"]["said-0"].endswith("…")
    assert len(read["who"]["said-0"]) <= LONGEST_TEXT + 1


def test_lines_cut_swapped_or_repeated_are_found() -> None:
    lines = _chain()

    assert _broken_at(lines[:2] + lines[3:]) == 3
    assert _broken_at([lines[0], lines[2], lines[1], *lines[3:]]) == 2
    assert _broken_at([*lines[:2], lines[1], *lines[2:]]) == 3
    assert _broken_at([*lines[:3], b"garbage"]) == 4
    assert _broken_at([*lines[:3], b"{}"]) == 4
    assert _broken_at([*lines[:3], b"[" * 10_000]) == 4
    assert _broken_at(lines[1:], ChainEnd()) == 1


def test_every_field_is_bound_to_the_chain() -> None:
    lines = _chain()
    original = json.loads(lines[2])

    for key in original:
        changed = {**original, key: "other" if original[key] != "other" else "another"}
        spoilt = [*lines[:2], json.dumps(changed).encode(), *lines[3:]]
        assert _broken_at(spoilt) in (3, 4), key
    renamed = {**original, "who": {**original["who"], "principal": "User:somebody-else"}}
    assert _broken_at([*lines[:2], json.dumps(renamed).encode(), *lines[3:]]) == 3
    added = {**original, "extra": 1}
    assert _broken_at([*lines[:2], json.dumps(added).encode(), *lines[3:]]) == 3


def test_every_flipped_bit_is_found() -> None:
    lines = _chain(2)

    for position in range(len(lines[0])):
        spoilt = bytearray(lines[0])
        spoilt[position] ^= 1
        assert _broken_at([bytes(spoilt), lines[1]], ChainEnd()) is not None, position


def test_line_without_its_names_still_holds_the_chain() -> None:
    lines = _chain()

    without = redacted(lines[2] + b"\n").rstrip(b"\n")

    assert b"User:2" not in without
    assert _broken_at([*lines[:2], without, *lines[3:]]) is None


def test_names_cannot_be_guessed_from_what_is_left() -> None:
    """The salt goes with the names."""
    line = json.loads(redacted(_chain()[2] + b"\n"))

    assert "who" not in line
    assert (b"\x02" * 16).hex() not in json.dumps(line)


def test_long_texts_are_cut() -> None:
    event = AuditEvent("k", "o", {"principal": "p" * 9999}, {"what": ["x" * 9999] * 9999})

    line, _ = sealed(event, ChainEnd(), node=1, ts_ms=0, salt=bytes(16))

    assert len(line) < 20_000
    assert "9949 more" in line.decode()


@pytest.mark.parametrize("text", ["\n", '"}{', "\u2028", "ü", "\x00"])
def test_text_cannot_break_out_of_its_line(text: str) -> None:
    event = AuditEvent("k", "o", {"principal": text}, {"what": [text]})

    line, _ = sealed(event, ChainEnd(), node=1, ts_ms=0, salt=bytes(16))

    assert line.count(b"\n") == 1
    (found,) = (each for each, _ in verified([line.rstrip(b"\n")], ChainEnd()))
    assert found["who"]["principal"] == text
