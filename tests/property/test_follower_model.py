"""A follower with a real log beside a leader in a list, through everything that happens to both.

Leaders change, cleanly or not; logs are cut at either end; the follower is killed and starts again;
answers are lost, late, or errors. Whenever things calm down, the follower has what the leader has.
Under clean elections it never cuts below its high watermark.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.replication.fetching.fetcher import ReplicaFetcher
from tests.kit.followers import SETTINGS, TP, FollowerBench, stored
from tests.kit.sized import examples

# Batches of a test have some hundred bytes: the leader cuts answers in the middle of one.
SMALL_ANSWERS = SETTINGS._replace(partition_max_bytes=500)
REFUSALS = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


class FollowerModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = FollowerBench(settings=SMALL_ANSWERS)
        self.epoch = 0
        self.told_epoch = 0
        self.is_clean = True
        self.late: ApiMessage | None = None
        # The follower has all that is committed: what an election among the ISR asks for.
        self.seen_high_watermark = 0

    # -- the leader -----------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), commits=st.booleans())
    def append(self, count: int, commits: bool) -> None:
        self.bench.leading.append(count, commits=commits)

    @rule(commits=st.booleans())
    def append_many(self, commits: bool) -> None:
        for _ in range(4):
            self.bench.leading.append(3, commits=commits)

    @rule()
    def commit(self) -> None:
        self.bench.leading.high_watermark = self.bench.leading.end_offset

    @rule(data=st.data())
    def elect_cleanly(self, data: st.DataObject) -> None:
        """Another broker of the ISR: it has everything that is committed."""
        log = self.bench.leading
        self._lead_next(data.draw(st.integers(log.high_watermark, log.end_offset)))

    @rule(data=st.data())
    def elect_uncleanly(self, data: st.DataObject) -> None:
        log = self.bench.leading
        keeps = data.draw(st.integers(log.start_offset, log.end_offset))
        if keeps < max(log.high_watermark, self.bench.log.high_watermark):
            self.is_clean = False
        self._lead_next(keeps)

    def _lead_next(self, keeps: int) -> None:
        log = self.bench.leading
        high_watermark = log.high_watermark
        self.epoch += 1
        log.lead_next(self.epoch, keeps=keeps)
        log.high_watermark = min(high_watermark, log.end_offset)
        self.bench.leader.lose_sessions()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        log = self.bench.leading
        log.delete_before(data.draw(st.integers(log.start_offset, log.high_watermark)))

    @rule(code=st.sampled_from(REFUSALS))
    def refuse(self, code: ErrorCode) -> None:
        self.bench.leading.errors.append(code)

    @rule()
    def lose_sessions(self) -> None:
        self.bench.leader.lose_sessions()

    # -- the follower ---------------------------------------------------------------------------

    @rule(steps=st.integers(1, 4))
    def fetch(self, steps: int) -> None:
        for _ in range(steps):
            if not self.bench.fetcher.is_in_flight:
                self.bench.step()

    @precondition(lambda self: not self.bench.fetcher.is_in_flight)
    @rule()
    def ask_only(self) -> None:
        request = self.bench.ask()
        self.late = None if request is None else self.bench.leader.answer(request)

    @precondition(lambda self: self.bench.fetcher.is_in_flight and self.late is not None)
    @rule()
    def answer_late(self) -> None:
        assert self.late is not None
        self.bench.give(self.late)
        self.late = None

    @precondition(lambda self: self.bench.fetcher.is_in_flight)
    @rule()
    def break_connection(self) -> None:
        self.bench.lose()
        self.late = None

    @rule(ms=st.integers(0, 1500))
    def wait(self, ms: int) -> None:
        self.bench.now_ms += ms

    @rule()
    def learn_metadata(self) -> None:
        if self.told_epoch != self.epoch:
            self.told_epoch = self.epoch
            self.bench.follow(self.epoch)

    @rule()
    def restart(self) -> None:
        self.bench.disk.log_dir.checkpoint()
        self.late = None
        self.told_epoch = self.epoch
        self.bench.restart(self.epoch)

    @rule()
    def move_to_another_fetcher(self) -> None:
        """What the former one has asked for is answered in vain."""
        other = ReplicaFetcher(SMALL_ANSWERS)
        other.adopt(self.bench.fetcher)
        self.bench.fetcher, self.late = other, None

    # -- what holds -----------------------------------------------------------------------------

    @invariant()
    def log_is_sound(self) -> None:
        self.bench.log.check_invariants()
        self.bench.fetcher.check_invariants()
        assert list(self.bench.fetcher.failed.values()) == [
            each for each in self.bench.fetcher.failed.values() if each.startswith("leader epoch")
        ]

    @invariant()
    def nothing_committed_is_cut(self) -> None:
        if self.is_clean:
            assert self.bench.log.high_watermark >= self.seen_high_watermark
        self.seen_high_watermark = self.bench.log.high_watermark

    def teardown(self) -> None:
        bench, leading = self.bench, self.bench.leading
        leading.errors.clear()
        if bench.fetcher.is_in_flight:
            bench.lose()
        self.learn_metadata()
        for _ in range(2 * len(leading.written) + 4 * len(leading.epochs) + 20):
            bench.now_ms += SETTINGS.backoff_ms
            bench.step()
        log = bench.log
        assert log.log_end_offset == leading.end_offset
        assert log.log_start_offset == leading.start_offset
        assert log.high_watermark >= leading.high_watermark
        theirs = [each.data for each in leading.written]
        ours = stored(log)
        assert ours[len(ours) - len(theirs) :] == theirs
        known = log.epochs.entries()
        assert all(leading.epochs.get(epoch) == start for epoch, start in known[1:]), known
        assert bench.fetcher.failed == {}
        assert TP in bench.partitions


FollowerModel.TestCase.settings = settings(
    examples(60),
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
TestFollower = FollowerModel.TestCase
