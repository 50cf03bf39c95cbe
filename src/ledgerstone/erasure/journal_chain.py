"""The chain over the journal of erasures: what was taken out, changed or put in is seen. Grade P.

Each record carries a link in a header: its number, the code of the record before it, how many keys
the journal has with it, the sum of the codes of the latest records of all other keys, and a code
over all that and itself. The code is an HMAC under the operator's salt, so nobody else can make
one. Compaction takes records whose key has a later one, which the sum does not count; whatever else
is missing makes it wrong. Contract: README.md, "Chain".
"""

import hmac
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

CHAIN_HEADER: Final = "ledgerstone.chain"
CODE_BYTES: Final = 32
FIRST: Final = bytes(CODE_BYTES)

_VERSION: Final = 1
_LINK: Final = struct.Struct(">BQI32s32s32s")
_MODULUS: Final = 1 << (8 * CODE_BYTES)
_UNLINKED: Final = b"before the chain"


class ChainLink(NamedTuple):
    sequence: int
    keys: int
    previous: bytes
    others: int
    code: bytes

    def encode(self) -> bytes:
        """Binary, so that no key is found in it by chance."""
        others = self.others.to_bytes(CODE_BYTES, "big")
        return _LINK.pack(_VERSION, self.sequence, self.keys, self.previous, others, self.code)


class JournalMark(NamedTuple):
    """How far the journal has gone, as it is remembered outside of it."""

    sequence: int
    code: bytes


class Taken(NamedTuple):
    """What became of a record that was read."""

    counts: bool
    problem: str | None = None


class Chain:
    """Invariant: `_sum` is that of the codes in `_latest`, one for each key."""

    __slots__ = ("_key", "_latest", "_sum", "last", "linked", "mark", "previous", "sequence")

    def __init__(self, key: bytes, mark: JournalMark | None = None) -> None:
        self._key = key
        self._latest: dict[bytes, int] = {}
        self._sum = 0
        self.mark = mark  # what was remembered before this walk
        self.sequence = 0
        self.previous = FIRST
        self.linked = 0  # records whose link was good
        self.last: tuple[bytes, ChainLink] | None = None

    # -- writing ------------------------------------------------------------------------------

    def links_for(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[ChainLink]:
        """The links of records that are about to be written; `take` each once it is."""
        latest: dict[bytes, int] = {}
        total, keys = self._sum, len(self._latest)
        sequence, previous = self.sequence, self.previous
        links = []
        for key, value in records:
            before = latest.get(key, self._latest.get(key))
            keys += before is None
            others = (total - (before or 0)) % _MODULUS
            sequence += 1
            draft = ChainLink(sequence, keys, previous, others, FIRST)
            link = draft._replace(code=self._code(draft, key, value))
            previous, latest[key] = link.code, int.from_bytes(link.code, "big")
            total = (others + latest[key]) % _MODULUS
            links.append(link)
        return links

    # -- reading ------------------------------------------------------------------------------

    def take(self, key: bytes, value: bytes | None, header: bytes | None) -> Taken:
        """Records in the order of the log; one that does not count is not the broker's."""
        if header is None:
            return self._take_unlinked(key, value)
        link = decode_link(header)
        if link is None:
            return Taken(False, f"its link has {len(header)} bytes and is none")
        if not hmac.compare_digest(link.code, self._code(link, key, value)):
            return Taken(False, "its link does not fit: it was changed, or somebody else wrote it")
        if link.sequence <= self.sequence:
            return Taken(False, f"it is number {link.sequence}, after number {self.sequence}")
        problem = None
        if link.sequence == self.sequence + 1 and link.previous != self.previous:
            problem = f"the record before it is not the one it was linked to, {self.sequence}"
        if self._is_marked_otherwise(link):
            problem = f"number {link.sequence} is not the record that was remembered"
        self._put(key, int.from_bytes(link.code, "big"))
        self.sequence, self.previous = link.sequence, link.code
        self.linked += 1
        self.last = (key, link)
        return Taken(True, problem)

    def _is_marked_otherwise(self, link: ChainLink) -> bool:
        mark = self.mark
        return mark is not None and mark.sequence == link.sequence and mark.code != link.code

    def _take_unlinked(self, key: bytes, value: bytes | None) -> Taken:
        if self.sequence:
            return Taken(False, "it has no link: somebody else wrote it")
        code = hmac.digest(self._key, _UNLINKED + _content(key, value), "sha256")
        self._put(key, int.from_bytes(code, "big"))
        return Taken(True)

    def problems_at_end(self, *, may_lack_mark: bool = False) -> list[str]:
        """What is missing, once all records were taken. `may_lack_mark`: others have led the
        journal, and remember it on their own disks."""
        found = []
        if self.last is not None:
            key, link = self.last
            others = (self._sum - self._latest[key]) % _MODULUS
            if link.keys != len(self._latest) or link.others != others:
                found.append(
                    f"its last record, number {link.sequence}, was written when it had "
                    f"{link.keys} keys; {len(self._latest)} are there, and not all are the same"
                )
        if self.mark is None and self.sequence > 1 and not may_lack_mark:
            found.append(
                f"how far it had gone was not remembered; it ends with number {self.sequence}, and "
                "nobody can tell whether it had more"
            )
        if self.mark is not None and self.sequence < self.mark.sequence:
            found.append(
                f"it has shrunk: it ends with number {self.sequence}, and had gone to number "
                f"{self.mark.sequence}"
            )
        return found

    def go_on_after(self, mark: JournalMark | None) -> None:
        """No number is given twice, also where records are gone."""
        if mark is not None and mark.sequence > self.sequence:
            self.sequence, self.previous = mark

    def _put(self, key: bytes, code: int) -> None:
        self._sum = (self._sum - self._latest.get(key, 0) + code) % _MODULUS
        self._latest[key] = code

    def _code(self, link: ChainLink, key: bytes, value: bytes | None) -> bytes:
        unsigned = link._replace(code=FIRST).encode()
        return hmac.digest(self._key, unsigned + _content(key, value), "sha256")


def decode_link(header: bytes) -> ChainLink | None:
    if len(header) != _LINK.size:
        return None
    version, sequence, keys, previous, others, code = _LINK.unpack(header)
    if version != _VERSION:
        return None
    return ChainLink(sequence, keys, previous, int.from_bytes(others, "big"), code)


def header_in(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    return next((value for name, value in headers if name == CHAIN_HEADER), None)


def _content(key: bytes, value: bytes | None) -> bytes:
    """No two pairs give the same bytes."""
    length = -1 if value is None else len(value)
    return struct.pack(">Iq", len(key), length) + key + (value or b"")
