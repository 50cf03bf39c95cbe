"""What leaves a node is on its disk: epochs, votes, acknowledged records. Part of sim."""

from ledgerstone.raft import messages
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.sim.quorum.host import Host
from ledgerstone.sim.world import Violation


class VoteChecks:
    def __init__(self) -> None:
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def sending(self, host: Host, request: messages.Request) -> None:
        epoch = getattr(request, "epoch", None)
        if epoch is not None:
            self.check_durable(host, epoch, request)
        if isinstance(request, messages.Vote) and not request.is_pre_vote:
            self.granted(host, request.epoch, request.candidate)
        if isinstance(request, messages.Fetch) and host.identity.is_controller:
            last = request.log_end.offset - 1
            entry = host.log.entry_at(last)
            if entry is not None and not host.log.holds_durably(last, entry.epoch):
                raise Violation(
                    "SyncedBeforeAcked", f"n{host.number} fetches at {last + 1}, not synced"
                )

    def check_durable(self, host: Host, epoch: int, what: object) -> None:
        if epoch > host.durable.epoch:
            raise Violation(
                "DurableBeforeVisible",
                f"n{host.number} says epoch {epoch}, its disk {host.durable}: {what}",
            )

    def granted(self, host: Host, epoch: int, candidate: ReplicaKey) -> None:
        """A vote that leaves is the one on the platter, and the only one of its epoch."""
        durable = host.durable
        is_kept = durable.voted is not None and durable.voted.id == candidate.id
        if durable.epoch == epoch and not is_kept:
            raise Violation(
                "DurableBeforeVisible",
                f"n{host.number} grants {candidate} epoch {epoch}, its disk says {durable}",
            )
        voter = host.identity.key
        known = self._votes.setdefault((voter, epoch), candidate)
        if known != candidate:
            raise Violation(
                "OneVoteAnEpoch", f"{voter} votes for {candidate} and {known} in epoch {epoch}"
            )

    def started(self, host: Host, state: HardState) -> None:
        """Across a crash neither the epoch falls nor the vote goes."""
        durable = host.durable
        is_lost = state.epoch == durable.epoch and durable.voted is not None and state.voted is None
        if state.epoch < durable.epoch or is_lost:
            raise Violation("VotesSurvive", f"n{host.number} kept {durable}, reads {state}")
