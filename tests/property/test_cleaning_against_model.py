"""Random logs, random passes: beside the plain twin, byte for byte, and beside a dict.

A story writes batches with any codec, in and out of transactions, rolls, lets time pass and cleans
with maps of any size. After each pass the files must be those of the plain twin, the state a
read_committed reader ends with must be the dict's, no record may have changed or moved, and each
tombstone must have lived as long as it had to and no longer.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.cleaner.plan import CleaningPlan, PassReport
from ledgerstone.errors import CorruptFile, KafkaError
from ledgerstone.records.batch import LEADER_EPOCH_AT, MAGIC_AT, Codec, iter_headers
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import Record, iter_records
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.txn_index import AbortedTxnEntry, encode_entry
from ledgerstone.types import INT64_MAX
from tests.kit.cleaning import plan_of, run
from tests.kit.golden import committed
from tests.kit.log_checks import check_log
from tests.kit.logs import T0, World
from tests.kit.scenario import disk, end_txn
from tests.kit.sized import examples, sized
from tests.oracles.plain_cleaner import plain_clean

RETENTION_MS = 1000
PRODUCERS = (11, 12, 13)

_pairs = st.lists(
    st.tuples(
        st.one_of(st.none(), *[st.sampled_from([b"a", b"b", b"c", b"d", b""])] * 6),
        st.one_of(st.none(), st.binary(max_size=20), st.just(b"z" * 70)),
        st.integers(-5, 5),
    ),
    min_size=1,
    max_size=5,
)
_codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, *list(Codec)[1:]])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _pairs, _codecs),
        st.tuples(st.just("put"), _pairs, _codecs),
        st.tuples(st.just("put_as"), st.sampled_from(PRODUCERS), st.booleans(), _pairs, _codecs),
        st.tuples(st.just("put_as"), st.sampled_from(PRODUCERS), st.just(True), _pairs, _codecs),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("wait"), st.sampled_from([1, RETENTION_MS - 1, RETENTION_MS, 5000])),
        st.tuples(
            st.just("clean"),
            st.sampled_from([1, 2, 3, 1000]),  # keys the map has room for
            st.sampled_from([0, 0, 0, 1, 2]),  # segments left alone at the end
            st.sampled_from([None, None, 0, 7]),  # held from
            st.sampled_from([100, 300, 1 << 20]),  # window
            st.sampled_from([INT64_MAX, INT64_MAX, 0, 4000]),  # held at most
            st.sampled_from([INT64_MAX, INT64_MAX, 0, 5, 12]),  # other replicas are clean to
        ),
        st.tuples(
            st.just("clean"), st.just(1000), st.just(0), st.none(), st.just(1 << 20), st.just(0)
        ),
    ),
    min_size=5,
    max_size=40,
)
_configs = st.builds(
    LogConfig,
    # Records without keys were written before the topic was compacted.
    cleanup_policy=st.just(("delete",)),
    segment_bytes=st.sampled_from([700, 1000, 5000]),
    index_interval_bytes=st.sampled_from([0, 150, 4096]),
    delete_retention_ms=st.just(RETENTION_MS),
    message_timestamp_type=st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
)


@dataclass
class Story:
    """A log, and all that was ever written to it."""

    world: World
    log: PartitionLog
    written: dict[int, Record] = field(default_factory=dict)
    taken_back: dict[int, bool] = field(default_factory=dict)  # offsets of aborted records
    open_offsets: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    first_dirty_offset: int = 0
    # By offset of a tombstone: the horizon of its batch, None once it has left the disk.
    horizons: dict[int, int | None] = field(default_factory=dict)

    def put(self, pairs: list[Any], codec: Codec, **producer: Any) -> list[int]:
        now_ms = self.world.clock.now_ms()
        data = build_batch(
            [(now_ms + shift, key, value, _headers(shift)) for key, value, shift in pairs],
            codec=codec,
            **producer,
        )
        result = self.log.append_as_leader(data, leader_epoch=0)
        self.log.advance_high_watermark(self.log.log_end_offset)
        offsets = list(range(result.first_offset, result.last_offset + 1))
        for record in _records(self.log, from_offset=result.first_offset):
            self.written[record.offset] = record
        return offsets

    def put_as(self, producer_id: int, transactional: bool, pairs: list[Any], codec: Codec) -> None:
        transactional = transactional or producer_id in self.open_offsets
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(pairs)
        offsets = self.put(
            pairs,
            codec,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
        )
        if transactional:
            self.open_offsets.setdefault(producer_id, []).extend(offsets)

    def end(self, producer_id: int, commit: bool) -> None:
        end_txn(self.log, producer_id, commit=commit, timestamp=self.world.clock.now_ms())
        self.log.advance_high_watermark(self.log.log_end_offset)
        for offset in self.open_offsets.pop(producer_id, []):
            if not commit:
                self.taken_back[offset] = True

    def roll(self) -> None:
        self.log.roll()

    def wait(self, milliseconds: int) -> None:
        self.world.clock.advance(ms=milliseconds)

    def clean(
        self,
        keys: int,
        left_alone: int,
        held_from: int | None,
        window: int,
        hold_max_ms: int = INT64_MAX,
        removable_to: int = INT64_MAX,
    ) -> None:
        stable = self.log.last_stable_offset
        bases = self.log.segments.bases()
        end_segment = max(at for at, base in enumerate(bases) if base <= stable)
        end_segment = max(0, end_segment - left_alone)
        if bases[end_segment] < self.first_dirty_offset:
            return
        plan = plan_of(
            self.log,
            self.first_dirty_offset,
            end_segment=end_segment,
            dedupe_buffer_bytes=24 * keys,
            load_factor=1.0,
            held_from_offset=held_from,
            hold_max_ms=hold_max_ms,
            removable_to=removable_to,
            window_bytes=window,
        )
        before = _horizons(self.log)
        expected = plain_clean(plan, _logs(self.log), _aborted(self.log))

        report = run(self.log, plan)

        assert report.end_offset == expected.end_offset
        assert {group.base_offset: group.source_bases for group in report.groups} == {
            base: segment.source_bases for base, segment in expected.segments.items()
        }
        for base, segment in expected.segments.items():
            assert self._file(base, Kind.LOG) == segment.log
            assert self._file(base, Kind.INDEX) == segment.offset_index
            assert self._file(base, Kind.TIME_INDEX) == segment.time_index
            txns = b"".join(map(encode_entry, segment.aborted))
            assert self._file(base, Kind.TXN_INDEX) == txns
        self.first_dirty_offset = report.end_offset
        self._check_tombstones(plan, report.end_offset)
        self._check_traces(report, before)
        removed_to = max((group.removed_to for group in report.groups), default=0)
        assert removed_to <= removable_to
        assert (removed_to > 0) == bool(
            report.stats.dropped_tombstones + report.stats.dropped_markers
        )
        self.check()

    def check(self) -> None:
        check_log(self.log)
        for record in _records(self.log):
            assert record == self.written[record.offset]
        shown = [record for record, _ in committed(self.log)]
        assert _state(shown) == _state(self._decided())

    def _decided(self) -> list[Record]:
        return [
            record
            for offset, record in sorted(self.written.items())
            if offset not in self.taken_back and offset < self.log.last_stable_offset
        ]

    def _check_traces(self, report: PassReport, before: dict[int, int | None]) -> None:
        """Every tombstone that a pass has stamped lies in a range, and ranges end at tombstones."""
        assert report.tombstones is not None
        after, removed = _horizons(self.log), report.tombstones.removed
        reached = {at: h for at, h in after.items() if at < report.end_offset}
        for offset, horizon_ms in reached.items():
            assert any(
                each.first_offset <= offset <= each.last_offset
                and each.earliest_horizon_ms == horizon_ms
                for each in report.tombstones.pending
            ), (offset, horizon_ms, report.tombstones)
        for each in report.tombstones.pending if not report.stats.markers_held else ():
            assert each.first_offset in after
            assert each.last_offset in after
        assert (removed is None) == (report.stats.dropped_tombstones == 0)
        if removed is not None:
            assert all(at in before and at not in after for at in removed)

    def _check_tombstones(self, plan: CleaningPlan, end_offset: int) -> None:
        """Of those that are the last word on their key."""
        now_ms, held_from = plan.now_ms, plan.held_from_offset
        last = {record.key: record for record in self._decided() if record.key is not None}
        due = {record.offset for record in last.values() if record.value is None}
        found = _horizons(self.log)
        for offset in due:
            horizon_ms = self.horizons.get(offset)
            expired = horizon_ms is not None and now_ms >= horizon_ms
            held = held_from is not None and offset >= held_from
            held = held and horizon_ms is not None and now_ms < horizon_ms + plan.hold_max_ms
            if not expired or held or offset >= plan.removable_to:
                gone_before = horizon_ms is None and offset in self.horizons
                assert offset in found or gone_before, (offset, horizon_ms, now_ms)
            elif offset < end_offset:
                assert offset not in found, (offset, horizon_ms, now_ms)
        known = self.horizons
        self.horizons = dict.fromkeys(offset for offset in known if offset in due)
        self.horizons |= {offset: h for offset, h in found.items() if h is not None}

    def _file(self, base_offset: int, kind: Kind) -> bytes:
        path = f"{self.log.directory}/{base_offset:020d}{kind.value}"
        return bytes(disk(self.world).files().get(path, b""))


def _headers(number: int) -> tuple[tuple[str, bytes | None], ...]:
    """None on half of the records, up to three on the others."""
    return tuple((f"h{n}", None if n == 1 else bytes(n)) for n in range(number - 2))


def _logs(log: PartitionLog) -> dict[int, bytes]:
    return {segment.base_offset: segment.file.pread(segment.size, 0) for segment in log.segments}


def _aborted(log: PartitionLog) -> list[AbortedTxnEntry]:
    return [entry for segment in log.segments for entry in segment.txn_index.entries()]


def _records(log: PartitionLog, from_offset: int = 0) -> list[Record]:
    return [
        record
        for content in _logs(log).values()
        for position, header in iter_headers(content)
        if not header.is_control and header.last_offset >= from_offset
        for record in iter_records(content, position)
    ]


def _horizons(log: PartitionLog) -> dict[int, int | None]:
    """Tombstones on disk and the horizon of each."""
    return {
        record.offset: header.delete_horizon_ms
        for content in _logs(log).values()
        for position, header in iter_headers(content)
        if not header.is_control
        for record in iter_records(content, position)
        if record.value is None
    }


def _state(records: list[Record]) -> dict[bytes, tuple[int, bytes]]:
    state: dict[bytes, tuple[int, bytes]] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = (record.offset, record.value)
    return state


@sized(few=60, many=600, config=_configs, steps=_steps)
def test_any_passes_over_any_log_agree_with_the_twin_and_with_a_dict(
    config: LogConfig, steps: list[Any]
) -> None:
    world = World()
    story = Story(world, world.open(config))

    for name, *arguments in steps:
        getattr(story, name)(*arguments)
    for producer_id in PRODUCERS:
        story.end(producer_id, commit=True)
    story.roll()
    story.clean(1000, 0, None, 1 << 20)

    # Reopened after a crash, the log tells the same.
    disk(world).kill()
    story.log = world.open(
        config, clean=False, recovery_point=0, high_watermark=story.log.log_end_offset
    )
    story.check()


@pytest.mark.parametrize("codec", list(Codec))
def test_a_story_reaches_every_way_a_record_can_go(codec: Codec) -> None:
    """So that the property above is not true for want of cases."""
    world = World()
    config = LogConfig(segment_bytes=400, delete_retention_ms=RETENTION_MS)
    story = Story(world, world.open(config))
    story.put([(b"a", b"1", 0), (b"b", b"1", 0)], codec)
    story.put_as(11, True, [(b"a", b"2", 0)], codec)
    story.end(11, commit=False)
    story.put([(b"b", None, 0), (None, b"x", 0), (b"c", b"1", 0)], codec)
    story.put_as(12, True, [(b"c", b"2", 0)], codec)
    story.end(12, commit=True)
    story.roll()

    story.clean(1000, 0, None, 1 << 20)
    assert _horizons(story.log) == {4: T0 + RETENTION_MS}
    story.put([(b"d", b"1", 0)], codec)
    story.roll()
    story.wait(RETENTION_MS)
    story.clean(1000, 0, None, 1 << 20)

    assert _horizons(story.log) == {}
    assert [record.offset for record in _records(story.log)] == [0, 7, 9]


@sized(
    few=6,
    many=60,
    counts=st.lists(st.integers(1, 1300), min_size=1, max_size=3),
    codec=_codecs,
    window=st.sampled_from([100, 5000, 1 << 20]),
    keys=st.sampled_from([3, 700, 5000]),
)
def test_batches_of_any_number_of_records_agree_with_the_twin(
    counts: list[int], codec: Codec, window: int, keys: int
) -> None:
    world = World()
    story = Story(world, world.open(LogConfig(delete_retention_ms=RETENTION_MS)))
    for size in counts:
        story.put([(b"%d" % (n * n % 997), b"v" * (n % 3), n % 7) for n in range(size)], codec)
    story.roll()

    story.clean(keys, 0, None, window)
    story.clean(5000, 0, None, 1 << 20)


@examples(100)
@given(position=st.integers(0, 399), change=st.integers(1, 255), codec=_codecs)
def test_changed_byte_ends_the_pass_or_is_one_that_no_crc_covers(
    position: int, change: int, codec: Codec
) -> None:
    world = World()
    log = world.open(LogConfig())
    story = Story(world, log)
    for number in range(4):
        story.put([(b"a", b"%d" % number, 0), (b"b", None, 3)], codec)
    story.roll()
    segment = next(iter(log.segments))
    position %= segment.size
    byte = segment.file.pread(1, position)[0] ^ change
    in_batch = _place_in_batch(segment.file.pread(segment.size, 0), position)
    segment.file.pwrite(bytes([byte]), position)
    plan = plan_of(log, 0)

    try:
        run(log, plan)
    except (CorruptFile, KafkaError):
        assert in_batch not in range(LEADER_EPOCH_AT, MAGIC_AT)
    else:
        assert in_batch in range(MAGIC_AT)


def _place_in_batch(content: bytes, position: int) -> int:
    starts = [start for start, _ in iter_headers(content) if start <= position]
    return position - starts[-1]
