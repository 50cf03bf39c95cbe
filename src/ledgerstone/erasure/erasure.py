"""One erasure as a value: what was asked for, how far it is, and what proves it. Grade P.

An `Erasure` never changes; `changes` makes the next one and the journal keeps the latest. Stages
and the transitions between them are the table below. Contract: README.md, "Life cycle".
"""

import enum
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.key_print import KeyPrint
from ledgerstone.erasure.outputs import GroupReading, KnownOutput, Supplement
from ledgerstone.types import NO_LEADER_EPOCH

# Crockford's base32: no letter looks like a digit, none is left to spell words with.
_ID_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID_RANDOM_BYTES: Final = 10
_ID: Final = re.compile(rf"ER-[{_ID_LETTERS}]{{16}}")


class Stage(enum.Enum):
    SCHEDULED = "scheduled"
    REQUESTED = "requested"
    SEARCHED = "searched"  # which partitions get a tombstone is decided; some may have one
    TOMBSTONED = "tombstoned"
    STAMPED = "stamped"  # the first pass is done everywhere: older values are gone
    REMOVED = "removed"  # the second pass is done everywhere: the tombstones are gone
    UNLINKED = "unlinked"  # so are the files that held what the passes dropped
    VERIFIED = "verified"  # every replica was scanned, and the key is on none
    RECEIPTED = "receipted"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # given up after a tombstone may have been written: nothing is proven
    NOT_FOUND = "not_found"


TRANSITIONS: Final[Mapping[Stage, tuple[Stage, ...]]] = {
    Stage.SCHEDULED: (Stage.REQUESTED, Stage.CANCELLED),
    Stage.REQUESTED: (Stage.SEARCHED, Stage.NOT_FOUND, Stage.CANCELLED),
    # No way back from here: a tombstone may be in a log although no record says so yet. What is
    # given up now leaves it there, and is never called cancelled.
    Stage.SEARCHED: (Stage.TOMBSTONED, Stage.ABANDONED),
    Stage.TOMBSTONED: (Stage.STAMPED, Stage.ABANDONED),
    Stage.STAMPED: (Stage.REMOVED, Stage.ABANDONED),
    Stage.REMOVED: (Stage.UNLINKED, Stage.ABANDONED),
    Stage.UNLINKED: (Stage.VERIFIED, Stage.ABANDONED),
    # Back where the scan was one of an older broker, that did not count all there is to sign, and
    # where a broker that was given up comes back.
    Stage.VERIFIED: (Stage.RECEIPTED, Stage.ABANDONED, Stage.UNLINKED),
    Stage.RECEIPTED: (),
    Stage.CANCELLED: (),
    Stage.ABANDONED: (),
    Stage.NOT_FOUND: (),
}
# In these the key is still needed in clear, so it is there, sealed.
NEEDS_KEY: Final = (Stage.SCHEDULED, Stage.REQUESTED, Stage.SEARCHED)


class Tombstone(NamedTuple):
    partition: int
    offset: int
    written_ms: int
    # Of the leader that wrote it. None here, and below: from before epochs were noted.
    leader_epoch: int = NO_LEADER_EPOCH


class AskedAbort(NamedTuple):
    """An open transaction that the erasure ended. Its transactional id may hold the key, so it is
    known by its producer."""

    partition: int
    first_offset: int
    producer_id: int
    asked_ms: int


class PartitionEnd(NamedTuple):
    """How far a search looked; what lies from there on was written later."""

    partition: int
    end_offset: int
    leader_epoch: int = NO_LEADER_EPOCH  # of the leader that was searched


class RecordSpan(NamedTuple):
    """Records of the key in one partition, by the offsets of the first and the last of them."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    tombstones: int = 0  # how many of the records are tombstones
    leader_epoch: int = NO_LEADER_EPOCH  # the lowest of those under which they were written

    def __str__(self) -> str:
        return (
            f"{self.records} in {self.topic}-{self.partition}, offsets {self.first_offset} to "
            f"{self.last_offset}"
        )


class FileHits(NamedTuple):
    file: str
    hits: int


class FileTrouble(NamedTuple):
    """A file that a scan could not read, or not as records."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: {self.why}"


class NameHits(NamedTuple):
    """Hits in what users name, by kind of name."""

    what: str
    hits: int


class KindCount(NamedTuple):
    """Files of one kind."""

    kind: str
    files: int
    scanned_bytes: int


class PartitionScan(NamedTuple):
    """The files of one partition of the erasure's topic, as they were scanned."""

    partition: int
    files: int
    scanned_bytes: int
    digest: str


class RecordCounts(NamedTuple):
    """Records of the key that a scan found, as often as files hold them."""

    older: int = 0  # of the life that is erased
    recreated: int = 0
    elsewhere: int = 0


class HostDisk(NamedTuple):
    """A log directory of a broker, by the id that lies on the disk itself."""

    broker_id: int
    directory_id: str


class HostedAt(NamedTuple):
    """One partition of the topic as a broker hosted it when its scan began."""

    partition: int
    partition_epoch: int
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int


class ScanProof(NamedTuple):
    """Which life of a broker made a scan, on which disks, and what of the topic it hosted then."""

    incarnation_id: str
    broker_epoch: int
    directory_ids: tuple[str, ...]
    hosted: tuple[HostedAt, ...] = ()  # the first of them
    hosted_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaScan:
    """What a scan of every file of one node says about this key."""

    node_id: int
    started_ms: int
    ended_ms: int
    files: int
    scanned_bytes: int
    digest: str
    trouble: str | None = None  # why the scan did not see everything, where no one file is to blame
    troubles: tuple[FileTrouble, ...] = ()  # files that were not seen as they should be
    records: tuple[RecordSpan, ...] = ()
    # Some of them are in a log that is hosted under the topic's name, but of another topic.
    has_namesake: bool = False
    # Partitions with some of them where a newer leader's records are in the place of the tombstone:
    # it was lost, and so is what its offset says.
    without_tombstone: tuple[int, ...] = ()
    # Topics whose names hold the key, and how to show them.
    hidden_topics: tuple[tuple[str, str], ...] = ()
    counts: RecordCounts | None = None  # of `records`, once they are told apart
    mentions: int = 0  # inside records of other keys
    names: tuple[NameHits, ...] = ()  # in names of topics, groups and such
    residue: int = 0  # anywhere else
    residue_places: tuple[str, ...] = ()  # the first few: file and position
    residue_files: tuple[FileHits, ...] = ()
    kinds: tuple[KindCount, ...] = ()
    partitions: tuple[PartitionScan, ...] = ()  # the first of the topic's
    partition_count: int = 0  # all of them
    proof: ScanProof | None = None  # None: from before brokers said who they are


class ScanOutcome(enum.Enum):
    CLEAN = "clean"
    RESIDUE = "residue"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A downstream verifier's word about one of its outputs."""

    verifier: str
    output: str
    outcome: ScanOutcome
    evidence: str
    given_ms: int
    group: str = ""  # the group whose output it is; "" where none was named


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An operator's word that what a scan found in one file may stay there."""

    file: str  # as the scan names it
    hits: int  # as many as had been found; more of them are not accepted
    trouble: str  # why the file could not be searched as it should; "" where it was
    reason: str
    by: str
    at_ms: int
    node_id: int | None = None  # None: of a time when there was one node


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBroker:
    """An operator's word that disks of a broker will never be scanned: destroyed, or not ours."""

    broker_id: int
    reason: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedFiles:
    """What a search has looked at, and how many records of the key it found there."""

    records: int
    files: int
    scanned_bytes: int
    started_ms: int
    ended_ms: int
    node_ids: tuple[int, ...] = ()  # brokers whose replicas were searched


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Invariant: `sealed_key` is there in the stages of NEEDS_KEY and in no other."""

    id: str
    topic: str
    topic_id: bytes
    key_print: KeyPrint
    sealed_key: bytes | None = field(repr=False)
    reason: str
    requested_by: str
    requested_ms: int
    due_ms: int  # not before; the moment of the request where nothing was scheduled
    deadline_ms: int | None
    awaited_verifiers: tuple[str, ...] = ()  # no receipt before these have spoken
    # How long after `verified` outputs hold the receipt; None: verifiers for ever, groups a day.
    outputs_wait_ms: int | None = None
    abort_open: bool = False  # open transactions that hold it up are aborted
    stage: Stage
    stage_times: tuple[tuple[Stage, int], ...]
    searched_ends: tuple[PartitionEnd, ...] = ()
    target_partitions: tuple[int, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    asked_aborts: tuple[AskedAbort, ...] = ()
    scans: tuple[ReplicaScan, ...] = ()
    recreated: tuple[RecordSpan, ...] = ()  # a later life of the key; not covered
    elsewhere: tuple[RecordSpan, ...] = ()  # records with the same key in other topics
    evidence: tuple[Evidence, ...] = ()
    exceptions: tuple[Acceptance, ...] = ()
    # Every disk that was part of the cluster since the search: each is scanned, or named.
    hosts: tuple[HostDisk, ...] = ()
    lost_brokers: tuple[LostBroker, ...] = ()
    searched: SearchedFiles | None = None  # kept of a search that found nothing
    on_virtual_clock: bool = False  # some of its times are those of a clock that was moved
    readings: tuple[GroupReading, ...] = ()  # which groups have read its tombstones
    unlisted_groups: int = 0  # groups that there was no room for
    note: str = ""  # why it ended without a receipt
    receipt: str | None = None
    outputs: tuple[KnownOutput, ...] = ()  # as the receipt names them
    supplements: tuple[Supplement, ...] = ()  # evidence that came after the receipt

    @property
    def is_over(self) -> bool:
        return not TRANSITIONS[self.stage]

    def reached_ms(self, stage: Stage) -> int | None:
        """The last time, where it was scanned again: what the scans before said was not enough."""
        return next((at_ms for each, at_ms in reversed(self.stage_times) if each is stage), None)

    @property
    def stage_ms(self) -> int:
        return self.stage_times[-1][1]

    @property
    def met_deadline(self) -> bool | None:
        """None without a deadline. What counts is when the key was shown to be gone."""
        verified_ms = self.reached_ms(Stage.VERIFIED)
        if self.deadline_ms is None or verified_ms is None:
            return None
        return verified_ms <= self.deadline_ms


def new_id(dice: Dice) -> str:
    number = int.from_bytes(dice.random_bytes(_ID_RANDOM_BYTES), "big")
    letters = (_ID_LETTERS[number >> shift & 31] for shift in range(75, -1, -5))
    return "ER-" + "".join(letters)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None
