"""What must hold after every step of a simulated quorum: one door to all checkers. Part of sim.

Checkers look at hosts, not into the node's reasons: at roles, logs, platters and messages that
leave. Facts about the whole run (what is committed, who led, who voted for whom) outlive crashes.
"""

from ledgerstone.raft import messages
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.roles import Candidate, Prospective, Resigned, Role
from ledgerstone.sim.quorum.host import Host, Proposal
from ledgerstone.sim.quorum.leader_checks import LeaderChecks
from ledgerstone.sim.quorum.log_checks import LogChecks
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.quorum.vote_checks import VoteChecks
from ledgerstone.sim.world import Violation, World


class Checkers:
    def __init__(self, world: World) -> None:
        self._world = world
        self.logs = LogChecks(world)
        self.votes = VoteChecks()
        self.leaders = LeaderChecks(world, self.logs)
        # By host: its role, and its epoch and high watermark when it was looked at last.
        self._roles: dict[int, Role] = {}
        self._marks: dict[int, tuple[int, int]] = {}

    def meet(self, fleet: list[Host]) -> None:
        self.leaders.fleet = fleet

    # -- after every step ---------------------------------------------------------------------

    def stepped(self, host: Host) -> None:
        node = host.node
        assert node is not None
        role = node.role
        if self._roles.get(host.number) is not role:
            before = self._roles.get(host.number)
            self._roles[host.number] = role
            if isinstance(before, Leader) and isinstance(role, Resigned):
                self.leaders.resigned(host)
            self._entered(host, role)
        epoch, high_watermark = role.epoch, node.high_watermark
        known_epoch, known_hw = self._marks.get(host.number, (-1, -1))
        if epoch < known_epoch:
            raise Violation("EpochsRise", f"n{host.number}: {known_epoch} to {epoch}")
        if high_watermark < known_hw:
            raise Violation("HighWatermarkRises", f"n{host.number}: {known_hw}, {high_watermark}")
        if high_watermark > host.log.end_offset:
            raise Violation("HighWatermarkInLog", f"n{host.number}: {high_watermark}")
        if isinstance(role, Leader):
            self.leaders.check(host, role)
        if (epoch, high_watermark) != (known_epoch, known_hw):
            self._marks[host.number] = (epoch, high_watermark)
        if high_watermark > max(known_hw, 0):
            self.logs.advanced(host, max(known_hw, host.log.start_offset), high_watermark)
            self.logs.check_voters(host, high_watermark)

    def _entered(self, host: Host, role: Role) -> None:
        assert host.node is not None
        self._world.note(f"n{host.number} {type(role).__name__} {role.epoch}")
        if isinstance(role, Prospective | Candidate | Leader) and not self._may_run(host):
            raise Violation("OnlyVotersRun", f"n{host.number} became {role}")
        if isinstance(role, Leader):
            self.leaders.elected(host, role)

    def _may_run(self, host: Host) -> bool:
        """A voter, or one that was until a set that is not known to be committed."""
        assert host.node is not None
        own_id, history = host.identity.key.id, host.node.quorum.history
        offset = history.current_offset
        before = history.voters_before(offset) if offset >= host.node.high_watermark else None
        is_listed = own_id in host.node.voters.ids or (before is not None and own_id in before.ids)
        return host.identity.is_controller and is_listed

    # -- as it happens ------------------------------------------------------------------------

    def started(self, host: Host, state: HardState) -> None:
        self._roles.pop(host.number, None)
        self._marks.pop(host.number, None)
        self.votes.started(host, state)

    def died(self, host: Host) -> None:
        """A leadership that never was durable was never seen: another start may win it again."""
        assert host.node is not None
        epoch = host.node.epoch
        is_known = host.durable[:2] == (epoch, host.identity.key.id)
        if host.leader is not None and not is_known:
            self.leaders.forget(host, epoch)
            self.logs.forget(host, epoch)

    def asked_to_leave(self, host: Host) -> None:
        self.leaders.asked_to_leave(host)

    def appended(self, host: Host, entry: Entry) -> None:
        self.logs.appended(host, entry)
        self.leaders.appended(host, entry)

    def contacted(self, host: Host, key: ReplicaKey) -> None:
        self.leaders.contacted(host, key)

    def acknowledged(self, host: Host, proposal: Proposal) -> None:
        self.logs.acknowledged(host, proposal)

    def applied(self, host: Host) -> None:
        self.logs.applied(host)

    def sending(self, host: Host, request: messages.Request) -> None:
        self.votes.sending(host, request)

    def replying(self, host: Host, answer: messages.Answer) -> None:
        self.votes.check_durable(host, answer.epoch, answer)

    def replied(self, host: Host, request: messages.Request, answer: messages.Answer) -> None:
        if not isinstance(answer, messages.VoteAnswer) or not isinstance(request, messages.Vote):
            return
        if answer.is_granted and not request.is_pre_vote:
            self.votes.granted(host, request.epoch, request.candidate)
