"""The transaction machine beside a plain coordinator, through crashes, refusals and slow replicas.

The plain one knows nothing of records. Where the machine's record is held back, or its markers are,
every other request for the id waits; once they go on, both must agree again, and so must a shard
that is loaded from the log.
"""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledgerstone.coordinator.transactions.memory import TransactionMemory
from ledgerstone.coordinator.transactions.metadata import TransactionMetadata
from ledgerstone.coordinator.transactions.shard import TransactionShard
from ledgerstone.coordinator.transactions.transaction_records import (
    transaction_key,
    transaction_value,
)
from ledgerstone.coordinator.transactions.turn import ProducerRef, TransactionConfig
from ledgerstone.types import NO_PRODUCER_EPOCH, TopicPartition
from tests.kit.sized import examples
from tests.oracles.plain_transactions import PlainCoordinator, PlainId
from tests.unit.coordinator.transactions.desk import EPOCHS, T0, TIMEOUT_MS, Desk

IDS = ("fresh", "worn")
# The worn id is one epoch from the end of its producer id.
WORN = TransactionMetadata(
    producer_id=7, producer_epoch=32_765, timeout_ms=TIMEOUT_MS, last_update_ms=T0
)
REFUSAL = 19
PARTITIONS = [TopicPartition("foo", 0), TopicPartition("foo", 1), TopicPartition("bar", 0)]

ids = st.sampled_from(IDS)
epoch_steps = st.sampled_from([0, 0, 0, -1, 1])


class TransactionsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(log=[(transaction_key("worn"), transaction_value(WORN, EPOCHS))])
        self.plain = PlainCoordinator(next_pid=self.desk.next_producer_id)
        self.plain.ids["worn"] = PlainId(
            pid=7, timeout=TIMEOUT_MS, epoch=WORN.producer_epoch, update=T0
        )
        self.given_out: set[tuple[str, int, int]] = set()

    # -- requests: to the machine, then to the plain one -------------------------------------

    @rule(name=ids, step=st.none() | epoch_steps, held=st.booleans(), timeout=st.integers(1, 9))
    def init(self, name: str, step: int | None, held: bool, timeout: int) -> None:
        known = self.plain.ids.get(name)
        expected = None
        if step is not None and known is not None:
            expected = (known.pid, known.epoch + step)
        self._keep_ids_equal()
        self.desk.holds = held
        self.desk.start_init(name, expected, timeout * TIMEOUT_MS // 10)
        self._go_on(name)
        reply = self.desk.take()
        wanted = self.plain.init(name, timeout * TIMEOUT_MS // 10, expected, self.desk.now_ms)
        assert tuple(reply) == wanted
        if reply.error_code == 0 and expected is None:
            started = (name, reply.producer_id, reply.producer_epoch)
            assert started not in self.given_out, "two producers with one epoch"
            self.given_out.add(started)

    @rule(
        name=ids,
        what=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3),
        pid_step=st.sampled_from([0, 0, 0, 1]),
        step=epoch_steps,
        version=st.sampled_from([0, EPOCHS]),
        held=st.booleans(),
    )
    def add(
        self,
        name: str,
        what: list[TopicPartition],
        pid_step: int,
        step: int,
        version: int,
        held: bool,
    ) -> None:
        producer = self._producer(name, pid_step, step)
        self.desk.holds = held
        self.desk.start_add(*what, producer=producer, version=version)
        self._go_on(name)
        code = self.desk.take().error_code
        partitions = [(each.topic, each.partition) for each in what]
        assert code == self.plain.add(name, *producer[1:], partitions, self.desk.now_ms)
        verified = self.desk.shard.verify_partitions(producer, what)
        if code == 0:
            assert set(verified.values()) == {0}

    @rule(
        name=ids,
        commit=st.booleans(),
        v2=st.booleans(),
        pid_step=st.sampled_from([0, 0, 0, 0, 1]),
        step=epoch_steps,
        held=st.booleans(),
        slow=st.booleans(),
    )
    def end(
        self,
        name: str,
        commit: bool,
        v2: bool,
        pid_step: int,
        step: int,
        held: bool,
        slow: bool,
    ) -> None:
        producer = self._producer(name, pid_step, step)
        self._end(name, producer, commit, v2, held, slow)

    @rule(name=ids, commit=st.booleans(), held=st.booleans(), slow=st.booleans())
    @precondition(lambda self: any(each.prev != each.pid for each in self.plain.ids.values()))
    def end_as_the_producer_before(self, name: str, commit: bool, held: bool, slow: bool) -> None:
        known = self.plain.ids.get(name)
        if known is not None:
            producer = ProducerRef(name, known.prev, 32_766)
            self._end(name, producer, commit, True, held, slow)

    def _end(
        self, name: str, producer: ProducerRef, commit: bool, v2: bool, held: bool, slow: bool
    ) -> None:
        self._keep_ids_equal()
        self.desk.holds, self.desk.writes_markers = held, not slow
        self.desk.start_end(commit=commit, producer=producer, version=EPOCHS if v2 else 0)
        self._go_on(name)
        reply = self.desk.take()
        now = self.desk.now_ms
        wanted = self.plain.end(name, *producer[1:], commit=commit, v2=v2, now=now)
        assert tuple(reply) == wanted

    @rule(name=ids, commit=st.booleans(), what=st.sampled_from(["init", "add", "end"]))
    def refused_by_the_log(self, name: str, commit: bool, what: str) -> None:
        """Nothing has happened; the plain one is not even asked."""
        before = self._looks()
        self.desk.refuses = REFUSAL
        producer = self._producer(name, 0, 0)
        if what == "init":
            self.desk.start_init(name)
        elif what == "add":
            self.desk.start_add(*PARTITIONS, producer=producer)
        else:
            self.desk.start_end(commit=commit, producer=producer, version=EPOCHS)
        self.desk.take()
        self.desk.refuses = None
        assert self._looks() == before

    # -- time and crashes ---------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 1000, TIMEOUT_MS, 86_400_000]))
    def time_passes(self, ms: int) -> None:
        self.desk.now_ms += ms

    @rule()
    def time_out(self) -> None:
        self._keep_ids_equal()
        self.desk.abort_timed_out()
        self.plain.time_out(self.desk.now_ms)

    @rule()
    def expire(self) -> None:
        found = self.desk.shard.expired(self.desk.now_ms)
        self.desk.settle(self.desk.shard.expire(found))
        self.plain.expire(self.desk.now_ms - 604_800_000)
        self.given_out = {each for each in self.given_out if each[0] not in found}

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        self.plain.forget_last_epochs()

    # -- inside -------------------------------------------------------------------------------

    def _keep_ids_equal(self) -> None:
        """The desk may draw an id that turns out not to be needed."""
        highest = max(self.desk.next_producer_id, self.plain.next_pid)
        self.desk.next_producer_id = self.plain.next_pid = highest

    def _producer(self, name: str, pid_step: int, step: int) -> ProducerRef:
        known = self.plain.ids.get(name)
        if known is None:
            return ProducerRef(name, 1, 0)
        return ProducerRef(name, known.pid + pid_step, known.epoch + step)

    def _go_on(self, name: str) -> None:
        """While a record or a marker is held back everybody waits; then they are let go."""
        desk = self.desk
        if desk.held:
            assert not desk.is_answered
            assert self._asked_meanwhile(name) == 51
            desk.release()
        desk.holds = False
        if not desk.writes_markers:
            desk.writes_markers = True
            markers = desk.shard.markers(name)
            if markers is not None:
                # What the client was told stays, whoever writes the markers now.
                assert self._asked_meanwhile(name) == 51
                desk.mark(name)

    def _asked_meanwhile(self, name: str) -> int:
        outcome = self.desk.shard.init_producer_id(
            name, TIMEOUT_MS, None, None, now_ms=self.desk.now_ms, fresh_producer_id=1
        )
        assert not outcome.changes
        (answer,) = outcome.answers
        return answer.decided.error_code

    def _looks(self) -> dict[str, tuple[object, ...]]:
        return _looks(self.desk.shard)

    @invariant()
    def both_agree(self) -> None:
        assert self._looks() == {
            name: (it.pid, it.epoch, it.state, it.partitions, it.start, it.timeout)
            for name, it in self.plain.ids.items()
        }
        ours = [
            (each.producer_id, each.producer_epoch, each.commit, tuple(sorted(each.partitions)))
            for each in self.desk.markers
        ]
        # Markers may be written twice, and nothing in them may change then.
        assert set(ours) == set(self.plain.markers)

    @invariant()
    def the_log_says_the_same(self) -> None:
        loaded = TransactionShard(self.desk.config, TransactionMemory(TransactionConfig()), EPOCHS)
        for key, value in self.desk.log:
            loaded.replay(key, value)
        ours = {each.transactional_id: each.metadata for each in self.desk.shard.table}
        theirs = {each.transactional_id: each.metadata for each in loaded.table}
        assert theirs == {
            name: replace(each, last_producer_epoch=NO_PRODUCER_EPOCH)
            for name, each in ours.items()
        }
        self.desk.shard.check_invariants()


def _looks(shard: TransactionShard) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for each in shard.table:
        it = each.metadata
        partitions = {tuple(one) for one in it.partitions}
        found[each.transactional_id] = (
            it.producer_id,
            it.producer_epoch,
            it.state.shown,
            partitions,
            it.start_ms,
            it.timeout_ms,
        )
    return found


TestTransactionsModel = TransactionsModel.TestCase
TestTransactionsModel.settings = settings(
    examples(60), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
