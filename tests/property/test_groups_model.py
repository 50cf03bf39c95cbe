"""Random clients, lost answers, restarts and time against the promises of a group.

The model is a handful of clients that do what consumers do, and sometimes what they should not.
What is checked after every step: nobody is answered twice, whoever waits has a deadline and waits
no longer, and a generation has one leader and one assignment, so that nothing has two owners in it.
"""

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ledgerstone.coordinator.invariants import parked_tokens
from ledgerstone.coordinator.turn import GroupConfig
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.desk import GROUP, REBALANCE_MS, SESSION_MS, Desk

CLIENTS = st.integers(0, 4)
NEW_MEMBER_MS = 300_000
REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


@dataclass(slots=True)
class Client:
    """What a consumer remembers. The last two clients are static."""

    group_instance_id: str | None
    member_id: str = ""
    generation_id: int = -1
    token: int | None = None
    #: the members it has to give assignments to, if it leads
    following: tuple[str, ...] = ()


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(GroupConfig(group_max_size=4))
        self.clients = [Client(f"i{n}" if n >= 3 else None) for n in range(5)]
        self.waiting: dict[int, tuple[Client, int]] = {}
        #: by generation: its leader and its assignment
        self.leaders: dict[int, str] = {}
        self.assignments: dict[int, bytes] = {}
        self.last_generation_id = 0

    # -- what clients do ----------------------------------------------------------------------

    @rule(
        who=CLIENTS, protocols=st.sampled_from([("range",), ("sticky", "range")]), old=st.booleans()
    )
    def join(self, who: int, protocols: tuple[str, ...], old: bool) -> None:
        client = self.clients[who]
        token = self.desk.join(
            client.member_id,
            version=3 if old and client.group_instance_id is None else 9,
            protocols=protocols,
            group_instance_id=client.group_instance_id,
        )
        self._waits(client, token)

    @rule(who=CLIENTS)
    def sync(self, who: int) -> None:
        client = self.clients[who]
        # What a member is given tells which SyncGroup it came from.
        given = dict.fromkeys(client.following, str(self.desk.asked).encode())
        token = self.desk.sync(
            client.member_id,
            client.generation_id,
            given,
            group_instance_id=client.group_instance_id,
        )
        self._waits(client, token)

    @rule(who=CLIENTS)
    def heartbeat(self, who: int) -> None:
        client = self.clients[who]
        error_code = self.desk.heartbeat(
            client.member_id, client.generation_id, group_instance_id=client.group_instance_id
        )
        if error_code in REJOIN:
            client.member_id = ""
        self._collect()

    @rule(who=CLIENTS)
    def commit(self, who: int) -> None:
        client = self.clients[who]
        error_code = self.desk.commit(
            client.generation_id,
            member_id=client.member_id,
            generation_id=client.generation_id,
            group_instance_id=client.group_instance_id,
        )
        if error_code == ErrorCode.NONE:
            assert self.desk.committed() == client.generation_id
        self._collect()

    @rule(who=CLIENTS)
    def leave(self, who: int) -> None:
        client = self.clients[who]
        self.desk.leave((client.member_id, client.group_instance_id))
        client.member_id = ""
        self._collect()

    @rule(who=CLIENTS)
    def forget(self, who: int) -> None:
        """The process behind a client dies and starts again, knowing nothing."""
        self.clients[who].member_id = ""

    @rule(duration_ms=st.sampled_from([1, 1_000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def wait(self, duration_ms: int) -> None:
        self.desk.pass_time(duration_ms)
        self._collect()
        self._forget_lost_generations()

    @rule()
    def rally(self) -> None:
        """Everybody does the right thing for once."""
        for who in range(len(self.clients)):
            self.join(who, ("range",), old=True)
        while self._unanswered():
            self.wait(1_000)
        for who in range(len(self.clients)):
            self.sync(who)

    @rule()
    def move(self) -> None:
        """The partition moves: waiting members are sent away, the rest is read from the log."""
        self.desk.perform(self.desk.shard.resign(self.desk.now))
        assert not self._unanswered()
        self._collect()
        self.desk.restart()
        self._forget_lost_generations()

    # -- what they must be able to rely on ----------------------------------------------------

    @invariant()
    def whoever_is_not_answered_is_parked(self) -> None:
        assert set(self._unanswered()) == set(parked_tokens(self.desk.shard.table))

    @invariant()
    def whoever_waits_has_waited_no_longer_than_a_new_member_may(self) -> None:
        for _, since_ms in self.waiting.values():
            assert self.desk.monotonic_ms - since_ms <= NEW_MEMBER_MS

    def teardown(self) -> None:
        self.desk.pass_time(NEW_MEMBER_MS + 2 * REBALANCE_MS)
        assert not self._unanswered()

    # -- book-keeping -------------------------------------------------------------------------

    def _forget_lost_generations(self) -> None:
        """A generation whose assignment never reached the log may come again; so may all of them
        after the group, unused for long, was deleted."""
        group = self.desk.shard.table.groups.get(GROUP)
        self.last_generation_id = group.generation_id if group else 0
        for book in (self.leaders, self.assignments):
            for generation_id in [each for each in book if each > self.last_generation_id]:
                del book[generation_id]

    def _unanswered(self) -> list[int]:
        return [token for token in self.waiting if token not in self.desk.answers]

    def _waits(self, client: Client, token: int) -> None:
        client.token = token
        self.waiting[token] = (client, self.desk.monotonic_ms)
        self._collect()

    def _collect(self) -> None:
        for token in [each for each in self.waiting if each in self.desk.answers]:
            client, _ = self.waiting.pop(token)
            match self.desk.answers[token]:
                case JoinGroupResponse() as response:
                    self._joined(client, response, is_last=client.token == token)
                case SyncGroupResponse() as response:
                    self._synced(client, response)

    def _joined(self, client: Client, response: JoinGroupResponse, *, is_last: bool) -> None:
        if response.error_code == ErrorCode.NONE:
            assert response.generation_id >= self.last_generation_id or not is_last
            self.last_generation_id = max(self.last_generation_id, response.generation_id)
            if response.members and not response.skip_assignment:
                leader = self.leaders.setdefault(response.generation_id, response.leader)
                assert leader == response.leader, "two leaders in one generation"
        if not is_last:
            return
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = response.member_id
            client.generation_id = response.generation_id
            client.following = tuple(each.member_id for each in response.members)
        elif response.error_code in REJOIN:
            client.member_id = ""

    def _synced(self, client: Client, response: SyncGroupResponse) -> None:
        if response.error_code == ErrorCode.NONE and response.assignment:
            given = self.assignments.setdefault(client.generation_id, response.assignment)
            assert given == response.assignment, "two assignments in one generation"


def test_groups_keep_their_promises_whatever_clients_do() -> None:
    run_state_machine_as_test(
        Groups,
        settings=settings(
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
