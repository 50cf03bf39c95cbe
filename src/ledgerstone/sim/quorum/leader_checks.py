"""One leader an epoch, what it may commit, and when it must go. Part of sim."""

from ledgerstone.protocol.messages.control_records import VotersRecord
from ledgerstone.raft.control_batches import control_records
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.replica import NO_DIRECTORY, ReplicaKey
from ledgerstone.raft.voters import VoterSet
from ledgerstone.sim.quorum.host import Host
from ledgerstone.sim.quorum.log_checks import LogChecks
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.world import Violation, World

# A leader notices with its next step that it lost touch; steps come at least this often.
_SLACK_MS = 500


class LeaderChecks:
    def __init__(self, world: World, logs: LogChecks) -> None:
        self._world = world
        self._logs = logs
        self.fleet: list[Host] = []
        self.elections = 0
        self._leaders: dict[int, ReplicaKey] = {}
        # By leader: what it had committed, when it heard of which voter, since when it leads.
        self._committed: dict[int, int | None] = {}
        self._contacts: dict[int, dict[int, int]] = {}
        self._since: dict[int, int] = {}
        self._voters: dict[int, VoterSet] = {}
        # Told to resign or stop.
        self._leaving: set[int] = set()

    def forget(self, host: Host, epoch: int) -> None:
        if self._leaders.get(epoch) == host.identity.key:
            del self._leaders[epoch]

    def asked_to_leave(self, host: Host) -> None:
        self._leaving.add(host.number)

    def resigned(self, host: Host) -> None:
        """Unless it was told to, or is no voter any more, it had lost touch."""
        assert host.node is not None
        voters, own_id = host.node.voters, host.identity.key.id
        if host.number in self._leaving or own_id not in voters.ids:
            return
        silent_ms = self._silent_ms(host)
        # Its clock may run a little faster than the world's.
        if silent_ms * 1.1 < host.settings.check_quorum_timeout_ms:
            raise Violation(
                "LeadersStay", f"n{host.number} resigned {silent_ms} ms after it heard a majority"
            )

    def elected(self, host: Host, role: Leader) -> None:
        self.elections += 1
        key = host.identity.key
        if role.epoch in self._leaders:
            # Not even the same one again: offsets of the epoch would come to mean two records.
            known = self._leaders[role.epoch]
            raise Violation("OneLeaderAnEpoch", f"epoch {role.epoch}: {known} and {key}")
        self._leaders[role.epoch] = key
        self._committed[host.number] = None
        self._leaving.discard(host.number)
        self._contacts[host.number] = {}
        self._since[host.number] = self._world.now_ms
        self._logs.check_complete(host, role.epoch)

    def contacted(self, host: Host, key: ReplicaKey) -> None:
        """A voter's fetch came. A node of its id with another disk does not count."""
        assert host.node is not None
        voter = host.node.voters.get(key.id)
        is_voter = voter is not None and voter.key.directory_id in (NO_DIRECTORY, key.directory_id)
        if is_voter and host.number in self._contacts:
            self._contacts[host.number][key.id] = self._world.now_ms

    def check(self, host: Host, role: Leader) -> None:
        high_watermark = role.high_watermark
        if high_watermark != self._committed[host.number]:
            self._committed[host.number] = high_watermark
            assert high_watermark is not None
            self._check_majority(host, role, high_watermark)
        self._check_touch(host, role)

    def _check_majority(self, host: Host, role: Leader, high_watermark: int) -> None:
        """A record of the leader's own epoch is on the platters of a majority."""
        assert host.node is not None
        entry = host.log.entry_at(high_watermark - 1)
        if entry is None:
            return
        voters = host.node.voters
        if entry.epoch != role.epoch:
            raise Violation(
                "OwnEpochCommits",
                f"n{host.number} in epoch {role.epoch} commits up to {high_watermark}, a record"
                f" of epoch {entry.epoch}",
            )
        by_key = {each.identity.key: each for each in self.fleet}
        by_id = {each.identity.key.id: each for each in self.fleet}
        holding, lost = [], 0
        for key in voters.keys:
            found = by_id[key.id] if key.directory_id == NO_DIRECTORY else by_key.get(key)
            if found is None:
                # Its disk is gone. It may have held the record.
                lost += 1
            elif found.log.holds_durably(high_watermark - 1, entry.epoch):
                holding.append(found.number)
        if len(holding) + lost < voters.majority:
            raise Violation(
                "MajorityHoldsIt",
                f"n{host.number} commits up to {high_watermark}; of {voters} only nodes"
                f" {holding} have it on disk",
            )

    def _check_touch(self, host: Host, role: Leader) -> None:
        assert host.node is not None
        voters, own_id = host.node.voters, host.identity.key.id
        is_voter = own_id in voters.ids
        if self._voters.get(host.number) is not voters:
            # Another voter set has its own time to be heard of.
            self._voters[host.number] = voters
            self._since[host.number] = self._world.now_ms
        is_committed = (role.high_watermark or 0) > host.node.quorum.history.current_offset
        if not is_voter and is_committed:
            raise Violation("RemovedLeadersResign", f"n{host.number} leads {voters}")
        needed = voters.majority - is_voter
        if needed == 0:
            # A sole voter is in touch with itself.
            self._since[host.number] = self._world.now_ms
            return
        silent_ms = self._silent_ms(host)
        # The timer begins anew with the fetch that completes a majority, so it may run twice.
        if silent_ms > host.settings.check_quorum_timeout_ms * 2 + _SLACK_MS:
            raise Violation(
                "LeadersKeepInTouch", f"n{host.number} leads, {silent_ms} ms without a majority"
            )

    def _silent_ms(self, host: Host) -> int:
        """How long ago it had heard of enough voters."""
        assert host.node is not None
        voters, own_id = host.node.voters, host.identity.key.id
        needed = voters.majority - (own_id in voters.ids)
        since, contacts = self._since[host.number], self._contacts[host.number]
        heard = sorted(
            (max(contacts.get(each, since), since) for each in voters.ids if each != own_id),
            reverse=True,
        )
        return self._world.now_ms - heard[needed - 1] if needed else 0

    def appended(self, host: Host, entry: Entry) -> None:
        """A leader writes a voter set only after the one before it is committed."""
        leader = host.leader
        if leader is None or entry.base_offset == leader.epoch_start_offset:
            return
        if not any(isinstance(each.record, VotersRecord) for each in control_records(entry.data)):
            return
        assert host.node is not None
        last = host.node.quorum.history.current_offset
        if leader.high_watermark is None or leader.high_watermark <= last:
            raise Violation(
                "ChangesWaitForCommit",
                f"n{host.number} changes voters at {entry.base_offset}, high watermark"
                f" {leader.high_watermark}, last change at {last}",
            )
