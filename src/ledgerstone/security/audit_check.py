"""One node's chain of audit lines, looked at line by line. Pure.

Lines of files come in order. Lines of the topic may come twice, and a redacted copy comes later
than its neighbours, as the line itself is compacted away: there only what lies between is kept.
"""

from array import array
from collections.abc import Collection
from typing import Any, Final

from ledgerstone.security.audit_chain import BrokenChain, ChainEnd, checked, link_of
from ledgerstone.security.audit_seal import SEAL, is_good_seal

RETIRED: Final = "audit.retire"
# Lines that may wait for one that lies further behind.
_MOST_WAITING: Final = 100_000


class ChainCheck:
    """`keys` are public keys that seals must be made with; none: any key will do, and is named.
    `expected` are ends of the chain that were kept elsewhere."""

    def __init__(self, *, keys: Collection[str] = (), expected: Collection[str] = ()) -> None:
        self._keys = keys
        self._missing = dict.fromkeys(expected)
        self._starts_after = ChainEnd()
        self._waiting: dict[int, dict[str, Any]] = {}
        # Of each line so far, the first digits of its hash: 8 bytes a line.
        self._hashes = array("Q")
        self._redacted: dict[int, None] = {}
        self._is_retirement_told = False
        self.first = 0
        self.end = ChainEnd()
        self.sealed_to = 0
        self.sealed_by: dict[str, None] = {}

    # -- lines --------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """The next line of the files. BrokenChain at the first that is wrong."""
        line, _ = checked(data, self.end if self.first else None)
        self._follow(line)

    def take_any(self, data: bytes) -> bool:
        """A line of the topic. False for one that was seen already."""
        line, link = checked(data, None)
        seq = link.seq
        if self.first and seq <= self.end.seq:
            self._see_again(line, seq)
            return False
        waiting = self._waiting.get(seq)
        if waiting is not None:
            if waiting["h"] != line["h"]:
                raise BrokenChain(seq, "is there twice, and differs")
            if "who" not in line:
                self._waiting[seq] = line
            return False
        self._waiting[seq] = line
        if not self.first:
            self._follow(self._waiting.pop(seq))
        while (line_next := self._waiting.pop(self.end.seq + 1, None)) is not None:
            self._follow(line_next)
        if len(self._waiting) > _MOST_WAITING:
            raise BrokenChain(self.end.seq + 1, "is missing")
        return True

    def _see_again(self, line: dict[str, Any], seq: int) -> None:
        if seq < self.first:
            # A redacted copy of a line whose neighbours are retired.
            return
        if self._hashes[seq - self.first] != _digits(line["h"]):
            raise BrokenChain(seq, "is there twice, and differs")
        if "who" not in line:
            self._redacted[seq] = None

    def _follow(self, line: dict[str, Any]) -> None:
        seq = line["seq"]
        if not self.first:
            self.first = seq
            self._starts_after = ChainEnd(seq - 1, str(line["prev"]))
        elif line["prev"] != self.end.hash:
            raise BrokenChain(seq, "does not follow the line before")
        self.end = link_of(line)
        self._hashes.append(_digits(line["h"]))
        self._missing.pop(str(self.end), None)
        if "who" not in line:
            self._redacted[seq] = None
        if line["kind"] == SEAL:
            self._check_seal(line)
        elif line["kind"] == RETIRED:
            told = (line.get("last"), line.get("hash"))
            self._is_retirement_told |= told == tuple(self._starts_after)

    def _check_seal(self, line: dict[str, Any]) -> None:
        seq = line["seq"]
        if not is_good_seal(line):
            raise BrokenChain(seq, "is a seal whose signature is wrong")
        if self._keys and line["key"] not in self._keys:
            raise BrokenChain(seq, f"is sealed with another key, {line['key']}")
        self.sealed_to = seq - 1
        self.sealed_by[line["key"]] = None

    # -- what came of it ----------------------------------------------------------------------

    def finish(self) -> None:
        """BrokenChain where a line lacks."""
        if self._waiting:
            raise BrokenChain(self.end.seq + 1, "is missing")
        if self._keys and self.first and not self.sealed_to:
            raise BrokenChain(self.first, "and all others are not sealed")

    @property
    def not_found(self) -> list[str]:
        """Which expected ends are not in it."""
        return list(self._missing)

    @property
    def redacted(self) -> int:
        return len(self._redacted)

    @property
    def unsealed(self) -> int:
        """Lines behind the last seal; a seal has no seal of its own."""
        return self.end.seq - self.sealed_to - 1 if self.sealed_to else len(self._hashes)

    @property
    def beginning(self) -> str | None:
        """What is to be said of lines before the first; None where there are none."""
        if self.first <= 1:
            return None
        if self._is_retirement_told:
            return f"lines up to {self.first - 1} were retired, as the log says"
        return f"lines up to {self.first - 1} are not here, and no line says why"


def _digits(text: object) -> int:
    try:
        return int(str(text)[:16], 16)
    except ValueError:
        return 0
