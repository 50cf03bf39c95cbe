"""Notices what must happen sometimes, and counts it; see `marks`. Part of sim."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import messages
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.roles import Candidate, Resigned, Role
from ledgerstone.sim.quorum.host import Host
from ledgerstone.sim.world import World


class Sightings:
    def __init__(self, world: World) -> None:
        self._world = world
        self.fleet: list[Host] = []
        self._roles: dict[int, Role] = {}
        # By machine: truncations, snapshots let go, offset of the voter set, kraft.version.
        self._facts: dict[int, tuple[int, int, int, int]] = {}

    def started(self, host: Host) -> None:
        assert host.node is not None
        self._facts.pop(host.number, None)
        role = host.node.role
        self._roles[host.number] = role
        if isinstance(role, Resigned):
            self._world.mark("a restart found itself leader")
        if isinstance(role, Candidate) and host.durable.voted is not None:
            self._world.mark("a restart found its own vote")

    def stepped(self, host: Host) -> None:
        node = host.node
        assert node is not None
        before, role = self._roles.get(host.number), node.role
        if before is not role:
            self._roles[host.number] = role
            if before is not None:
                self._moved(host, before, role)
        history = node.quorum.history
        facts = (
            node.quorum.truncations,
            host.log.raised_count,
            history.current_offset,
            history.version,
        )
        known = self._facts.get(host.number)
        if facts == known:
            return
        self._facts[host.number] = facts
        if known is None:
            return
        if facts[0] > known[0]:
            self._world.mark("a follower truncated its log")
            if facts[2] < known[2]:
                self._world.mark("a change of voters was undone")
        if facts[1] > known[1]:
            self._world.mark("old snapshots were cleaned")
        if facts[3] > known[3]:
            self._world.mark("kraft.version became 1")

    def _moved(self, host: Host, before: Role, role: Role) -> None:
        assert host.node is not None
        if isinstance(before, Leader):
            if not isinstance(role, Resigned):
                self._world.mark("an epoch race")
            elif host.node.quorum.is_voter:
                self._world.mark("a leader resigned")
            else:
                self._world.mark("a leader was removed from the voters")
        elif isinstance(before, Candidate) and not isinstance(role, Leader):
            self._world.mark("an election was lost")
        if isinstance(role, Leader) and any(
            each is not host and each.leader is not None for each in self.fleet
        ):
            self._world.mark("two leaders at once")

    def replied(self, request: messages.Request, answer: messages.Answer) -> None:
        if isinstance(answer, messages.FetchAnswer):
            if answer.error is ErrorCode.FENCED_LEADER_EPOCH:
                self._world.mark("a fetch was fenced")
        elif isinstance(answer, messages.FetchSnapshotAnswer):
            if answer.error is ErrorCode.SNAPSHOT_NOT_FOUND:
                self._world.mark("a snapshot was deleted while it was fetched")
        elif isinstance(answer, messages.VoteAnswer):
            assert isinstance(request, messages.Vote)
            if request.is_pre_vote:
                self._world.mark(f"a pre-vote was {'granted' if answer.is_granted else 'refused'}")
            elif not answer.is_granted and answer.epoch == request.epoch:
                self._world.mark("a vote met another vote")
