"""How the bytes of a log divide: against a dict, on random logs; resumed, sampled, and refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptFile
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.state.anatomy_plan import (
    AnatomyPlan,
    AnatomyReport,
    HorizonCount,
    SegmentSpan,
    Shares,
)
from ledgerstone.state.anatomy_reading import Analysis
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.storage.txn_index import AbortedTxnEntry, encode_entry
from ledgerstone.types import INT64_MAX, TopicPartition
from tests.kit.sized import examples
from tests.unit.state.model import SEED, Model, T, Written, small_values, written

TP = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"
HOUR_MS = 3_600_000


class Files:
    """A partition directory; each segment is what was put there last under its base."""

    def __init__(self) -> None:
        self.fs = SimFilesystem(dice=SeededDice(0), clock=VirtualClock(start_ms=T))
        self.fs.make_dir(DIRECTORY)
        self.spans: list[SegmentSpan] = []

    def put(self, base_offset: int, data: bytes, *, generation: int = 0) -> None:
        self._write(file_name(base_offset, Kind.LOG), data)
        self.spans = [each for each in self.spans if each.base_offset != base_offset]
        self.spans.append(SegmentSpan(base_offset, len(data), generation))
        self.spans.sort()

    def put_aborted(self, base_offset: int, aborted: list[tuple[int, int, int]]) -> None:
        entries = [AbortedTxnEntry(*each, last_stable_offset=each[2]) for each in aborted]
        data = b"".join(map(encode_entry, entries))
        self._write(file_name(base_offset, Kind.TXN_INDEX), data)

    def _write(self, name: str, data: bytes) -> None:
        file = self.fs.open(f"{DIRECTORY}/{name}", create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.close()

    def plan(self, *, end_offset: int = INT64_MAX) -> AnatomyPlan:
        return AnatomyPlan(
            topic_partition=TP,
            directory=DIRECTORY,
            segments=tuple(self.spans),
            end_offset=end_offset,
        )

    def analysed(self, *, end_offset: int = INT64_MAX) -> AnatomyReport:
        return Analysis(self.fs, seed=SEED).bring_up_to(self.plan(end_offset=end_offset))


def batch_of(
    *records: tuple[bytes | None, bytes | None],
    base_offset: int,
    horizon_ms: int | None = None,
    codec: Codec = Codec.NONE,
) -> bytes:
    return bytes(
        build_batch(
            [(T, key, value, ()) for key, value in records],
            base_offset=base_offset,
            codec=codec,
            delete_horizon_ms=horizon_ms,
        )
    )


def model_of(log: list[Written]) -> Model:
    model = Model()
    for each in log:
        model.write(each)
    model.end_all()
    return model


def plainly_counted(model: Model, cuts: list[int]) -> list[tuple[int, list[int]]]:
    """(bytes, records by class) of each segment; a segment begins at each index in `cuts`."""
    latest, _ = model.state()
    found: list[tuple[int, list[int]]] = []
    for start, stop in zip(cuts, [*cuts[1:], len(model.batches)], strict=True):
        counts = [0, 0, 0, 0, 0]
        for batch in model.batches[start:stop]:
            if batch.is_control or model.is_aborted(batch):
                counts[4] += 1
                continue
            for offset, key, value in batch.kept:
                if key is None:
                    counts[3] += 1
                elif latest[key][0] != offset:
                    counts[2] += 1
                else:
                    counts[1 if value is None else 0] += 1
        found.append((sum(len(each.data) for each in model.batches[start:stop]), counts))
    return found


def put_model(files: Files, model: Model, cuts: list[int]) -> None:
    for start, stop in zip(cuts, [*cuts[1:], len(model.batches)], strict=True):
        group = model.batches[start:stop]
        base_offset, last_offset = group[0].base_offset, group[-1].last_offset
        files.put(base_offset, b"".join(each.data for each in group))
        here = [each for each in model.aborted if base_offset <= each[2] <= last_offset]
        files.put_aborted(base_offset, here)


@st.composite
def cut_logs(draw: st.DrawFn) -> tuple[Model, list[int]]:
    log = draw(st.lists(written(small_values), min_size=1, max_size=20))
    model = model_of(log)
    if not model.batches:
        model.write(Written(records=((b"a", b"1"),)))
    inner = draw(st.sets(st.integers(1, max(len(model.batches) - 1, 1)), max_size=5))
    return model, [0, *sorted(each for each in inner if each < len(model.batches))]


@given(cut_logs())
@examples(100)
def test_records_are_classed_as_a_dict_classes_them(cut_log: tuple[Model, list[int]]) -> None:
    model, cuts = cut_log
    files = Files()
    put_model(files, model, cuts)

    report = files.analysed()

    expected = plainly_counted(model, cuts)
    assert [(each.bytes.total, list(each.records)) for each in report.segments] == expected
    assert report.keys == len(model.state()[0])
    assert sum(each.tombstones for each in report.horizons) == sum(
        each.records.tombstone for each in report.segments
    )


@given(cut_logs(), st.data())
@examples(100)
def test_reading_on_finds_what_reading_all_finds(
    cut_log: tuple[Model, list[int]], data: st.DataObject
) -> None:
    model, cuts = cut_log
    files = Files()
    put_model(files, model, cuts)
    full = files.plan()
    analysis = Analysis(files.fs, seed=SEED)
    ends = sorted(
        data.draw(st.lists(st.sampled_from([b.last_offset + 1 for b in model.batches]), max_size=3))
    )

    for end_offset in ends:
        analysis.bring_up_to(files.plan(end_offset=end_offset))
    last = analysis.bring_up_to(full)

    fresh = files.analysed()
    assert last.segments == fresh.segments
    assert last.horizons == fresh.horizons
    assert last.is_resumed == bool(ends)


def test_bytes_of_a_batch_go_to_its_records_by_their_length() -> None:
    files = Files()
    small, large = (b"a", b"1"), (b"b", b"2" * 3000)
    data = batch_of(small, large, base_offset=0)
    files.put(0, data + batch_of((b"a", b"3"), base_offset=2))

    (segment,) = files.analysed().segments

    assert segment.records == Shares(live=2, superseded=1)
    assert segment.bytes.total == files.spans[0].size_bytes
    assert 0 < segment.bytes.superseded < 20


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_divide_to_the_byte(codec: Codec) -> None:
    files = Files()
    records = [(f"key {n % 7}".encode(), b"v" * n) for n in range(100)]
    files.put(0, batch_of(*records, base_offset=0, codec=codec))

    (segment,) = files.analysed().segments

    assert segment.bytes.total == files.spans[0].size_bytes
    assert segment.records == Shares(live=7, superseded=93)


def test_later_segment_takes_bytes_out_of_an_earlier_one() -> None:
    files = Files()
    files.put(0, batch_of((b"a", b"1"), (b"b", b"1"), base_offset=0))
    analysis = Analysis(files.fs, seed=SEED)
    before = analysis.bring_up_to(files.plan())
    files.put(2, batch_of((b"a", None), base_offset=2))

    after = analysis.bring_up_to(files.plan())

    assert before.segments[0].records == Shares(live=2)
    assert [each.records for each in after.segments] == [
        Shares(live=1, superseded=1),
        Shares(tombstone=1),
    ]
    assert after.read_bytes == files.spans[1].size_bytes


def test_tombstones_are_counted_by_the_horizon_of_their_batch() -> None:
    files = Files()
    stamped = batch_of((b"a", None), (b"b", None), base_offset=0, horizon_ms=T + HOUR_MS)
    fresh = batch_of((b"c", None), (b"b", b"back"), base_offset=2)
    files.put(0, stamped + fresh)

    horizons = files.analysed().horizons

    assert horizons == (HorizonCount(None, 1), HorizonCount(T + HOUR_MS, 1))


def test_nothing_behind_the_decided_end_is_looked_at() -> None:
    files = Files()
    decided = batch_of((b"a", b"1"), base_offset=0)
    files.put(0, decided + batch_of((b"a", b"2"), base_offset=1))

    report = files.analysed(end_offset=1)

    assert report.segments[0].bytes == Shares(live=len(decided))


def test_replaced_segment_starts_the_analysis_over() -> None:
    files = Files()
    files.put(0, batch_of((b"a", b"1"), (b"a", b"2"), base_offset=0))
    analysis = Analysis(files.fs, seed=SEED)
    analysis.bring_up_to(files.plan())
    files.put(0, batch_of((b"a", b"2"), base_offset=0), generation=1)

    report = analysis.bring_up_to(files.plan())

    assert not report.is_resumed
    assert report.segments[0].records == Shares(live=1)


def test_many_keys_are_estimated_from_some_of_them() -> None:
    files = Files()
    keys = [f"key-{n}".encode() for n in range(6000)]
    first = batch_of(*((key, b"v" * 50) for key in keys), base_offset=0)
    again = batch_of(*((key, b"w" * 50) for key in keys[:3000]), base_offset=6000)
    files.put(0, first)
    files.put(6000, again)

    report = Analysis(files.fs, seed=SEED, max_keys=1000).bring_up_to(files.plan())

    assert report.sampled_one_in == 8
    assert [each.bytes.total for each in report.segments] == [len(first), len(again)]
    assert report.segments[0].bytes.superseded == pytest.approx(len(first) / 2, rel=0.2)
    assert report.keys == pytest.approx(6000, rel=0.2)


def test_torn_log_is_refused_with_its_place() -> None:
    files = Files()
    data = batch_of((b"a", b"1"), base_offset=0)
    files.put(0, data + data[:40])

    with pytest.raises(CorruptFile, match=rf"0\.log at {len(data)}: "):
        files.analysed()


def test_plan_and_report_travel_as_json() -> None:
    files = Files()
    files.put(0, batch_of((b"a", None), base_offset=0, horizon_ms=T))
    plan = files.plan()
    report = files.analysed()

    assert AnatomyPlan.from_json(plan.to_json()) == plan
    assert AnatomyReport.from_json(report.to_json()) == report
