"""Any life of some brokers under changing controllers, against a twin made of plain dicts.

The twin knows the state table of heartbeats and the rules of sessions, and nothing of records,
partitions or images: a leader is what it is told.
"""

from dataclasses import dataclass
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationRequest,
)
from ledgerstone.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.kit.sized import examples
from tests.unit.metadata.cluster import Cluster, a_topic

SESSION_MS: Final = 9_000
BROKERS: Final = (1, 2, 3)


@dataclass(slots=True)
class _Twin:
    """One registration, as the twin sees it."""

    epoch: int
    life: int
    registered_at: int  # The offset of its record, or a bound above it.
    fenced: bool = True
    leaving: bool = False
    heard_ms: int | None = None
    applied: int = -1
    leaves_at: int | None = None

    def is_live(self, now_ms: int) -> bool:
        return self.heard_ms is not None and now_ms - self.heard_ms <= SESSION_MS

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.leaving


ids = st.sampled_from(BROKERS)
Wishes = tuple[bool, bool]  # To be fenced, to stop.
# Most of them ask for nothing.
WISHES: Final[list[Wishes]] = [
    (False, False), (False, False), (False, True), (False, True), (True, False), (True, True),
]  # fmt: skip


class BrokerLives(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.cluster = Cluster("node.id=100", brokers=0)
        self.cluster.lead()
        self.twins: dict[int, _Twin] = {}
        for broker_id in BROKERS:
            self.register(broker_id, 1)
            self.heartbeat(broker_id, 0, 0, (False, False))
        self.cluster.create(a_topic("t", partitions=3, factor=2))

    def _leads(self, broker_id: int) -> bool:
        return any(
            partition.leader == broker_id
            for topic in self.cluster.image.topics.values()
            for partition in topic.partitions.values()
        )

    @rule(broker_id=ids, life=st.integers(1, 3))
    def register(self, broker_id: int, life: int) -> None:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="cluster",
            incarnation_id=bytes([broker_id, life] * 8),
            features=[
                BrokerRegistrationFeature(name, first, last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[bytes([broker_id] * 16)],
        )
        before, offset = self.twins.get(broker_id), len(self.cluster.log)
        response = self.cluster.ask(request)
        if before is not None and before.life != life and before.is_live(self.cluster.now_ms):
            assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            return
        assert response.error_code == 0
        end = len(self.cluster.log) - 1
        if before is not None and before.life == life:
            before.registered_at = end
        else:
            self.twins[broker_id] = _Twin(offset, life, end)
        assert response.broker_epoch == self.twins[broker_id].epoch

    @rule(
        broker_id=ids,
        stale=st.sampled_from([0] * 9 + [1]),
        behind=st.sampled_from([0, 0, 0, 1, 2, 5]),
        wishes=st.sampled_from(WISHES),
    )
    def heartbeat(self, broker_id: int, stale: int, behind: int, wishes: Wishes) -> None:
        fence, stop = wishes
        twin = self.twins.get(broker_id)
        epoch = 5 if twin is None else twin.epoch - stale
        applied = len(self.cluster.log) - 1 - behind
        next_offset = len(self.cluster.log)
        leads = self._leads(broker_id)
        request = BrokerHeartbeatRequest(broker_id, epoch, applied, fence, stop)
        response = self.cluster.ask(request)
        if twin is None or stale:
            assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
            assert len(self.cluster.log) == next_offset
            return
        twin.heard_ms = self.cluster.now_ms
        is_caught_up = applied >= twin.registered_at
        fenced, stopped, leaving = self._next(twin, fence, stop, is_caught_up, leads)
        if leaving and twin.leaves_at is None:
            twin.leaving = True
            twin.leaves_at = len(self.cluster.log) - 1
        if fenced:
            twin.leaves_at = None
        twin.fenced, twin.applied = fenced, applied
        if stopped:
            twin.heard_ms = None
        assert response.error_code == 0
        assert (response.is_fenced, response.should_shut_down) == (fenced, stopped)
        assert response.is_caught_up == is_caught_up

    def _next(
        self, twin: _Twin, fence: bool, stop: bool, is_caught_up: bool, leads: bool
    ) -> tuple[bool, bool, bool]:
        """Fenced, told to stop, in controlled shutdown."""
        if twin.fenced:
            stays = fence or not is_caught_up or twin.leaving
            return True if stop else stays, stop, False
        if twin.leaves_at is not None:
            lowest = min(
                (each.applied for each in self.twins.values() if each.is_active), default=10**9
            )
            done = not leads and lowest >= twin.leaves_at
            return done, done, not done
        if fence:
            return True, stop, False
        if stop:
            return not leads, not leads, leads
        return False, False, False

    @rule(elapsed_ms=st.sampled_from([1, 100, 2_000, 4_500, 9_001]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.cluster.now_ms += elapsed_ms
        silent = [each for each in self.twins.values() if each.heard_ms is not None]
        silent = [each for each in silent if not each.is_live(self.cluster.now_ms)]
        count = self.cluster.act_on_time()
        assert count == sum(not each.fenced for each in silent)
        for each in silent:
            each.heard_ms, each.leaves_at, each.fenced = None, None, True

    @rule()
    def controller_fails_over(self) -> None:
        self.cluster.fail_over()
        end = len(self.cluster.log) - 1
        for each in self.twins.values():
            each.registered_at, each.applied = end, -1
            each.heard_ms = None if each.fenced else self.cluster.now_ms
            each.leaves_at = end if each.leaving and not each.fenced else None

    @rule(broker_id=ids)
    def unregister(self, broker_id: int) -> None:
        response = self.cluster.ask(UnregisterBrokerRequest(broker_id=broker_id))
        known = self.twins.pop(broker_id, None) is not None
        assert response.error_code == (0 if known else ErrorCode.BROKER_ID_NOT_REGISTERED)

    @rule(name=st.sampled_from("ab"), factor=st.integers(1, 3))
    def create_topic(self, name: str, factor: int) -> None:
        self.cluster.create(a_topic(name, partitions=2, factor=factor))

    @invariant()
    def the_image_says_what_the_twin_says(self) -> None:
        if not hasattr(self, "cluster"):
            return
        image = self.cluster.image
        assert {
            each: (broker.broker_epoch, broker.fenced, broker.in_controlled_shutdown)
            for each, broker in image.brokers.items()
        } == {each: (twin.epoch, twin.fenced, twin.leaving) for each, twin in self.twins.items()}
        active = {each for each, broker in image.brokers.items() if broker.is_active}
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                assert partition.leader == -1 or partition.leader in active
                # The last member stays, though it is gone: only it has everything.
                assert partition.leader == -1 or active.issuperset(partition.isr)
        if image.topics:
            self.cluster.controller.partitions.index.check_invariants()


TestBrokerLives = BrokerLives.TestCase
TestBrokerLives.settings = settings(examples(100), stateful_step_count=25)
