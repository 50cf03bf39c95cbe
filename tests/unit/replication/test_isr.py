"""In-sync replicas by Kafka's rules. The numbers are those of the scenarios these come from."""

from dataclasses import dataclass, field

import pytest

from ledgerstone.metadata.image import BrokerImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.replication.isr import InSyncReplicas, IsrChange, IsrMember, IsrOutcome
from ledgerstone.types import NO_OFFSET
from tests.kit.roles import led_by

LAG_MS = 30_000
ONE, TWO, THREE = 1, 2, 3


def registered(
    broker_id: int, *, fenced: bool = False, in_controlled_shutdown: bool = False
) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=broker_id * 100,
        incarnation_id=bytes(16),
        endpoints=(),
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


@dataclass
class Lead:
    """Broker 1 leads a log that ends at `end`; the others fetch."""

    isr: tuple[int, ...] = (ONE, TWO, THREE)
    end: int = 0
    high_watermark: int = 0
    epoch_start: int = 0
    now_ms: int = 0
    brokers: dict[int, BrokerImage] = field(
        default_factory=lambda: {each: registered(each) for each in (ONE, TWO, THREE)}
    )
    machine: InSyncReplicas = field(init=False)

    def __post_init__(self) -> None:
        self.machine = InSyncReplicas(leader_id=ONE, registered=self.brokers.get, max_lag_ms=LAG_MS)
        self.news(self.isr)

    def news(
        self, isr: tuple[int, ...], *, leader_epoch: int = 0, partition_epoch: int = 0
    ) -> None:
        state = led_by(
            ONE,
            leader_epoch,
            isr,
            replicas=(ONE, TWO, THREE),
            partition_epoch=partition_epoch,
        )
        self.machine.assume(state, leader_end_offset=self.end, now_ms=self.now_ms)
        self._commit()

    def append(self, count: int = 1) -> None:
        self.end += count
        self._commit()

    def fetch(self, broker_id: int, offset: int, epoch: int | None = None) -> IsrChange | None:
        self.machine.followers[broker_id].fetched(
            fetch_offset=offset,
            log_start_offset=0,
            leader_end_offset=self.end,
            broker_epoch=broker_id * 100 if epoch is None else epoch,
            now_ms=self.now_ms,
        )
        change = self.machine.expand(
            broker_id, high_watermark=self.high_watermark, epoch_start=self.epoch_start
        )
        self._commit()
        self.machine.check_invariants()
        return change

    def shrink(self) -> IsrChange | None:
        return self.machine.shrink(self.end, self.now_ms)

    def agree(self, change: IsrChange, partition_epoch: int | None = None) -> IsrOutcome:
        outcome = self.machine.agreed(
            change,
            tuple(each.broker_id for each in change.isr),
            leader_epoch=change.leader_epoch,
            partition_epoch=change.partition_epoch + 1
            if partition_epoch is None
            else partition_epoch,
        )
        self._commit()
        return outcome

    def _commit(self) -> None:
        found = self.machine.common_end(self.end, self.now_ms)
        self.high_watermark = max(self.high_watermark, found)


def made(change: IsrChange | None) -> IsrChange:
    assert change is not None
    return change


# -- joining --------------------------------------------------------------------------------------


def test_follower_joins_only_at_the_high_watermark() -> None:  # 73
    lead = Lead(isr=(ONE,), end=5, high_watermark=5)

    assert lead.fetch(TWO, 4) is None
    change = made(lead.fetch(TWO, 5))

    assert change.isr == (IsrMember(ONE, 100), IsrMember(TWO, 200))
    assert lead.machine.committed == (ONE,)


def test_follower_joins_only_at_the_start_of_the_leaders_epoch() -> None:  # 73
    """The high watermark of a new leader may not know of what its predecessor committed."""
    lead = Lead(isr=(ONE, THREE), end=8, high_watermark=3, epoch_start=8)

    assert lead.fetch(TWO, 7) is None
    assert lead.fetch(TWO, 8) is not None


@pytest.mark.parametrize("broker_epoch", [199, 201])
def test_fetch_of_another_life_of_the_broker_does_not_join(broker_epoch: int) -> None:  # 72
    lead = Lead(isr=(ONE,))

    assert lead.fetch(TWO, 0, broker_epoch) is None


def test_fetch_without_a_broker_epoch_joins() -> None:
    change = made(Lead(isr=(ONE,)).fetch(TWO, 0, -1))

    assert change.isr[1] == IsrMember(TWO, -1)


def test_stale_is_what_a_registered_broker_has_left_behind() -> None:  # 72
    lead = Lead()
    fenced = Lead(brokers={TWO: registered(TWO, fenced=True)})

    assert [lead.machine.is_stale(TWO, each) for each in (199, 200, 201, -1)] == [
        True,
        False,
        False,
        False,
    ]
    assert not fenced.machine.is_stale(TWO, 199)
    assert not fenced.machine.is_stale(THREE, 199)


@pytest.mark.parametrize("state", ["fenced", "in_controlled_shutdown"])
def test_broker_that_does_not_serve_does_not_join(state: str) -> None:
    lead = Lead(isr=(ONE,), brokers={ONE: registered(ONE), TWO: registered(TWO, **{state: True})})

    assert lead.fetch(TWO, 0) is None
    assert lead.fetch(THREE, 0) is None, "it is not registered"


def test_one_change_is_under_way_at_a_time() -> None:
    lead = Lead(isr=(ONE,))
    made(lead.fetch(TWO, 0))

    assert lead.fetch(THREE, 0) is None
    lead.now_ms += LAG_MS + 1
    assert lead.shrink() is None


# -- lagging --------------------------------------------------------------------------------------


def test_follower_that_is_always_one_small_batch_behind_stays() -> None:  # 74
    lead = Lead()
    lead.append()
    for _ in range(200):
        lead.now_ms += 500
        for follower in (TWO, THREE):
            lead.fetch(follower, lead.end - 1)
        lead.append()

    assert lead.now_ms > 3 * LAG_MS
    assert lead.shrink() is None


def test_stuck_follower_leaves_once() -> None:  # 75
    lead = Lead()
    lead.append()
    lead.now_ms = LAG_MS
    lead.fetch(TWO, 1)
    early = lead.shrink()

    lead.now_ms = LAG_MS + 1
    change = made(lead.shrink())

    assert early is None
    assert change.isr == (IsrMember(ONE, 100), IsrMember(TWO, 200))
    assert lead.shrink() is None
    lead.agree(change)
    assert lead.shrink() is None
    assert lead.machine.committed == (ONE, TWO)


def test_all_that_lag_leave_together() -> None:
    lead = Lead()
    lead.append()
    lead.now_ms = LAG_MS + 1

    assert [each.broker_id for each in made(lead.shrink()).isr] == [ONE]


def test_silent_follower_that_has_everything_stays() -> None:
    lead = Lead(isr=(ONE, TWO))
    lead.append()
    lead.fetch(TWO, 1)
    lead.now_ms = 10 * LAG_MS

    assert lead.shrink() is None


def test_member_that_has_never_fetched_is_named_without_its_epoch() -> None:
    lead = Lead(isr=(ONE, TWO, THREE))
    lead.fetch(THREE, 0)
    lead.append()
    lead.now_ms = LAG_MS + 1
    lead.machine.followers[TWO].last_caught_up_ms = lead.now_ms

    assert made(lead.shrink()).isr == (IsrMember(ONE, 100), IsrMember(TWO, -1))


# -- committing -----------------------------------------------------------------------------------


def test_member_that_is_being_dropped_is_waited_for() -> None:  # 76
    lead = Lead(isr=(ONE, TWO))
    lead.append()
    lead.now_ms = LAG_MS + 1
    change = made(lead.shrink())
    lead.append()

    assert lead.high_watermark == 0
    lead.agree(change)
    assert lead.high_watermark == 2


def test_newcomer_is_waited_for_before_it_is_a_member() -> None:  # 76
    lead = Lead(isr=(ONE,), end=1, high_watermark=1)
    made(lead.fetch(TWO, 1))
    lead.now_ms = LAG_MS * 2  # Not because it was caught up of late.
    lead.append()

    assert lead.machine.maximal == (ONE, TWO)
    assert lead.high_watermark == 1


def test_follower_that_may_join_is_waited_for_while_it_is_caught_up() -> None:
    lead = Lead(isr=(ONE,), end=1, high_watermark=1, epoch_start=2)
    assert lead.fetch(TWO, 1) is None, "it is below the epoch's start"
    lead.append()
    waits = lead.high_watermark

    lead.now_ms = LAG_MS + 1
    lead.append()

    assert waits == 1
    assert lead.high_watermark == 3


def test_follower_that_may_not_join_is_not_waited_for() -> None:
    lead = Lead(isr=(ONE,), brokers={ONE: registered(ONE), TWO: registered(TWO, fenced=True)})
    lead.fetch(TWO, 0)
    lead.append()

    assert lead.high_watermark == 1


def test_replica_outside_the_isr_of_a_new_leader_is_not_waited_for() -> None:
    lead = Lead(isr=(ONE, TWO))
    lead.append()
    lead.fetch(TWO, 1)

    assert lead.high_watermark == 1, "nothing is known of broker 3"


# -- answers --------------------------------------------------------------------------------------


def test_news_end_a_proposal_and_its_late_answer_says_nothing() -> None:  # 77
    lead = Lead(isr=(ONE,))
    change = made(lead.fetch(TWO, 0))

    lead.news((ONE, TWO), partition_epoch=1)

    assert lead.machine.pending is None
    assert lead.agree(change) is IsrOutcome.OUTDATED
    assert lead.machine.refused(change, ErrorCode.INELIGIBLE_REPLICA) is IsrOutcome.OUTDATED
    assert lead.machine.committed == (ONE, TWO)


def test_news_that_the_answer_has_told_already_leave_the_next_proposal_alone() -> None:
    """The controller may have agreed to that one, too: its newcomer is waited for."""
    lead = Lead(isr=(ONE,))
    lead.agree(made(lead.fetch(TWO, 0)))
    change = made(lead.fetch(THREE, 0))

    lead.news((ONE, TWO), partition_epoch=1)

    assert lead.machine.pending is change
    assert lead.machine.maximal == (ONE, TWO, THREE)


def test_agreement_without_a_change_ends_the_proposal_too() -> None:
    lead = Lead(isr=(ONE,))
    change = made(lead.fetch(TWO, 0))

    assert lead.agree(change, partition_epoch=0) is IsrOutcome.CHANGED
    assert lead.machine.pending is None


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(1, 9), (0, -1)])
def test_agreement_from_another_state_waits_for_metadata(
    leader_epoch: int, partition_epoch: int
) -> None:
    lead = Lead(isr=(ONE,))
    change = made(lead.fetch(TWO, 0))

    outcome = lead.machine.agreed(
        change, (ONE, TWO), leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )

    assert outcome is IsrOutcome.AWAITS_METADATA
    assert lead.machine.pending is change


@pytest.mark.parametrize(
    ("code", "outcome", "stays"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, IsrOutcome.REFUSED, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, IsrOutcome.REFUSED, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, IsrOutcome.AWAITS_METADATA, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, IsrOutcome.AWAITS_METADATA, True),
        (ErrorCode.FENCED_LEADER_EPOCH, IsrOutcome.AWAITS_METADATA, True),
        (ErrorCode.INVALID_UPDATE_VERSION, IsrOutcome.AWAITS_METADATA, True),
        (ErrorCode.INVALID_REQUEST, IsrOutcome.AWAITS_METADATA, True),
        (ErrorCode.NEW_LEADER_ELECTED, IsrOutcome.AWAITS_METADATA, True),
        (ErrorCode.NOT_CONTROLLER, IsrOutcome.RETRY, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, IsrOutcome.RETRY, True),
    ],
)
def test_what_each_error_means(  # 59, 60, 77
    code: ErrorCode, outcome: IsrOutcome, stays: bool
) -> None:
    lead = Lead(isr=(ONE,))
    change = made(lead.fetch(TWO, 0))

    assert lead.machine.refused(change, code) is outcome
    assert (lead.machine.pending is change) is stays
    assert (TWO in lead.machine.maximal) is stays


# -- metadata -------------------------------------------------------------------------------------


def test_new_epoch_of_the_same_leader_keeps_positions_and_gives_members_their_time() -> None:  # 86
    lead = Lead(isr=(ONE, TWO))
    lead.append(3)
    lead.fetch(TWO, 2)
    lead.fetch(THREE, 1)
    lead.now_ms = 10 * LAG_MS

    lead.news((ONE, TWO), leader_epoch=1, partition_epoch=1)

    second, third = lead.machine.followers[TWO], lead.machine.followers[THREE]
    assert (second.end_offset, third.end_offset) == (2, 1)
    assert second.broker_epoch == 200
    assert lead.shrink() is None
    assert not third.is_caught_up(lead.end, lead.now_ms, LAG_MS)


def test_unassigned_replica_is_forgotten() -> None:
    lead = Lead(isr=(ONE, TWO))
    lead.fetch(THREE, 0)

    state = led_by(ONE, 0, (ONE, TWO), replicas=(ONE, TWO), partition_epoch=1)
    lead.machine.assume(state, leader_end_offset=0, now_ms=0)
    again = led_by(ONE, 0, (ONE, TWO), replicas=(ONE, TWO, THREE), partition_epoch=2)
    lead.machine.assume(again, leader_end_offset=0, now_ms=0)

    assert lead.machine.followers[THREE].end_offset == NO_OFFSET


def test_low_watermark_counts_live_brokers() -> None:
    lead = Lead()
    lead.machine.followers[TWO].log_start_offset = 4
    lead.machine.followers[THREE].log_start_offset = 2

    everyone = lead.machine.low_watermark(9)
    lead.brokers[THREE] = registered(THREE, fenced=True)

    assert (everyone, lead.machine.low_watermark(9), lead.machine.low_watermark(1)) == (2, 4, 1)
