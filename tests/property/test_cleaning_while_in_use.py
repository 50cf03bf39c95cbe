"""Passes over a topic that is written and read meanwhile, through the whole machine.

A seed decides the order of everything. The worker gives way before each of its reads and between
its groups, and then somebody writes, reads on, flushes, rolls, lets time pass, or kills the broker.
The model is a list of everything that was ever acknowledged. Compared with it:

- whoever reads from the start to the end, faster than `delete.retention.ms`, knows the last value
  of every key and no deleted key, and is never stuck in a gap;
- a record is what was written under its offset, wherever it is found;
- a tombstone that nothing supersedes leaves only in a pass that came at or after its horizon, and
  the horizon is the time of the first pass that met it plus `delete.retention.ms`;
- once the clock has passed, by itself, no tombstone is left; and one more pass leaves of each key
  its last value and nothing else.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

import pytest

from ledgerstone.cleaner.cleaning_pass import run_pass
from ledgerstone.cleaner.plan import CleanedGroup, CleaningPlan, PassReport
from ledgerstone.errors import CleaningAborted
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Clean
from ledgerstone.server.results import GroupCleaned, StillAtWork
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.unit.server.asks import TOPIC, create_topic, fetch, fetched, produced
from tests.unit.server.test_cleaning import TP

RETENTION_MS: Final = 60_000
STEPS: Final = 120
KEYS: Final = "abcdefgh"
DAY_MS: Final = 86_400_000


class Killed(Exception):
    """The broker was killed while a pass was at work; so is the worker."""


class Stored(NamedTuple):
    """A record on disk, and the horizon of the batch it is in."""

    key: str
    value: str | None
    horizon_ms: int | None


@dataclass(slots=True)
class Reader:
    """Reads from the start to the end, then begins again."""

    began_ms: int
    position: int = 0
    state: dict[str, str | None] = field(default_factory=dict)


class Story:
    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.machine = InProcess(seed, {"log.cleaner.backoff.ms": "100"})
        self.client: Client = self.machine.connect()
        create_topic(
            self.client,
            TOPIC,
            1,
            cleanup_policy="compact",
            segment_bytes=str(self.dice.choice([700, 1000, 2000])),
            delete_retention_ms=str(RETENTION_MS),
            min_cleanable_dirty_ratio="0.01",
        )
        self.written: list[tuple[str, str | None]] = []
        self.reader = Reader(self.machine.clock.now_ms())
        self.whole_reads = 0
        self.passes = 0
        self.kills = 0
        self._hold()

    def _hold(self) -> None:
        self.machine.held_passes, self.machine.held_flushes = [], []
        self.machine.held_syncs = []

    # -- what others do -----------------------------------------------------------------------

    def others(self, at_most: int = 3) -> None:
        acts = (self.write, self.write, self.read, self.read, self.read, self.flush, self.rest)
        for _ in range(self.dice.randrange(at_most + 1)):
            self.dice.choice(acts)()

    def write(self) -> None:
        pairs = [self._pair() for _ in range(self.dice.choice([1, 1, 2, 5]))]
        records = batch(*pairs, timestamp=self.machine.clock.now_ms())
        answer = produced(self.client, records)
        assert answer.error_code == ErrorCode.NONE
        assert answer.base_offset == len(self.written)
        self.written += pairs

    def _pair(self) -> tuple[str, str | None]:
        key = self.dice.choice(KEYS)
        value = f"{len(self.written)}" * self.dice.choice([1, 5, 30])
        return key, None if self.dice.random() < 0.4 else value

    def read(self) -> None:
        reader = self.reader
        size = self.dice.choice([1, 200, 1000, 1 << 20])
        answer = fetched(self.client, fetch({0: reader.position}, partition_max_bytes=size))
        assert answer.error_code == ErrorCode.NONE
        data = answer.records
        assert data is None or isinstance(data, bytes | memoryview)
        position = reader.position
        for at, header in iter_headers(data or b""):
            for record in iter_records(data or b"", at):
                if record.offset >= reader.position:
                    key, value = _texts(record.key, record.value)
                    assert self.written[record.offset] == (key, value), record.offset
                    reader.state[key] = value
            position = header.next_offset
        assert position > reader.position or position == answer.high_watermark, "stuck in a gap"
        reader.position = position
        if position == answer.high_watermark:
            self._finish_reading()

    def _finish_reading(self) -> None:
        now_ms = self.machine.clock.now_ms()
        if now_ms - self.reader.began_ms < RETENTION_MS:
            self.whole_reads += 1
            assert _living(self.reader.state) == _living(dict(self.written))
        self.reader = Reader(now_ms)

    def flush(self) -> None:
        held, self.machine.held_flushes = self.machine.held_flushes or [], []
        for effect in held:
            self.machine.flush(effect)

    def sync(self) -> None:
        held, self.machine.held_syncs = self.machine.held_syncs or [], []
        for effect in held:
            self.machine.sync(effect)

    def rest(self) -> None:
        self.machine.advance(self.dice.choice([1, 150, 150, 5_000, RETENTION_MS // 2]))

    # -- passes -------------------------------------------------------------------------------

    def step(self) -> None:
        self.others()
        if self.dice.random() < 0.3:
            self.machine.broker.cleaning.ask(TP)
        self.machine.broker.cleaning.look_now()
        self.machine.tick()
        passes, self.machine.held_passes = self.machine.held_passes or [], []
        for effect in passes:
            before = self.on_disk()
            try:
                self._run(effect)
            except Killed:
                self.machine.kill()
                self._hold()
                self.client = self.machine.connect()
            self.check_pass(before, effect.plan)
        self.machine.check_invariants()

    def _run(self, effect: Clean) -> None:
        machine, number = self.machine, effect.number

        def give_way() -> bool:
            machine.report(effect, StillAtWork())
            self.others(at_most=1)
            if self.dice.random() < 0.01:
                self.kills += 1
                raise Killed
            return machine.called_off.get(number, False)

        def hand_over(group: CleanedGroup) -> None:
            machine.called_off.pop(number, None)
            machine.report(effect, GroupCleaned(group))
            while number not in machine.called_off:
                self.others(at_most=1)
                self.flush()
                self.others(at_most=1)
                self.sync()

        outcome: PassReport | PassFailed
        try:
            outcome = run_pass(
                machine.fs,
                effect.plan,
                dice=machine.dice,
                on_group=hand_over,
                should_abort=give_way,
            )
        except CleaningAborted as aborted:
            outcome = PassFailed(str(aborted))
        machine.report(effect, outcome)
        self.passes += 1

    def check_pass(self, before: dict[int, Stored], plan: CleaningPlan) -> None:
        after = self.on_disk()
        for offset, (key, value, horizon_ms) in after.items():
            assert self.written[offset] == (key, value), offset
            was = before.get(offset)
            if was is not None and was.horizon_ms is not None:
                assert horizon_ms == was.horizon_ms, f"the horizon of {offset} has moved"
            elif horizon_ms is not None:
                assert horizon_ms == plan.now_ms + RETENTION_MS, offset
        last = {key: offset for offset, (key, _) in enumerate(self.written)}
        for offset, stored in before.items():
            if offset in after or last[stored.key] != offset:
                continue
            assert stored.value is None, f"the last value of {stored.key} is lost"
            assert stored.horizon_ms is not None, f"{offset} left without a horizon"
            assert stored.horizon_ms <= plan.now_ms, f"{offset} left before its horizon"

    def on_disk(self) -> dict[int, Stored]:
        found = {}
        for segment in self.machine.broker.partitions.get(TP).log.segments:
            content = segment.file.pread(segment.size, 0)
            for at, header in iter_headers(content):
                for record in iter_records(content, at):
                    key, value = _texts(record.key, record.value)
                    found[record.offset] = Stored(key, value, header.delete_horizon_ms)
        return found

    # -- the end ------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Writing has stopped, and time passes."""
        self.machine.held_passes = self.machine.held_flushes = self.machine.held_syncs = None
        for _ in range(4):
            self.machine.clock.advance(ms=DAY_MS)
            self.machine.advance(1_000)

    def compact(self) -> None:
        self.machine.broker.cleaning.ask(TP)
        self.machine.tick()


def _texts(key: object, value: object) -> tuple[str, str | None]:
    assert isinstance(key, bytes | bytearray | memoryview)
    assert value is None or isinstance(value, bytes | bytearray | memoryview)
    return bytes(key).decode(), None if value is None else bytes(value).decode()


def _living(state: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in sorted(state.items()) if value is not None}


@pytest.mark.parametrize("seed", range(8))
def test_readers_and_tombstones_come_to_their_right_while_passes_run(seed: int) -> None:
    story = Story(seed)

    for _ in range(STEPS):
        story.step()
    story.come_to_rest()
    at_rest = story.on_disk()
    story.compact()

    last = {key: (offset, value) for offset, (key, value) in enumerate(story.written)}
    expected = {offset: (key, value) for key, (offset, value) in last.items() if value is not None}
    left = {offset: stored[:2] for offset, stored in story.on_disk().items()}
    assert [offset for offset, stored in at_rest.items() if stored.value is None] == []
    assert left == expected
    assert story.machine.broker.partitions.get(TP).log.log_end_offset == len(story.written)
    # The story is worth its time only if something happened in it.
    assert story.whole_reads > 5
    assert story.passes > 20
