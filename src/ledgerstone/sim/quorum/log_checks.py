"""Logs match, and what is committed stays. Part of sim."""

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

from ledgerstone.protocol.messages.control_records import VotersRecord
from ledgerstone.raft.control_batches import control_records, voters_of
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.quorum.host import Host, Proposal
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.world import Violation, World

_NEXT_OFFSET = attrgetter("next_offset")


class _Appended(NamedTuple):
    """What (offset, epoch) means everywhere: a record, and all before it."""

    crc: int
    previous_offset: int
    # -1 where a log begins with the record.
    previous_epoch: int


class LogChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self.committed: list[Entry] = []
        # In which epoch each was.
        self._commit_epochs: list[int] = []
        self.committed_end = 0
        self.acknowledged_count = 0
        self._appended: dict[tuple[int, int], _Appended] = {}
        self._digests: dict[int, int] = {0: 0}
        # Committed voter sets with their offsets.
        self._voters: list[tuple[int, VoterSet]] = []

    def forget(self, host: Host, epoch: int) -> None:
        """Of an epoch that was never durable; it ends the log, if any of it is there."""
        for entry in host.log.entries_from(host.log.start_offset):
            if entry.epoch == epoch:
                self._appended.pop((entry.base_offset, epoch), None)

    def appended(self, host: Host, entry: Entry) -> None:
        """Log matching: equal offset and epoch mean equal records, and equal ones before."""
        previous = host.log.previous_of(entry)
        fact = _Appended(entry.crc, entry.base_offset, -1)
        if previous is not None:
            fact = _Appended(entry.crc, previous.base_offset, previous.epoch)
        known = self._appended.setdefault((entry.base_offset, entry.epoch), fact)
        is_first = fact.previous_epoch < 0 or known.previous_epoch < 0
        if known.crc != fact.crc or (known != fact and not is_first):
            raise Violation(
                "LogMatching",
                f"n{host.number} has {fact} at {entry.base_offset}@{entry.epoch}, not {known}",
            )
        if known.previous_epoch < 0 <= fact.previous_epoch:
            self._appended[entry.base_offset, entry.epoch] = fact

    def advanced(self, host: Host, low: int, high: int) -> None:
        """A high watermark rose: what lies below is what every other one said, or new."""
        for entry in host.log.entries_from(low):
            if entry.next_offset > high:
                break
            if entry.base_offset < self.committed_end:
                self._check_committed(host, entry)
                continue
            assert host.node is not None
            self.committed.append(entry)
            self._commit_epochs.append(host.node.epoch)
            self.committed_end = entry.next_offset
            self._check_voters(entry)

    def _check_committed(self, host: Host, entry: Entry) -> None:
        known = self.committed[bisect_right(self.committed, entry.base_offset, key=_NEXT_OFFSET)]
        if known[:4] != entry[:4]:
            raise Violation(
                "CommittedStays",
                f"n{host.number} commits {entry.base_offset}@{entry.epoch}, but"
                f" {known.base_offset}@{known.epoch} is committed",
            )

    def _check_voters(self, entry: Entry) -> None:
        for found in control_records(entry.data):
            if not isinstance(found.record, VotersRecord):
                continue
            voters = voters_of(found.record)
            before = self._voters[-1][1] if self._voters else None
            self._voters.append((found.offset, voters))
            if before is None:
                continue
            if not before.differs_by_at_most_one(voters):
                raise Violation("VotersChangeOneByOne", f"{before} to {voters}")
            if len(voters) != len(before):
                change = "removed" if len(voters) < len(before) else "added"
                self._world.mark(f"a voter was {change}")

    def check_voters(self, host: Host, high_watermark: int) -> None:
        """A replica goes by the voter set of the log it has committed."""
        assert host.node is not None
        expected = None
        for offset, voters in reversed(self._voters):
            if offset < high_watermark:
                expected = voters
                break
        found = host.node.quorum.history.voters_before(high_watermark)
        if expected is not None and found != expected:
            raise Violation(
                "VotersFollowTheLog",
                f"n{host.number} at {high_watermark} goes by {found}, not {expected}",
            )

    def check_complete(self, host: Host, epoch: int) -> None:
        """Leader completeness: a leader has everything that earlier epochs committed.

        One that slept through later epochs may win its own once more; it commits nothing."""
        facts = zip(self.committed, self._commit_epochs, strict=True)
        for entry, commit_epoch in reversed(list(facts)):
            if entry.next_offset <= host.log.start_offset:
                break
            if commit_epoch >= epoch:
                continue
            found = host.log.entry_at(entry.base_offset)
            if found is None or found[:4] != entry[:4]:
                raise Violation(
                    "LeaderCompleteness",
                    f"n{host.number} leads epoch {epoch} without {entry.base_offset}@{entry.epoch}",
                )

    def acknowledged(self, host: Host, proposal: Proposal) -> None:
        """A client was told that its record is committed."""
        self.acknowledged_count += 1
        entry = host.log.entry_at(proposal.end_offset - 1)
        if entry is None or (entry.epoch, entry.crc) != (proposal.epoch, proposal.crc):
            raise Violation("AckedStays", f"n{host.number}: {proposal} became {entry}")
        if proposal.end_offset > self.committed_end:
            raise Violation("AckedStays", f"n{host.number}: {proposal} is not committed")

    def applied(self, host: Host) -> None:
        """The same prefix gives the same state, by log or by snapshot."""
        state = host.state
        known = self._digests.setdefault(state.end_offset, state.digest)
        if known != state.digest:
            raise Violation("StatesAgree", f"n{host.number} at offset {state.end_offset} differs")
