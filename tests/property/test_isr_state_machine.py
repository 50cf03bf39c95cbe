"""A leader, its followers, and a controller whose news and answers come late, in any order.

What must hold whatever happens: the high watermark never falls, and every member of the ISR that
the controller has decided on has everything below it. So whichever of them is elected, nothing that
was committed is lost.
"""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledgerstone.metadata.image import BrokerImage, PartitionImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.replication.isr import InSyncReplicas, IsrChange, IsrOutcome
from tests.kit.roles import led_by
from tests.kit.sized import examples

LEADER = 1
FOLLOWERS = (2, 3)
LAG_MS = 1_000

some_follower = st.sampled_from(FOLLOWERS)
share = st.floats(0, 1)


@dataclass
class Fetch:
    broker_id: int
    offset: int
    broker_epoch: int


@dataclass
class FollowerBroker:
    end_offset: int = 0
    broker_epoch: int = 1


@dataclass
class Answer:
    change: IsrChange
    code: ErrorCode
    state: PartitionImage


@dataclass
class TheController:
    """What is decided, and the news that the leader has not read yet."""

    state: PartitionImage = field(
        default_factory=lambda: led_by(
            LEADER, 0, (LEADER, *FOLLOWERS), replicas=(LEADER, *FOLLOWERS)
        )
    )
    epochs: dict[int, int] = field(default_factory=lambda: dict.fromkeys((LEADER, *FOLLOWERS), 1))
    fenced: set[int] = field(default_factory=set)
    news: list[PartitionImage | BrokerImage] = field(default_factory=list)

    def alter(self, change: IsrChange) -> Answer:
        code = ErrorCode.NONE
        if change.partition_epoch < self.state.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif any(
            member.broker_id in self.fenced
            or member.broker_epoch not in (-1, self.epochs[member.broker_id])
            for member in change.isr
        ):
            code = ErrorCode.INELIGIBLE_REPLICA
        else:
            self._change(tuple(member.broker_id for member in change.isr))
        return Answer(change, code, self.state)

    def registers(self, broker_id: int) -> None:
        """A new life: whatever it had is in doubt, so it leaves the ISR first."""
        self.fence(broker_id)
        self.epochs[broker_id] += 1
        self.fenced.discard(broker_id)
        self._tell(broker_id)

    def fence(self, broker_id: int) -> None:
        self._change(tuple(each for each in self.state.isr if each != broker_id))
        self.fenced.add(broker_id)
        self._tell(broker_id)

    def _change(self, isr: tuple[int, ...]) -> None:
        if isr != self.state.isr:
            self.state = replace(
                self.state, isr=isr, partition_epoch=self.state.partition_epoch + 1
            )
            self.news.append(self.state)

    def _tell(self, broker_id: int) -> None:
        self.news.append(
            BrokerImage(
                broker_id=broker_id,
                broker_epoch=self.epochs[broker_id],
                incarnation_id=bytes(16),
                endpoints=(),
                fenced=broker_id in self.fenced,
            )
        )


class IsrUnderFaults(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.controller = TheController()
        self.followers = {each: FollowerBroker() for each in FOLLOWERS}
        self.known: dict[int, BrokerImage] = {}
        self.machine = InSyncReplicas(
            leader_id=LEADER, registered=self.known.get, max_lag_ms=LAG_MS
        )
        self.end = self.high_watermark = self.now_ms = 0
        self.partition_epoch = -1
        self.unsent: IsrChange | None = None
        self.answers: list[Answer] = []
        self.late: list[Fetch] = []
        for each in (LEADER, *FOLLOWERS):
            self.controller._tell(each)
        self.controller.news.append(self.controller.state)
        self.read_news(1)

    # -- the log ------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.end += count
        self._commit()

    @rule(broker_id=some_follower, share=share)
    def fetch(self, broker_id: int, share: float) -> None:
        """It gets a part of what it lacks."""
        follower = self.followers[broker_id]
        self._served(Fetch(broker_id, follower.end_offset, follower.broker_epoch))
        follower.end_offset += round(share * (self.end - follower.end_offset))

    @rule(broker_id=some_follower)
    def fetch_slowly(self, broker_id: int) -> None:
        follower = self.followers[broker_id]
        self.late.append(Fetch(broker_id, follower.end_offset, follower.broker_epoch))

    @precondition(lambda self: self.late)
    @rule()
    def late_fetch_arrives(self) -> None:
        self._served(self.late.pop(0))

    def _served(self, fetch: Fetch) -> None:
        if self.machine.is_stale(fetch.broker_id, fetch.broker_epoch):
            return
        self.machine.followers[fetch.broker_id].fetched(
            fetch_offset=fetch.offset,
            log_start_offset=0,
            leader_end_offset=self.end,
            broker_epoch=fetch.broker_epoch,
            now_ms=self.now_ms,
        )
        change = self.machine.expand(
            fetch.broker_id, high_watermark=self.high_watermark, epoch_start=0
        )
        self.unsent = change or self.unsent
        self._commit()

    # -- faults -------------------------------------------------------------------------------

    @rule(broker_id=some_follower, share=share)
    def restart_without_the_tail(self, broker_id: int, share: float) -> None:
        follower = self.followers[broker_id]
        self.controller.registers(broker_id)
        follower.broker_epoch = self.controller.epochs[broker_id]
        follower.end_offset = round(share * follower.end_offset)

    @rule(broker_id=some_follower)
    def fenced(self, broker_id: int) -> None:
        self.controller.fence(broker_id)

    @rule(millis=st.integers(1, 2 * LAG_MS))
    def time_passes(self, millis: int) -> None:
        self.now_ms += millis
        self.unsent = self.machine.shrink(self.end, self.now_ms) or self.unsent
        self._commit()

    # -- the controller -----------------------------------------------------------------------

    @precondition(lambda self: self.unsent is not None)
    @rule(is_lost=st.booleans())
    def proposal_arrives(self, is_lost: bool) -> None:
        """Where the answer is lost, the leader asks again."""
        assert self.unsent is not None
        answer = self.controller.alter(self.unsent)
        if not is_lost:
            self.unsent = None
            self.answers.append(answer)

    @precondition(lambda self: self.answers)
    @rule()
    def answer_arrives(self) -> None:
        change, code, state = (answer := self.answers.pop(0)).change, answer.code, answer.state
        if code:
            outcome = self.machine.refused(change, code)
            assert outcome is not IsrOutcome.RETRY
        else:
            self.machine.agreed(
                change,
                state.isr,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
            )
        self._commit()

    @precondition(lambda self: self.controller.news)
    @rule(share=share)
    def read_news(self, share: float) -> None:
        news = self.controller.news
        count = max(1, round(share * len(news)))
        for each in news[:count]:
            if isinstance(each, BrokerImage):
                self.known[each.broker_id] = each
            elif each.partition_epoch >= self.machine.partition_epoch:
                self.machine.assume(each, leader_end_offset=self.end, now_ms=self.now_ms)
                self.unsent = None
        del news[:count]
        self._commit()

    # -- what must hold -----------------------------------------------------------------------

    def _commit(self) -> None:
        found = self.machine.common_end(self.end, self.now_ms)
        self.high_watermark = max(self.high_watermark, found)

    @invariant()
    def every_member_has_what_is_committed(self) -> None:
        for broker_id in self.controller.state.isr:
            if broker_id != LEADER:
                assert self.followers[broker_id].end_offset >= self.high_watermark, broker_id

    @invariant()
    def machine_is_sound(self) -> None:
        self.machine.check_invariants()
        assert self.high_watermark <= self.end


TestIsrUnderFaults = IsrUnderFaults.TestCase
TestIsrUnderFaults.settings = settings(examples(60), stateful_step_count=40)
