"""Compares a tree with the truth: count, checksum, and the first difference. Pure."""

import hashlib
from typing import Final, NamedTuple

from ledgerstone.demo.errors import DemoFailed

_SHOWN_DIGITS: Final = 16
_SHOWN_BYTES: Final = 200


class Check(NamedTuple):
    """A comparison with the truth that succeeded."""

    what: str
    commit_id: str
    files: int
    sha256: str

    @property
    def digits(self) -> str:
        return self.sha256[:_SHOWN_DIGITS]


def check_equal(what: str, commit_id: str, *, found: bytes, truth: bytes) -> Check:
    """Both as `git ls-tree -r -l -z` prints; the checksum is of those bytes."""
    if found != truth:
        raise DemoFailed(
            f"{what} is not the tree of commit {commit_id}: {_difference(found, truth)}"
        )
    return Check(what, commit_id, truth.count(b"\0"), hashlib.sha256(truth).hexdigest())


def _difference(found: bytes, truth: bytes) -> str:
    ours, theirs = found.split(b"\0")[:-1], truth.split(b"\0")[:-1]
    counts = f"{len(ours)} files, but the truth has {len(theirs)}"
    for name, some, others in (("too much", ours, theirs), ("missing", theirs, ours)):
        known = dict.fromkeys(others)
        first = next((line for line in some if line not in known), None)
        if first is not None:
            return f"{counts}; {name}, first: {first[:_SHOWN_BYTES]!r}"
    return f"{counts}; the same lines in another order"
