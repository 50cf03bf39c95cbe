"""The in-sync replicas of one partition, as its leader keeps them. Pure.

The rules are those of Kafka 4.3. The leader knows how far each follower has fetched and when it was
last caught up. It proposes to add a follower when that follower's fetch shows that it has caught
up, and to drop those that have lagged for too long. The controller decides. While a proposal is
under way, the larger of the two sets counts: a newcomer may be elected before the leader hears that
it was added, and a member that is being dropped may still be elected.
"""

import enum
from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.image import BrokerImage, PartitionImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.types import NO_OFFSET

# Before every time of a monotonic clock, also before those of one that has just been started.
NEVER_MS: Final = -(1 << 62)
ANY_BROKER_EPOCH: Final = -1

# The registration of a broker in the published metadata.
Registered = Callable[[int], BrokerImage | None]

# The controller says that the proposal was refused and that the leader knows the current state.
_REFUSED: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# The leader does not know the current state: metadata that is on its way will tell.
_BEHIND: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


@dataclass(slots=True)
class FollowerState:
    """What one follower's fetches have shown. A new leader knows nothing of it."""

    end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    # The leader's end when the latest fetch came.
    leader_end_offset: int = NO_OFFSET
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    # As its latest fetch gave it; None before the first.
    broker_epoch: int | None = None

    def fetched(
        self,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """A follower that always is one small batch behind has caught up with what there was at its
        previous fetch, so it counts as caught up at that time."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.log_start_offset = fetch_offset, log_start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def asked_again(self, now_ms: int) -> None:
        """The same fetch as before, of a log that has not grown since it was caught up."""
        self.last_fetch_ms = self.last_caught_up_ms = now_ms

    def led_in_new_epoch(self, *, leader_end_offset: int, is_in_sync: bool, now_ms: int) -> None:
        """The same leader goes on. A member of the ISR gets its full time to catch up again."""
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = self.last_caught_up_ms = now_ms if is_in_sync else NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms


class IsrMember(NamedTuple):
    """-1 as epoch: this leader has had no fetch of it, so the controller does not compare."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """A proposal to the controller. Compared by identity: a later one may look the same."""

    isr: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int
    # None: it drops members.
    joining: int | None = None


class IsrOutcome(enum.Enum):
    CHANGED = "the controller has agreed"
    REFUSED = "the committed ISR holds; a later fetch or check may propose again"
    AWAITS_METADATA = "pending until news of the partition come"
    RETRY = "to be sent again"
    OUTDATED = "the partition has moved on; the answer says nothing"


@dataclass(slots=True, kw_only=True)
class InSyncReplicas:
    """Changed by metadata (`assume`), by fetches, by proposals and by answers to them."""

    leader_id: int
    registered: Registered
    max_lag_ms: int
    committed: tuple[int, ...] = ()
    leader_epoch: int = -1
    partition_epoch: int = -1
    # Every other assigned replica.
    followers: dict[int, FollowerState] = field(default_factory=dict)
    pending: IsrChange | None = None

    @property
    def maximal(self) -> tuple[int, ...]:
        """Every replica that may be in the ISR, as far as the leader can know."""
        pending = self.pending
        if pending is None or pending.joining is None:
            return self.committed
        return (*self.committed, pending.joining)

    # -- metadata -----------------------------------------------------------------------------

    def assume(self, state: PartitionImage, *, leader_end_offset: int, now_ms: int) -> None:
        """News of the partition end a proposal, whether they are its result or not. What the
        controller has answered already is no news: a later proposal is under way by then."""
        epochs = state.leader_epoch, state.partition_epoch
        if self.pending is not None and epochs == (self.leader_epoch, self.partition_epoch):
            return
        followers = {
            each: self.followers.get(each) or FollowerState()
            for each in state.replicas
            if each != self.leader_id
        }
        is_new_leader = self.leader_epoch < 0
        if state.leader_epoch > self.leader_epoch:
            for broker_id, follower in followers.items():
                is_in_sync = broker_id in state.isr
                if not is_new_leader:
                    follower.led_in_new_epoch(
                        leader_end_offset=leader_end_offset, is_in_sync=is_in_sync, now_ms=now_ms
                    )
                elif is_in_sync:
                    follower.last_caught_up_ms = now_ms
        self.followers = followers
        self.committed, self.pending = state.isr, None
        self.leader_epoch, self.partition_epoch = state.leader_epoch, state.partition_epoch

    # -- what is committed --------------------------------------------------------------------

    def common_end(self, leader_end_offset: int, now_ms: int) -> int:
        """The end of what every replica has that may be elected, now or as soon as it has joined.

        A follower that is caught up and may join is waited for as well. Else a steady stream of
        appends could keep it from ever reaching the high watermark."""
        end = leader_end_offset
        maximal = self.maximal
        for broker_id, follower in self.followers.items():
            if follower.end_offset < end and (
                broker_id in maximal
                or (
                    follower.is_caught_up(leader_end_offset, now_ms, self.max_lag_ms)
                    and self.is_eligible(broker_id, follower)
                )
            ):
                end = follower.end_offset
        return end

    def is_eligible(self, broker_id: int, follower: FollowerState) -> bool:
        """Whether the controller would take it. The broker epoch tells a follower that has
        restarted from its former self, whose fetches may still be on their way (KIP-903)."""
        broker = self.registered(broker_id)
        if broker is None or not broker.is_active or follower.broker_epoch is None:
            return False
        return follower.broker_epoch in (ANY_BROKER_EPOCH, broker.broker_epoch)

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch is of a former life of the broker."""
        broker = self.registered(broker_id)
        if broker_epoch == ANY_BROKER_EPOCH or broker is None or broker.fenced:
            return False
        return broker_epoch < broker.broker_epoch

    def low_watermark(self, log_start_offset: int) -> int:
        """The least log start of the leader and of every replica on a live broker."""
        starts = [log_start_offset]
        for broker_id, follower in self.followers.items():
            broker = self.registered(broker_id)
            if broker is not None and not broker.fenced:
                starts.append(follower.log_start_offset)
        return min(starts)

    # -- proposals ----------------------------------------------------------------------------

    def expand(self, broker_id: int, *, high_watermark: int, epoch_start: int) -> IsrChange | None:
        """After a fetch of this follower. It must have what may be committed: also what former
        leaders committed, of which the high watermark here may not know yet."""
        if self.pending is not None or broker_id in self.committed:
            return None
        follower = self.followers[broker_id]
        if follower.end_offset < max(high_watermark, epoch_start):
            return None
        if not self.is_eligible(broker_id, follower):
            return None
        return self._propose((*self.committed, broker_id), joining=broker_id)

    def shrink(self, leader_end_offset: int, now_ms: int) -> IsrChange | None:
        """All members that have lagged for too long, in one proposal."""
        if self.pending is not None:
            return None
        lagging = self._lagging(leader_end_offset, now_ms)
        if not lagging:
            return None
        return self._propose(each for each in self.committed if each not in lagging)

    def _lagging(self, leader_end_offset: int, now_ms: int) -> Container[int]:
        return [
            each
            for each in self.committed
            if each != self.leader_id
            and not (
                each in self.followers
                and self.followers[each].is_caught_up(leader_end_offset, now_ms, self.max_lag_ms)
            )
        ]

    def _propose(self, isr: Iterable[int], joining: int | None = None) -> IsrChange:
        members = tuple(IsrMember(each, self._epoch_of(each)) for each in isr)
        self.pending = IsrChange(members, self.leader_epoch, self.partition_epoch, joining)
        return self.pending

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self.leader_id:
            own = self.registered(broker_id)
            return ANY_BROKER_EPOCH if own is None else own.broker_epoch
        follower = self.followers.get(broker_id)
        if follower is None or follower.broker_epoch is None:
            return ANY_BROKER_EPOCH
        return follower.broker_epoch

    # -- answers ------------------------------------------------------------------------------

    def agreed(
        self, change: IsrChange, isr: tuple[int, ...], *, leader_epoch: int, partition_epoch: int
    ) -> IsrOutcome:
        """The controller's answer without an error. Where the ISR was so already, the partition
        epoch is the same."""
        if self.pending is not change:
            return IsrOutcome.OUTDATED
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return IsrOutcome.AWAITS_METADATA
        self.committed, self.partition_epoch, self.pending = isr, partition_epoch, None
        return IsrOutcome.CHANGED

    def refused(self, change: IsrChange, code: int) -> IsrOutcome:
        """An error may come after the change was made, by an earlier attempt. Only some errors
        rule that out; then the committed ISR is known to hold."""
        if self.pending is not change:
            return IsrOutcome.OUTDATED
        if code in _REFUSED:
            self.pending = None
            return IsrOutcome.REFUSED
        return IsrOutcome.AWAITS_METADATA if code in _BEHIND else IsrOutcome.RETRY

    def check_invariants(self) -> None:
        assert self.leader_id not in self.followers, self
        assert self.pending is None or self.pending.partition_epoch <= self.partition_epoch, self
        assert len(set(self.maximal)) == len(self.maximal), self
