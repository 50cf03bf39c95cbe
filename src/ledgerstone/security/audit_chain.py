"""Lines of the audit log, each bound to the one before by a hash. Pure. Format in README.md.

What names a person stands beside its line, and only a salted hash of it is part of the chain: it
can be taken out later without breaking what follows.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

FORMAT: Final = 1
NO_HASH: Final = "0" * 64
SALT_BYTES: Final = 16
# People's texts are cut to this.
LONGEST_TEXT: Final = 300
# And to this as they stand in a line, where a character that is no ASCII takes six bytes or twelve.
_LONGEST_WRITTEN: Final = 900
_MOST_TEXTS: Final = 50
# No line of ours is longer; one that is was not written by us.
LONGEST_LINE: Final = 64 << 10

_BESIDE: Final = ("h", "who")


class ChainEnd(NamedTuple):
    """Where a chain ends."""

    seq: int = 0
    hash: str = NO_HASH

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


class AuditEvent(NamedTuple):
    """`who` has what names a person; `facts` everything else."""

    kind: str
    outcome: str
    who: Mapping[str, Any]
    facts: Mapping[str, Any]


class BrokenChain(Exception):
    """The first line that is not what was written."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(f"line {seq}: {reason}")
        self.seq = seq


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode()


def _commitment(salt: str, fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + _canonical(fields)).hexdigest()


def _hash_of(line: Mapping[str, Any]) -> str:
    bound = {key: value for key, value in line.items() if key not in _BESIDE}
    return hashlib.sha256(str(line["prev"]).encode() + _canonical(bound)).hexdigest()


def sealed(
    event: AuditEvent, after: ChainEnd, *, node: int, ts_ms: int, salt: bytes
) -> tuple[bytes, ChainEnd]:
    """The line of an event, with its end of line, and the new end of the chain."""
    fields = {key: _cut(text) for key, text in event.who.items()}
    line: dict[str, Any] = {
        "v": FORMAT,
        "seq": after.seq + 1,
        "ts_ms": ts_ms,
        "node": node,
        "kind": event.kind,
        "outcome": event.outcome,
        **{key: _cut(value) for key, value in event.facts.items()},
        "by": _commitment(salt.hex(), fields),
        "prev": after.hash,
    }
    line["h"] = _hash_of(line)
    line["who"] = {"salt": salt.hex(), **fields}
    return _canonical(line) + b"\n", ChainEnd(after.seq + 1, line["h"])


def _cut(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, str):
        kept = value[:LONGEST_TEXT]
        while (size := len(_canonical(kept)) - 2) > _LONGEST_WRITTEN:
            # At least one character goes, and as many as would do if all were alike.
            kept = kept[: min(len(kept) - 1, len(kept) * _LONGEST_WRITTEN // size)]
        return value if len(kept) == len(value) else f"{kept}…"
    if isinstance(value, list):
        rest = len(value) - _MOST_TEXTS
        some = [_cut(each) for each in value[:_MOST_TEXTS]]
        return some + ([f"{rest} more"] if rest > 0 else [])
    return value


def parsed(data: bytes, seq: int) -> dict[str, Any]:
    """One line without its end. BrokenChain unless it is one, whatever it says."""
    if len(data) > LONGEST_LINE:
        raise BrokenChain(seq, f"{len(data)} bytes are too long for a line")
    try:
        line = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenChain(seq, "is not JSON") from error
    needed = ("v", "seq", "ts_ms", "node", "kind", "by", "prev", "h")
    if not isinstance(line, dict) or any(key not in line for key in needed):
        raise BrokenChain(seq, "lacks a field")
    if line["v"] != FORMAT:
        raise BrokenChain(seq, f"has format {line['v']!r}")
    if any(type(line[key]) is not int for key in ("seq", "ts_ms", "node")):
        raise BrokenChain(seq, "has a number that is none")
    return line


def checked(data: bytes, after: ChainEnd | None) -> tuple[dict[str, Any], ChainEnd]:
    """The line and the new end of the chain; `after` is None where the beginning is not known."""
    expected = after.seq + 1 if after is not None else 0
    line = parsed(data, expected)
    if after is not None and line["seq"] != expected:
        raise BrokenChain(expected, f"is number {line['seq']!r}")
    seq = line["seq"]
    if after is not None and line["prev"] != after.hash:
        raise BrokenChain(seq, "does not follow the line before")
    if line["h"] != _hash_of(line):
        raise BrokenChain(seq, "was changed")
    who = line.get("who")
    if who is not None and not _is_true(who, line["by"]):
        raise BrokenChain(seq, "names somebody else")
    return line, ChainEnd(seq, str(line["h"]))


def _is_true(who: object, commitment: object) -> bool:
    if not isinstance(who, dict) or not isinstance(who.get("salt"), str):
        return False
    fields = {key: value for key, value in who.items() if key != "salt"}
    try:
        return _commitment(who["salt"], fields) == commitment
    except ValueError:
        return False


def link_of(line: Mapping[str, Any]) -> ChainEnd:
    """The end of the chain behind a line."""
    return ChainEnd(int(line["seq"]), str(line["h"]))


def verified(
    lines: Iterable[bytes], after: ChainEnd | None = None
) -> Iterator[tuple[dict[str, Any], ChainEnd]]:
    """Each line with the end of the chain behind it. BrokenChain at the first that is wrong."""
    for data in lines:
        line, after = checked(data, after)
        yield line, after


def redacted(data: bytes) -> bytes:
    """A line without what names a person. The chain holds all the same."""
    line = parsed(data.rstrip(b"\n"), 0)
    line.pop("who", None)
    return _canonical(line) + b"\n"
