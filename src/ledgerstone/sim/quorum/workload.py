"""What is asked of a quorum: records to commit, voters to change. Part of sim."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import messages
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.world import World


class Workload:
    """A controller beside each leader proposes; an operator changes voters now and then."""

    def __init__(self, world: World, config: Config, fleet: list[Machine], lost: list[int]) -> None:
        self._world = world
        self._config = config
        self._fleet = fleet
        self._dice = world.dice("workload")
        self._serial = 0
        self.is_over = False
        # Nodes whose disk is another one now.
        self.lost = lost

    def begin(self) -> None:
        self._world.after(self._config.pace_ms, "propose", self._propose)
        for _ in range(self._config.changes):
            at_ms = self._dice.between(1_000, self._config.fault_ms)
            self._world.at(at_ms, "change voters", self.change_voters)
        if self._config.upgrade:
            self._world.at(self._config.fault_ms // 2, "upgrade", self.upgrade)

    def _propose(self) -> None:
        if self.is_over:
            return
        self.propose_once()
        delay_ms = self._dice.between(self._config.pace_ms // 2, self._config.pace_ms * 2)
        self._world.after(delay_ms, "propose", self._propose)

    def propose_once(self) -> bool:
        """To each that believes to lead: a deposed leader gets proposals, too."""
        leaders = [each for each in self._leaders() if each.hands.is_told_leader]
        for machine in leaders:
            self._serial += 1
            leader = machine.host.leader
            if leader is not None and not machine.host.is_stopping:
                machine.propose(leader.epoch, f"record {self._serial}".encode())
        return bool(leaders)

    def _leaders(self) -> list[Machine]:
        return [each for each in self._fleet if each.host.leader is not None and not each.is_paused]

    # -- voters -------------------------------------------------------------------------------

    def change_voters(self) -> None:
        """While a disk is lost, only that is mended: another voter less could be one too many."""
        if self.lost:
            for number in self.lost:
                self.replace_lost(number)
            return
        leaders = self._leaders()
        if not leaders:
            return
        machine = self._dice.pick(leaders)
        assert machine.node is not None
        voters = machine.node.voters
        spares = [
            each
            for each in self._fleet
            if each.host.identity.is_controller and voters.get(each.host.identity.key.id) is None
        ]
        adds = spares and (len(voters) <= 2 or self._dice.chance(50))
        if adds:
            self._add(machine, self._dice.pick(spares))
        elif len(voters) > 2:
            self._remove(machine, self._dice.pick(voters.keys))

    def replace_lost(self, number: int) -> None:
        """What an operator does about a lost disk: the old replica out, the new one in."""
        lost = self._fleet[number].host.identity.key
        for machine in self._leaders():
            assert machine.node is not None
            listed = machine.node.voters.get(lost.id)
            if listed is None:
                self._add(machine, self._fleet[number])
            elif listed.key != lost:
                self._remove(machine, listed.key)

    def _add(self, machine: Machine, spare: Machine) -> None:
        request = messages.AddVoter(
            cluster_id=machine.host.identity.cluster_id,
            voter=spare.host.identity.voter,
            timeout_ms=3_000,
        )
        machine.ask(request, self._told)

    def _remove(self, machine: Machine, key: ReplicaKey) -> None:
        machine.ask(
            messages.RemoveVoter(cluster_id=machine.host.identity.cluster_id, key=key), self._told
        )

    def upgrade(self) -> None:
        for machine in self._leaders():
            machine.ask(messages.UpgradeVersion(version=1), self._told)
        if not self.is_over:
            self._world.after(1_500, "upgrade", self.upgrade)

    def _told(self, answer: messages.Answer) -> None:
        assert isinstance(answer, messages.VoterChangeAnswer)
        if answer.error is not ErrorCode.NONE:
            self._world.mark("a change of voters was refused")


def is_leading(machine: Machine) -> bool:
    role = None if machine.node is None else machine.node.role
    return isinstance(role, Leader) and role.high_watermark is not None
