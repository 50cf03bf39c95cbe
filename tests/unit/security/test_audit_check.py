"""Chains of audit lines as they are verified: seals, lines that come again, late or never."""

import json
import random
from typing import Any

import pytest

from ledgerstone.security.audit_chain import AuditEvent, BrokenChain, ChainEnd, redacted, sealed
from ledgerstone.security.audit_check import RETIRED, ChainCheck
from ledgerstone.security.audit_seal import SEAL, is_good_seal, public_key_of, seal_facts

SECRET = bytes(range(32))
KEY = public_key_of(SECRET)


def _chain(count: int, *, seals: tuple[int, ...] = (), secret: bytes = SECRET) -> list[bytes]:
    """Lines 1 to `count`; those in `seals` are seals."""
    lines, end = [], ChainEnd()
    for number in range(1, count + 1):
        event = AuditEvent("k", "done", {"principal": "User:a"}, {"number": number})
        if number in seals:
            event = AuditEvent(SEAL, "done", {}, seal_facts(secret, node=3, end=end))
        line, end = sealed(event, end, node=3, ts_ms=number, salt=bytes(16))
        lines.append(line.rstrip(b"\n"))
    return lines


def _in_order(lines: list[bytes], **given: Any) -> ChainCheck:
    check = ChainCheck(**given)
    for each in lines:
        check.take(each)
    check.finish()
    return check


def _in_any(lines: list[bytes], **given: Any) -> ChainCheck:
    check = ChainCheck(**given)
    for each in lines:
        check.take_any(each)
    check.finish()
    return check


def test_seals_say_how_far_the_log_is_sealed() -> None:
    check = _in_order(_chain(10, seals=(4, 8)), keys=[KEY])

    assert (check.sealed_to, check.unsealed, list(check.sealed_by)) == (7, 2, [KEY])


def test_log_without_seals_says_so() -> None:
    check = _in_order(_chain(3))

    assert (check.sealed_to, check.unsealed) == (0, 3)
    with pytest.raises(BrokenChain, match="not sealed"):
        _in_order(_chain(3), keys=[KEY])


def test_seal_of_another_key_is_found() -> None:
    forged = _chain(10, seals=(4,), secret=bytes(32))

    assert _in_order(forged).sealed_to == 3, "nobody said which key"
    with pytest.raises(BrokenChain, match="line 4: is sealed with another key"):
        _in_order(forged, keys=[KEY])


@pytest.mark.parametrize("field", ["sig", "key", "upto", "node"])
def test_seal_that_was_changed_is_none(field: str) -> None:
    line = json.loads(_chain(4, seals=(4,))[3])
    assert is_good_seal(line)

    for value in (0, "", "zz", "00" * 64, None):
        assert not is_good_seal({**line, field: value})


def test_seal_moved_to_another_chain_is_none() -> None:
    end = ChainEnd(3, "ab" * 32)
    facts = json.loads(_chain(4, seals=(4,))[3])
    stolen = {key: facts[key] for key in ("sig", "key", "upto")}

    line, _ = sealed(AuditEvent(SEAL, "done", {}, stolen), end, node=3, ts_ms=1, salt=bytes(16))

    assert not is_good_seal(json.loads(line))


@pytest.mark.parametrize("seed", range(20))
def test_lines_of_the_topic_may_come_twice_and_late(seed: int) -> None:
    lines = _chain(40, seals=(20, 40))
    dice = random.Random(seed)
    again = [redacted(each).rstrip(b"\n") for each in dice.sample(lines[1:], 5)]
    numbers = {json.loads(each)["seq"] for each in again}
    # Compaction may have taken those away by then, or not.
    left = [each for each in lines if json.loads(each)["seq"] not in numbers or dice.random() < 0.5]

    check = _in_any([*left, *dice.choices(left, k=7), *again], keys=[KEY])

    assert (check.first, check.end.seq, check.redacted) == (1, 40, 5)
    assert check.unsealed == 0


def test_line_that_lacks_in_the_topic_is_named() -> None:
    lines = _chain(9)

    with pytest.raises(BrokenChain, match="line 5: is missing"):
        _in_any(lines[:4] + lines[5:])


def test_two_lines_of_one_number_are_found() -> None:
    other, _ = sealed(
        AuditEvent("k", "done", {}, {"number": 77}), ChainEnd(3, "00" * 32), node=3, ts_ms=1,
        salt=bytes(16),
    )  # fmt: skip

    with pytest.raises(BrokenChain, match="line 4: is there twice, and differs"):
        _in_any([*_chain(9), other.rstrip(b"\n")])


def test_expected_end_is_found_or_not() -> None:
    lines = _chain(5)
    end = json.loads(lines[3])["h"]

    assert _in_order(lines, expected=[f"4:{end}"]).not_found == []
    assert _in_order(lines[:3], expected=[f"4:{end}"]).not_found == [f"4:{end}"]


def test_retired_beginning_is_told() -> None:
    lines = _chain(6)
    first = json.loads(lines[3])
    end = ChainEnd(6, json.loads(lines[5])["h"])
    told = AuditEvent(RETIRED, "done", {}, {"last": 3, "hash": first["prev"]})
    line, _ = sealed(told, end, node=3, ts_ms=9, salt=bytes(16))

    assert "no line says why" in str(_in_order(lines[3:]).beginning)
    assert "as the log says" in str(_in_order([*lines[3:], line.rstrip(b"\n")]).beginning)
    assert _in_order(lines).beginning is None


@pytest.mark.parametrize("seed", range(30))
def test_lines_that_are_none_are_refused_and_nothing_worse(seed: int) -> None:
    dice = random.Random(seed)
    line = bytearray(_chain(4, seals=(4,))[3])
    line[dice.randrange(len(line))] = dice.randrange(256)

    for take in (ChainCheck().take, ChainCheck().take_any):
        try:
            take(bytes(line))
        except BrokenChain:
            continue
        assert json.loads(line) == json.loads(_chain(4, seals=(4,))[3])
