"""A micro-batch of so many bytes, planned from a few samples, held against logs whose every byte is
known."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.spark.sizing import PROBES, SizeSample, cut, places, shares
from ledgerstone.types import TopicPartition

_MIB = 1 << 20
P = [TopicPartition("t", number) for number in range(4)]


class Log:
    """Batches of (offsets, bytes), one behind the other."""

    def __init__(self, batches: Sequence[tuple[int, int]]) -> None:
        self.batches: list[SizeSample] = []
        at = 0
        for offsets, size in batches:
            self.batches.append(SizeSample(at, at + offsets, size))
            at += offsets
        self.end = at

    def look(self, offset: int) -> SizeSample:
        for each in self.batches:
            if offset < each.next_offset:
                part = (each.next_offset - offset) / (each.next_offset - each.start_offset)
                return SizeSample(offset, each.next_offset, int(each.size_bytes * part))
        raise AssertionError(f"nobody looks at {offset} of {self.end}")

    def bytes_before(self, end: int) -> float:
        return sum(
            each.density * max(min(end, each.next_offset) - each.start_offset, 0)
            for each in self.batches
        )

    def planned(self, share: int) -> tuple[int, int]:
        """The end of the micro-batch, and how many batches were looked at."""
        first = self.look(0)
        samples = [first]
        for offset in places(first, self.end, share):
            if offset >= samples[-1].next_offset:
                samples.append(self.look(offset))
        return cut(samples, self.end, share), len(samples)


@given(st.integers(1, 500), st.integers(1, 20_000), st.integers(1024, 64 * _MIB))
def test_records_of_one_size_fill_the_share_exactly(count: int, size: int, share: int) -> None:
    log = Log([(10, 10 * size)] * count)

    end, looked = log.planned(share)

    expected = min(max(share // size, 1), log.end)
    assert abs(end - expected) <= 1
    assert looked <= PROBES


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(100, 100_000)), min_size=1))
def test_something_is_always_read_and_nothing_beyond_the_end(
    batches: list[tuple[int, int]],
) -> None:
    log = Log(batches)

    for share in (1, 1024, _MIB, 1 << 40):
        end, looked = log.planned(share)
        assert 0 < end <= log.end
        assert looked <= PROBES


def test_records_that_grow_a_thousandfold_on_the_way_stay_within_twice_the_share() -> None:
    small, large = [(100, 100 * 20)] * 3000, [(100, 100 * 20_000)] * 800
    log = Log([*small, *large])

    end, _ = log.planned(64 * _MIB)

    assert log.end * 20 < 64 * _MIB, "by its first batch all of it would be taken"
    assert 0 < log.bytes_before(end) <= 128 * _MIB


def test_what_a_partition_does_not_need_is_left_to_the_others() -> None:
    samples = {
        P[0]: SizeSample(0, 10, 1000),
        P[1]: SizeSample(0, 10, 10_000),
        P[2]: SizeSample(5, 10, 10_000),
    }
    end = {P[0]: 10, P[1]: 100_000, P[2]: 100_000}

    found = shares(samples, end, 9_001_000)

    assert found == {P[0]: 1_001, P[1]: 4_500_001, P[2]: 4_500_001}


def test_backlog_that_fits_as_a_whole_is_not_cut_where_it_is_denser() -> None:
    log = Log([(100, 100 * 100)] * 50 + [(100, 100 * 110)] * 50)
    first = log.look(0)

    (share,) = shares({P[0]: first}, {P[0]: log.end}, 64 * _MIB).values()

    assert log.planned(share)[0] == log.end
    assert sum(shares(dict.fromkeys(P, first), dict.fromkeys(P, 10**9), _MIB).values()) <= _MIB + 4
