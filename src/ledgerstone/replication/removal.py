"""Which tombstones and emptied markers may go while several replicas hold a log. Pure.

A replica that is away may hold a value whose tombstone the others have removed. When it comes back,
it continues from its own end, never meets the delete, and the key is back. Apache Kafka has this
hole; the rules here close it. They are numbered, with their reasons, in ADR 0012.

Offsets are exclusive bounds. A log is *clean to* x if none of its records is superseded below x.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.types import INT64_MAX, NO_LEADER_EPOCH

# What a log without records covers: there is nothing in it that could be superseded.
EVERYTHING: Final = INT64_MAX


class LeaderWord(NamedTuple):
    """What a leader tells a follower about one partition with every answer."""

    removable_to: int
    removed_to: int
    clean_to: int
    # The first tombstone that a consumer group has not read; None: no group holds any.
    held_from_offset: int | None = None


class Report(NamedTuple):
    """What a follower last told its leader."""

    clean_to: int
    removed_to: int
    at_ms: int  # monotonic


class Holder(NamedTuple):
    """A replica that others wait for."""

    replica_id: int
    clean_to: int | None  # None: it has told nothing to this leader
    silent_ms: int  # since its last word, or since it could have had one

    def __str__(self) -> str:
        if self.clean_to is None:
            return f"replica {self.replica_id} has not reported"
        return f"replica {self.replica_id} is clean to offset {self.clean_to}"


@dataclass(slots=True, kw_only=True)
class LeaderRemoval:
    """What a leader knows of its followers, in one leader epoch. A new epoch starts a new one: a
    replica may have truncated since it reported to somebody else."""

    leader_id: int
    began_ms: int  # monotonic
    _assigned_ms: dict[int, int] = field(default_factory=dict)
    _reports: dict[int, Report] = field(default_factory=dict)

    def assume(self, replicas: Iterable[int], *, now_ms: int) -> None:
        """Replicas that are assigned no more hold nothing back; new ones do at once."""
        others = [each for each in replicas if each != self.leader_id]
        self._assigned_ms = {each: self._assigned_ms.get(each, now_ms) for each in others}
        self._reports = {each: one for each, one in self._reports.items() if each in others}

    def reported(self, replica_id: int, *, clean_to: int, removed_to: int, now_ms: int) -> None:
        """With a fetch that was answered with records, or could have been: not with an error, nor
        with a diverging epoch, after which the follower truncates."""
        if replica_id in self._assigned_ms:
            self._reports[replica_id] = Report(clean_to, removed_to, now_ms)

    def report_of(self, replica_id: int) -> Report | None:
        return self._reports.get(replica_id)

    def removable_to(self, own_clean_to: int, *, hold_max_ms: int, now_ms: int) -> int:
        """Tombstones and emptied markers below may go, on every replica."""
        counted = (each for each in self._holders(now_ms) if each.silent_ms < hold_max_ms)
        return min([own_clean_to, *(each.clean_to or 0 for each in counted)])

    def slowest(self, own_clean_to: int, *, hold_max_ms: int, now_ms: int) -> Holder | None:
        """The follower that the others wait for; None if the leader itself is the slowest."""
        behind = [
            each
            for each in self._holders(now_ms)
            if each.silent_ms < hold_max_ms and (each.clean_to or 0) < own_clean_to
        ]
        return min(behind, key=lambda each: (each.clean_to or 0, each.replica_id), default=None)

    def given_up(self, own_clean_to: int, *, hold_max_ms: int, now_ms: int) -> list[Holder]:
        """Silent for so long that nothing waits for them; they rebuild when they come back."""
        return [
            each
            for each in self._holders(now_ms)
            if each.silent_ms >= hold_max_ms and (each.clean_to or 0) < own_clean_to
        ]

    def _holders(self, now_ms: int) -> Iterator[Holder]:
        for replica_id, assigned_ms in self._assigned_ms.items():
            report = self._reports.get(replica_id)
            if report is None:
                heard_ms = max(assigned_ms, self.began_ms)
                yield Holder(replica_id, None, now_ms - heard_ms)
            else:
                yield Holder(replica_id, report.clean_to, now_ms - report.at_ms)


@dataclass(slots=True, kw_only=True)
class ReplicaRemoval:
    """One replica's own side, whichever role it has.

    `removed_to` must be durable before what raises it is done: the methods named `before_...`
    return it for that."""

    # Every tombstone and marker missing from the log, here or at its source, lay below.
    removed_to: int = 0
    # No record of the log is superseded below, as far as the leader of this epoch has told. It runs
    # ahead of `clean_to` while a log is copied, and counts in one epoch only: the next leader may
    # have been elected uncleanly, and may have other records there.
    _covered_to: int = 0
    _leader_epoch: int = NO_LEADER_EPOCH
    _word: LeaderWord | None = None
    # Since when the leader has been answering without a word, as an Apache Kafka leader does.
    _wordless_since_ms: int | None = None

    @property
    def word(self) -> LeaderWord | None:
        """What the leader of this epoch has told."""
        return self._word

    # -- following ----------------------------------------------------------------------------

    def follow(self, leader_epoch: int, *, is_empty: bool) -> None:
        """What earlier leaders told counts no longer."""
        if leader_epoch != self._leader_epoch:
            self._leader_epoch, self._word, self._wordless_since_ms = leader_epoch, None, None
            self._covered_to = EVERYTHING if is_empty else 0

    def claim(self, clean_to: int) -> int:
        """The `clean_to` to report. A log that is being copied from a clean source holds nothing
        back that the source has been through."""
        return clean_to if self._covered_to == EVERYTHING else max(clean_to, self._covered_to)

    def must_rebuild(self, word: LeaderWord, *, end_offset: int) -> bool:
        """Whether the source may lack a tombstone that deletes something here."""
        return word.removed_to > max(end_offset, self._covered_to)

    def heard(self, word: LeaderWord | None, *, now_ms: int) -> None:
        """The leader has answered a fetch; None: without a word."""
        self._word = word
        if word is not None:
            self._wordless_since_ms = None
        elif self._wordless_since_ms is None:
            self._wordless_since_ms = now_ms

    def before_append(self, word: LeaderWord | None, *, end_offset: int) -> int:
        """Before records from this source are appended at `end_offset`."""
        self._covered_to = min(self._covered_to, 0 if word is None else word.clean_to)
        if word is not None and end_offset < word.removed_to:
            # What the source lacks, this log will lack.
            self.removed_to = max(self.removed_to, word.removed_to)
        return self.removed_to

    def wiped(self) -> int:
        """After the last record is gone. Crash before it is written: wiped once more."""
        self.removed_to, self._covered_to = 0, EVERYTHING
        return self.removed_to

    # -- removing -----------------------------------------------------------------------------

    def limit_as_follower(self, clean_to: int, *, hold_max_ms: int, now_ms: int) -> int:
        """Tombstones and emptied markers from here on stay, whatever their horizon says."""
        if self._word is not None:
            return min(clean_to, self._word.removable_to)
        since_ms = self._wordless_since_ms
        # Behind an Apache Kafka leader nothing is coordinated. A leader that does not answer at all
        # is waited for: this replica serves no readers meanwhile.
        is_uncoordinated = since_ms is not None and now_ms - since_ms >= hold_max_ms
        return clean_to if is_uncoordinated else 0

    def before_removal(self, removed_to: int) -> int:
        """Before files are swapped in that lack tombstones or markers below `removed_to`."""
        self.removed_to = max(self.removed_to, removed_to)
        return self.removed_to
