"""Values about the outputs of a topic: which are known, and how each stands. Grade P.

An output is a verifier that was named or is installed, or a group that has committed offsets where
a tombstone lies. Decisions are in `readings` and `standing`. Contract: README.md, "Known outputs".
"""

import enum
from typing import Final, NamedTuple

VERIFIER: Final = "verifier"
GROUP: Final = "group"


class Reading(enum.Enum):
    """How a group stands to one tombstone."""

    UNREAD = "unread"  # the tombstone is there, and the group has not committed past it
    READ = "read"  # it committed past the tombstone before it was removed
    MISSED = "missed"  # the tombstone was removed before that
    GONE = "gone"  # its committed offsets were deleted before that
    LATE = "late"  # first seen after the tombstone was removed


class GroupReading(NamedTuple):
    group: str  # as `shown_name` has it
    partition: int
    offset: int  # of the tombstone
    reading: Reading
    committed_offset: int | None
    can_answer: bool = False  # a pipeline: it has a command that gives evidence


class Status(enum.Enum):
    VERIFIED = "verified"  # it gave evidence, and the key is not in it
    READ = "read"  # a group that committed past every tombstone; nothing else is known of it
    NOT_VERIFIED = "not_verified"


class UnverifiedReason(enum.Enum):
    """Why an output stands as not verified. Closed, so that a scan knows the words as ours."""

    NONE = ""
    NEVER_ANSWERED = "never_answered"
    REFUSED = "refused"
    COULD_NOT_TELL = "could_not_tell"
    RESIDUE = "residue"
    MISSED_TOMBSTONE = "missed_tombstone"
    OFFSETS_DELETED = "offsets_deleted"
    FIRST_SEEN_LATER = "first_seen_later"
    NOT_READ = "not_read"


class KnownOutput(NamedTuple):
    """The numbers are those of the tombstone that matters, for groups alone."""

    kind: str
    name: str
    status: Status
    reason: UnverifiedReason = UnverifiedReason.NONE
    detail: str = ""  # what a verifier that refused has said
    partition: int | None = None
    tombstone_offset: int | None = None
    committed_offset: int | None = None


class Supplement(NamedTuple):
    """Evidence that came after the receipt, as it was signed."""

    number: int  # from 1
    verifier: str
    group: str  # "" where none was named
    verdict: str  # of all its words: the worst
    issued_ms: int
    document: str
