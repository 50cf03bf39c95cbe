"""Every operation of a log, in any order, next to a list of batches that gets the same operations.

After every step the log holds what the list holds, its offsets and producers are the list's, and
its indexes agree with its files. Kills and power losses are steps like any other.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledgerstone.errors import InvalidProducerEpoch, OffsetOutOfRange, OutOfOrderSequence
from ledgerstone.records.batch import BatchHeader, increment_sequence, iter_headers, read_header
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_reader import FetchIsolation, offset_for_timestamp, read, visible_end
from ledgerstone.types import INT64_MAX, AbortedTxn
from tests.kit.log_checks import batches_of, check_log
from tests.kit.log_model import (
    History,
    ModelSegment,
    first_at_or_after,
    replay,
    segments_to_delete,
)
from tests.kit.logs import T0, batch, unlink_due
from tests.kit.machines import Machine
from tests.kit.sized import examples

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
PAIRS = st.lists(
    st.tuples(KEYS, st.sampled_from(["v", "longer value", None])), min_size=1, max_size=3
)
IDEMPOTENT = st.sampled_from([1, 2])
TRANSACTIONAL = st.sampled_from([3, 4])
CONFIGS = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([260, 500]),
    segment_ms=st.sampled_from([5_000, 604_800_000]),
    segment_jitter_ms=st.sampled_from([0, 2_000]),
    index_interval_bytes=st.sampled_from([0, 100]),
    preallocate=st.booleans(),
    flush_messages=st.sampled_from([1, 5, INT64_MAX]),
    retention_bytes=st.sampled_from([-1, 300]),
    retention_ms=st.sampled_from([-1, 20_000]),
)


class LogMachine(RuleBasedStateMachine):
    """`machine.ledger` keeps the batches; the rest of the model is here."""

    @initialize(config=CONFIGS, seed=st.integers(0, 10_000))
    def start(self, config: LogConfig, seed: int) -> None:
        clock = VirtualClock(start_ms=T0)
        fs = SimFilesystem(dice=SeededDice(seed), clock=clock)
        self.machine = Machine(config=config, clock=clock, fs=fs)
        self.machine.start()
        self.end_offset = 0
        self.log_start_offset = 0
        self.high_watermark = 0
        # Every batch that still counts for its producer, also those that retention has taken.
        self.past: list[bytes] = []
        # Below it the log learned its producers from a snapshot or a replay, not batch by batch.
        self.reloaded_at = 0
        self.checkpointed_start = 0
        self.leader_epoch = 0

    @property
    def log(self) -> PartitionLog:
        return self.machine.log

    @property
    def batches(self) -> list[bytes]:
        return self.machine.ledger.batches

    def history(self) -> History:
        return replay(self.past)

    # -- append -------------------------------------------------------------------------------

    def appended(self, data: bytearray, origin: Origin = Origin.CLIENT) -> None:
        self.machine.leader_epoch = self.leader_epoch
        result = self.machine.append(data, origin=origin)

        header = read_header(self.batches[-1])
        assert not result.duplicate
        assert (result.first_offset, result.last_offset) == (self.end_offset, header.last_offset)
        self.past.append(self.batches[-1])
        self.end_offset = header.next_offset

    @rule(pairs=PAIRS, age_ms=st.integers(0, 3_000))
    def append(self, pairs: list[tuple[str, str | None]], age_ms: int) -> None:
        self.appended(batch(*pairs, timestamp=self.machine.clock.now_ms() - age_ms))

    @rule(pairs=PAIRS, producer_id=IDEMPOTENT, new_epoch=st.booleans())
    def append_idempotently(
        self, pairs: list[tuple[str, str | None]], producer_id: int, new_epoch: bool
    ) -> None:
        self.appended(self.produced(pairs, producer_id, new_epoch=new_epoch))

    @rule(pairs=PAIRS, producer_id=TRANSACTIONAL)
    def append_in_a_transaction(
        self, pairs: list[tuple[str, str | None]], producer_id: int
    ) -> None:
        self.appended(self.produced(pairs, producer_id, transactional=True))

    def produced(
        self,
        pairs: list[tuple[str, str | None]],
        producer_id: int,
        *,
        new_epoch: bool = False,
        gap: int = 0,
        transactional: bool = False,
    ) -> bytearray:
        producer = self.history().producers.get(producer_id)
        epoch = producer.epoch if producer else 0
        last = producer.batches[-1].last_sequence if producer and producer.batches else -1
        if new_epoch:
            epoch, last = epoch + 1, -1
        return batch(
            *pairs,
            timestamp=self.machine.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=increment_sequence(last, 1 + gap),
            transactional=transactional,
        )

    @rule(producer_id=TRANSACTIONAL, commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        producer = self.history().producers.get(producer_id)
        marker = end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=producer.epoch if producer else 0,
            coordinator_epoch=max(producer.coordinator_epoch, 0) if producer else 0,
            timestamp=self.machine.clock.now_ms(),
        )
        self.appended(marker, Origin.COORDINATOR)

    @rule(producer_id=st.one_of(IDEMPOTENT, TRANSACTIONAL), back=st.integers(1, 5))
    def send_again(self, producer_id: int, back: int) -> None:
        """A retry of one of the last five batches is answered with where the first one landed."""
        producer = self.history().producers.get(producer_id)
        if producer is None or len(producer.batches) < back:
            return
        first = producer.batches[-back]
        data = batch(
            *[("a", "again")] * (first.last_offset_delta + 1),
            timestamp=self.machine.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            base_sequence=first.base_sequence,
            transactional=first.is_transactional,
        )
        try:
            result = self.log.append_as_leader(data, leader_epoch=self.leader_epoch)
        except OutOfOrderSequence:
            # Only the newest batch of a producer is in a snapshot.
            assert back > 1
            assert first.base_offset < self.reloaded_at
        else:
            assert result.duplicate
            assert (result.first_offset, result.last_offset) == (
                first.base_offset,
                first.last_offset,
            )

    @rule(pairs=PAIRS, producer_id=IDEMPOTENT)
    def skip_a_sequence(self, pairs: list[tuple[str, str | None]], producer_id: int) -> None:
        if producer_id in self.history().producers:
            with pytest.raises(OutOfOrderSequence):
                self.log.append_as_leader(
                    self.produced(pairs, producer_id, gap=4), leader_epoch=self.leader_epoch
                )

    @rule(pairs=PAIRS, producer_id=IDEMPOTENT)
    def come_back_with_an_old_epoch(
        self, pairs: list[tuple[str, str | None]], producer_id: int
    ) -> None:
        producer = self.history().producers.get(producer_id)
        if producer is not None and producer.epoch > 0:
            data = batch(
                *pairs,
                timestamp=self.machine.clock.now_ms(),
                producer_id=producer_id,
                producer_epoch=producer.epoch - 1,
                base_sequence=0,
            )
            with pytest.raises(InvalidProducerEpoch):
                self.log.append_as_leader(data, leader_epoch=self.leader_epoch)

    @rule(gaps=st.lists(st.integers(0, 4), min_size=1, max_size=3), pairs=PAIRS)
    def replicate(self, gaps: list[int], pairs: list[tuple[str, str | None]]) -> None:
        """What a follower is sent from a compacted leader: several batches, with holes between."""
        offset = self.end_offset
        sent = []
        for gap in gaps:
            one = batch(
                *pairs,
                timestamp=self.machine.clock.now_ms(),
                base_offset=offset + gap,
                leader_epoch=self.leader_epoch,
            )
            sent.append(bytes(one))
            offset = read_header(one).next_offset

        result = self.log.append_as_follower(b"".join(sent))

        assert result.last_offset == offset - 1
        self.batches.extend(sent)
        self.past.extend(sent)
        self.end_offset = offset

    @rule()
    def lead_anew(self) -> None:
        self.leader_epoch += 1

    # -- time, offsets, files -----------------------------------------------------------------

    @rule(offset=st.integers(0, 60))
    def advance_high_watermark(self, offset: int) -> None:
        self.log.advance_high_watermark(offset)

        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))

    @rule()
    def replicate_everything(self) -> None:
        self.log.advance_high_watermark(self.end_offset)

        self.high_watermark = self.end_offset

    @rule(ms=st.integers(1, 30_000))
    def wait(self, ms: int) -> None:
        self.machine.clock.advance(ms=ms)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

        assert self.log.recovery_point == self.end_offset

    @rule()
    def write_checkpoints(self) -> None:
        self.machine.log_dir.checkpoint()

        self.checkpointed_start = self.log_start_offset

    @rule()
    def unlink_what_is_due(self) -> None:
        unlink_due(self.machine.log_dir)

    # -- read ---------------------------------------------------------------------------------

    @rule(
        at=st.integers(-1, 60),
        max_bytes=st.sampled_from([1, 100, 250, 10_000]),
        isolation=st.sampled_from(FetchIsolation),
    )
    def read(self, at: int, max_bytes: int, isolation: FetchIsolation) -> None:
        offset = self.log_start_offset + at
        if not self.log_start_offset <= offset <= self.end_offset:
            with pytest.raises(OffsetOutOfRange):
                read(self.log, offset, max_bytes=max_bytes, isolation=isolation)
            return

        result = read(self.log, offset, max_bytes=max_bytes, isolation=isolation)

        limit = visible_end(self.log, isolation)
        # Batches are served whole or not at all, so the last one must begin below the limit.
        visible = [
            one
            for one in self.batches
            if read_header(one).last_offset >= offset and read_header(one).base_offset < limit
        ]
        if offset >= limit or not visible:
            assert result.slice is None
            return
        assert result.slice is not None
        content = result.slice.read()
        headers = [header for _, header in iter_headers(content)]
        assert b"".join(visible).startswith(content)
        assert len(headers) >= 1
        assert sum(header.size for header in headers) == len(content)
        assert len(content) <= max(max_bytes, headers[0].size)
        if isolation is FetchIsolation.TXN_COMMITTED:
            self.check_aborted(result.aborted, offset, headers)

    def check_aborted(
        self, found: tuple[AbortedTxn, ...], offset: int, headers: list[BatchHeader]
    ) -> None:
        """All that touch the slice must be named; a few that end further on may be."""
        markers = {read_header(one).base_offset for one in self.batches}
        aborted = [
            txn for txn in self.history().txns if txn.aborted and txn.marker_offset in markers
        ]
        known = [AbortedTxn(txn.producer_id, txn.first_offset) for txn in aborted]
        needed = [
            AbortedTxn(txn.producer_id, txn.first_offset)
            for txn in aborted
            if txn.marker_offset >= offset and txn.first_offset <= headers[-1].last_offset
        ]
        assert len(set(found)) == len(found)
        assert set(needed) <= set(found) <= set(known), (needed, found, known)

    @rule(back_ms=st.integers(-1, 40_000))
    def find_by_timestamp(self, back_ms: int) -> None:
        timestamp = self.machine.clock.now_ms() - back_ms

        found = offset_for_timestamp(self.log, timestamp)

        assert found == first_at_or_after(self.batches, timestamp, self.log_start_offset)

    # -- shrink -------------------------------------------------------------------------------

    @rule(by=st.integers(1, 20))
    def delete_records(self, by: int) -> None:
        offset = self.log_start_offset + by
        if offset > self.high_watermark:
            with pytest.raises(OffsetOutOfRange):
                self.log.raise_log_start_offset(offset)
            return

        self.machine.delete_records(offset)

        self.log_start_offset = self.checkpointed_start = offset

    @rule()
    def delete_old_segments(self) -> None:
        segments = self.model_segments()
        config = self.machine.config
        count = segments_to_delete(
            segments,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            retention_bytes=config.retention_bytes,
            retention_ms=config.retention_ms,
            now_ms=self.machine.clock.now_ms(),
        )

        self.machine.delete_old_segments()

        first = segments[count].base_offset if count < len(segments) else self.end_offset
        assert self.log.segments.first.base_offset == first
        if count:
            self.log_start_offset = max(self.log_start_offset, first)

    def model_segments(self) -> list[ModelSegment]:
        bases = [
            *self.log.segments.bases(),
            max(self.end_offset, self.log.segments.active.base_offset),
        ]
        found = []
        for segment, start, end in zip(self.log.segments, bases, bases[1:], strict=False):
            headers = [read_header(one) for one in self.batches]
            # The last segment ends with the log; a batch lies where its base offset says.
            inside = [header for header in headers if start <= header.base_offset < end]
            newest = max((header.max_timestamp for header in inside), default=-1)
            found.append(
                ModelSegment(
                    start,
                    end,
                    sum(header.size for header in inside),
                    newest if newest >= 0 else segment.largest_timestamp,
                )
            )
        return found

    @rule(back=st.integers(-1, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.end_offset - back, 0)
        first = self.log.segments.first.base_offset

        self.machine.truncate_to(offset)

        if offset >= self.end_offset:
            return
        self.past = [one for one in self.past if read_header(one).last_offset < offset]
        if offset < first:
            self.past = []
            self.ends_at(offset)
            return
        # Where the data ends: a batch that holds the offset goes whole.
        last = self.log.segments.active.base_offset
        assert last <= offset
        for one in self.batches:
            if read_header(one).last_offset < offset:
                last = max(last, read_header(one).next_offset)
        self.ends_at(last)

    @precondition(lambda self: len(self.batches) > 4)
    @rule(offset=st.integers(0, 80))
    def start_anew(self, offset: int) -> None:
        self.machine.start_anew_at(offset)

        self.past = []
        self.log_start_offset = offset
        self.ends_at(offset)
        self.high_watermark = offset

    def ends_at(self, offset: int) -> None:
        self.end_offset = offset
        self.log_start_offset = self.checkpointed_start = min(self.log_start_offset, offset)
        self.high_watermark = max(min(self.high_watermark, offset), self.log_start_offset)
        self.machine.ledger.log_start_offset = self.log_start_offset
        self.reloaded()

    @precondition(lambda self: len(self.log.segments) > 1)
    @rule(first=st.integers(0, 5), count=st.integers(1, 3), keep_tail=st.booleans())
    def compact(self, first: int, count: int, keep_tail: bool) -> None:
        sealed = len(self.log.segments) - 1
        first %= sealed

        self.machine.swap(
            first, min(count, sealed - first), drop_tombstones=False, keep_tail=keep_tail
        )

    # -- ends and beginnings ------------------------------------------------------------------

    def reloaded(self) -> None:
        """What a log no longer knows of its producers once it has read them from its files."""
        self.reloaded_at = self.end_offset
        if self.log.producers.entries() != self.history().entries():
            # No snapshot reaches back as far as memory did: only what is readable was replayed.
            self.past = [
                one for one in self.batches if read_header(one).last_offset >= self.log_start_offset
            ]

    @rule()
    def stop_and_start(self) -> None:
        epochs = self.log.epochs.entries()

        self.machine.stop()
        self.machine.start()

        assert self.machine.log_dir.remembered.clean
        if self.log_start_offset < self.log.log_end_offset == self.end_offset:
            # An empty log forgets the epoch that would begin at its end.
            assert self.log.epochs.entries() == epochs
        # A truncation in the middle of a batch ends the log there, until it is opened again.
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        assert self.log.log_start_offset == self.log_start_offset
        self.checkpointed_start = self.log_start_offset
        self.begun_again(power_lost=False)
        assert self.log.recovery_point == self.end_offset

    @rule()
    def be_killed_and_start(self) -> None:
        self.machine.ledger.acked = self.end_offset

        self.die(self.machine.kill, power_lost=False)

    @rule(mode=st.sampled_from(["none", "all", "random"]))
    def lose_power_and_start(self, mode: PowerLoss) -> None:
        self.die(lambda: self.machine.lose_power(mode), power_lost=True)

    def die(self, death: Callable[[], None], *, power_lost: bool) -> None:
        before = self.log.log_start_offset

        death()
        self.machine.start()

        assert self.checkpointed_start <= self.log.log_start_offset <= before
        assert self.log.high_watermark <= self.high_watermark
        self.log_start_offset = self.log.log_start_offset
        self.high_watermark = self.log.high_watermark
        self.begun_again(power_lost=power_lost)

    def begun_again(self, *, power_lost: bool) -> None:
        content = batches_of(self.log)
        ledger = self.machine.ledger
        # A log that ends below its checkpointed start restarts there: nothing was readable.
        unreadable = [
            one for one in ledger.batches if read_header(one).last_offset < self.checkpointed_start
        ]
        ledger.may_be_gone = len(unreadable)
        ledger.verify(content, power_lost=power_lost)
        ledger.may_be_gone = 0
        ledger.batches = content
        last = read_header(content[-1]).next_offset if content else 0
        assert last <= self.log.log_end_offset <= self.end_offset
        self.end_offset = self.log.log_end_offset
        self.past = [one for one in self.past if read_header(one).last_offset < self.end_offset]
        self.reloaded()

    # -- always -------------------------------------------------------------------------------

    @invariant()
    def everything_agrees(self) -> None:
        log, ledger = self.log, self.machine.ledger
        check_log(log)
        assert batches_of(log) == ledger.batches
        assert log.size_bytes == sum(len(one) for one in ledger.batches)
        assert log.log_end_offset == self.end_offset
        assert log.log_start_offset == self.log_start_offset
        assert log.high_watermark == self.high_watermark
        ledger.acked, ledger.durable = self.end_offset, log.recovery_point

    @invariant()
    def producers_agree(self) -> None:
        history = self.history()
        assert self.log.producers.entries() == history.entries()
        lowest = history.last_stable_offset(self.high_watermark)
        highest = history.last_stable_offset(self.high_watermark, decided_from=self.reloaded_at)
        start = self.log_start_offset
        assert max(lowest, start) <= self.log.last_stable_offset <= max(highest, start)


def run(chosen: settings, *, steps: int) -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            chosen, stateful_step_count=steps, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_log_is_a_list_of_batches_whatever_happens_to_it() -> None:
    run(examples(60), steps=40)


@pytest.mark.slow
def test_a_log_is_a_list_of_batches_whatever_happens_to_it_for_long() -> None:
    run(settings(max_examples=2_000), steps=80)
