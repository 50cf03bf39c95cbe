"""What must hold after every step of a simulated quorum. Part of sim.

Checkers look at machines, not into the node's reasons: at roles, logs, platters and messages that
leave. Facts about the whole run (what is committed, who led, who voted for whom) outlive crashes.
"""

from typing import TYPE_CHECKING, NamedTuple

from ledgerstone.protocol.messages.control_records import VotersRecord
from ledgerstone.raft import messages
from ledgerstone.raft.control_batches import control_records, voters_of
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.roles import Candidate, Prospective, Role
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.world import Violation, World

if TYPE_CHECKING:
    from ledgerstone.sim.quorum.machine import Machine, Proposal


class _Appended(NamedTuple):
    """What (offset, epoch) means everywhere: a record, and all before it."""

    crc: int
    previous_offset: int
    previous_epoch: int


class Checkers:
    def __init__(self, world: World) -> None:
        self._world = world
        self.committed: list[Entry] = []
        self.committed_end = 0
        self._leaders: dict[int, ReplicaKey] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._appended: dict[tuple[int, int], _Appended] = {}
        self._digests: dict[int, int] = {0: 0}
        # By machine: role, high watermark and role epoch when it was looked at last.
        self._roles: dict[int, Role] = {}
        self._marks: dict[int, tuple[int, int]] = {}
        self._voters: VoterSet | None = None
        self.acknowledged_count = 0
        self.elections = 0

    # -- log matching -------------------------------------------------------------------------

    def appended(self, machine: "Machine", entry: Entry) -> None:
        previous = machine.log.previous_of(entry)
        if previous is None:
            previous_offset, previous_epoch = entry.base_offset, -1
        else:
            previous_offset, previous_epoch = previous.base_offset, previous.epoch
        fact = _Appended(entry.crc, previous_offset, previous_epoch)
        known = self._appended.setdefault((entry.base_offset, entry.epoch), fact)
        is_first = previous_epoch < 0 or known.previous_epoch < 0
        if known.crc != fact.crc or (known != fact and not is_first):
            raise Violation(
                "LogMatching",
                f"n{machine.number} has {fact} at {entry.base_offset}@{entry.epoch}, not {known}",
            )
        if known.previous_epoch < 0 <= previous_epoch:
            self._appended[entry.base_offset, entry.epoch] = fact

    # -- after every step ---------------------------------------------------------------------

    def stepped(self, machine: "Machine") -> None:
        node = machine.node
        if node is None:
            return
        role = node.role
        if self._roles.get(machine.number) is not role:
            before = self._roles.get(machine.number)
            self._roles[machine.number] = role
            self._entered(machine, before, role)
        epoch, high_watermark = role.epoch, node.high_watermark
        known_epoch, known_hw = self._marks.get(machine.number, (-1, -1))
        if epoch < known_epoch:
            raise Violation("EpochsRise", f"n{machine.number}: {known_epoch} to {epoch}")
        if high_watermark < known_hw:
            raise Violation(
                "HighWatermarkRises", f"n{machine.number}: {known_hw}, {high_watermark}"
            )
        if high_watermark > machine.log.end_offset:
            raise Violation("HighWatermarkInLog", f"n{machine.number}: {high_watermark}")
        if (epoch, high_watermark) != (known_epoch, known_hw):
            self._marks[machine.number] = (epoch, high_watermark)
        if high_watermark > max(known_hw, 0):
            self._advanced(machine, role, max(known_hw, machine.log.start_offset), high_watermark)

    def _entered(self, machine: "Machine", before: Role | None, role: Role) -> None:
        assert machine.node is not None
        key = machine.identity.key
        self._world.note(f"n{machine.number} {type(role).__name__} {role.epoch}")
        if isinstance(role, Prospective | Candidate | Leader) and not machine.node.quorum.is_voter:
            # A leader may be removed later; here it has just been elected.
            raise Violation("OnlyVotersRun", f"n{machine.number} became {role}")
        if not isinstance(role, Leader):
            return
        self.elections += 1
        known = self._leaders.setdefault(role.epoch, key)
        if known != key or isinstance(before, Leader):
            raise Violation("OneLeaderAnEpoch", f"epoch {role.epoch}: {known} and {key}")
        for entry in reversed(self.committed):
            if entry.next_offset <= machine.log.start_offset:
                break
            found = machine.log.entry_at(entry.base_offset)
            if found is None or (found.epoch, found.crc) != (entry.epoch, entry.crc):
                raise Violation(
                    "LeaderCompleteness",
                    f"n{machine.number} leads epoch {role.epoch} without"
                    f" {entry.base_offset}@{entry.epoch}",
                )

    # -- what is committed stays --------------------------------------------------------------

    def _advanced(self, machine: "Machine", role: Role, low: int, high: int) -> None:
        if isinstance(role, Leader):
            self._check_majority(machine, role, high)
        for entry in machine.log.entries_from(low):
            if entry.next_offset > high:
                break
            if entry.base_offset < self.committed_end:
                self._check_committed(machine, entry)
                continue
            self.committed.append(entry)
            self.committed_end = entry.next_offset
            self._check_voters(entry)

    def _check_committed(self, machine: "Machine", entry: Entry) -> None:
        low, high = 0, len(self.committed)
        while low < high:
            middle = (low + high) // 2
            if self.committed[middle].next_offset <= entry.base_offset:
                low = middle + 1
            else:
                high = middle
        known = self.committed[low]
        if (known.base_offset, known.epoch, known.crc) != (
            entry.base_offset,
            entry.epoch,
            entry.crc,
        ):
            raise Violation(
                "CommittedStays",
                f"n{machine.number} commits {entry.base_offset}@{entry.epoch}, but"
                f" {known.base_offset}@{known.epoch} is committed",
            )

    def _check_majority(self, machine: "Machine", role: Leader, high_watermark: int) -> None:
        """The record is on the platters of a majority, the leader's own included or not."""
        assert machine.node is not None
        entry = machine.log.entry_at(high_watermark - 1)
        if entry is None:
            return
        voters = machine.node.voters
        if entry.epoch != role.epoch:
            raise Violation(
                "OwnEpochCommits",
                f"n{machine.number} in epoch {role.epoch} commits up to {high_watermark}, a record"
                f" of epoch {entry.epoch}",
            )
        holding = [
            each.number
            for each in machine.fleet
            if voters.match(each.identity.key) is not None
            and each.log.holds_durably(high_watermark - 1, entry.epoch)
        ]
        lost = sum(
            voters.get(each.identity.key.id) is not None and voters.match(each.identity.key) is None
            for each in machine.fleet
        )
        if len(holding) + lost < voters.majority:
            raise Violation(
                "MajorityHoldsIt",
                f"n{machine.number} commits up to {high_watermark}; of {voters} only nodes"
                f" {holding} have it on disk",
            )

    def _check_voters(self, entry: Entry) -> None:
        for found in control_records(entry.data):
            if not isinstance(found.record, VotersRecord):
                continue
            voters = voters_of(found.record)
            before, self._voters = self._voters, voters
            if before is not None and not before.differs_by_at_most_one(voters):
                raise Violation("VotersChangeOneByOne", f"{before} to {voters}")
            if before is not None and len(voters) < len(before):
                self._world.mark("a voter was removed")
            if before is not None and len(voters) > len(before):
                self._world.mark("a voter was added")

    def acknowledged(self, machine: "Machine", proposal: "Proposal") -> None:
        """A client was told that its record is committed."""
        self.acknowledged_count += 1
        entry = machine.log.entry_at(proposal.end_offset - 1)
        if entry is None or (entry.epoch, entry.crc) != (proposal.epoch, proposal.crc):
            raise Violation("AckedStays", f"n{machine.number}: {proposal} became {entry}")
        if proposal.end_offset > self.committed_end:
            raise Violation("AckedStays", f"n{machine.number}: {proposal} is not committed")

    def applied(self, machine: "Machine") -> None:
        """The same prefix gives the same state, by log or by snapshot."""
        state = machine.state
        known = self._digests.setdefault(state.end_offset, state.digest)
        if known != state.digest:
            raise Violation(
                "StatesAgree", f"n{machine.number} at offset {state.end_offset} differs"
            )

    # -- what leaves is durable ---------------------------------------------------------------

    def sending(self, machine: "Machine", request: messages.Request) -> None:
        epoch = getattr(request, "epoch", None)
        if epoch is not None:
            self._check_durable(machine, epoch, request)
        if isinstance(request, messages.Vote) and not request.is_pre_vote:
            self._voted(machine, request.epoch, request.candidate)
        if isinstance(request, messages.Fetch) and machine.identity.is_controller:
            last = request.log_end.offset - 1
            entry = machine.log.entry_at(last)
            if entry is not None and not machine.log.holds_durably(last, entry.epoch):
                raise Violation(
                    "SyncedBeforeAcked", f"n{machine.number} fetches at {last + 1}, not synced"
                )

    def replying(self, machine: "Machine", answer: messages.Answer) -> None:
        self._check_durable(machine, answer.epoch, answer)

    def _check_durable(self, machine: "Machine", epoch: int, what: object) -> None:
        if epoch > machine.durable.epoch:
            raise Violation(
                "DurableBeforeVisible",
                f"n{machine.number} says epoch {epoch}, its disk {machine.durable}: {what}",
            )

    def granted(self, machine: "Machine", epoch: int, candidate: ReplicaKey) -> None:
        """A vote that leaves must be the one on the platter."""
        durable = machine.durable
        if durable.epoch == epoch and (
            durable.voted is None or not durable.voted.covers(candidate)
        ):
            raise Violation(
                "DurableBeforeVisible",
                f"n{machine.number} grants {candidate} epoch {epoch}, its disk says {durable}",
            )
        self._voted(machine, epoch, candidate)

    def _voted(self, machine: "Machine", epoch: int, candidate: ReplicaKey) -> None:
        voter = machine.identity.key
        known = self._votes.setdefault((voter, epoch), candidate)
        if known != candidate:
            raise Violation(
                "OneVoteAnEpoch", f"{voter} votes for {candidate} and {known} in epoch {epoch}"
            )

    def stored(self, machine: "Machine", state: HardState) -> None:
        self._world.note(f"n{machine.number} stored {state}")

    def started(self, machine: "Machine", state: HardState) -> None:
        """Across a crash neither the epoch falls nor the vote changes."""
        self._roles.pop(machine.number, None)
        self._marks.pop(machine.number, None)
        durable = machine.durable
        if state.epoch < durable.epoch:
            raise Violation("VotesSurvive", f"n{machine.number} kept {durable}, reads {state}")
        if state.epoch == durable.epoch and durable.voted is not None and state.voted is None:
            raise Violation("VotesSurvive", f"n{machine.number} kept {durable}, reads {state}")
