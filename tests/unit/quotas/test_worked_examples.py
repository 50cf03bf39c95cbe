"""The arithmetic of quotas, in numbers worked out by hand."""

import pytest

from ledgerstone.errors import ThrottlingQuotaExceeded
from ledgerstone.quotas.counters import MutationCounter, RateCounter
from ledgerstone.quotas.limits import CounterKey, Limit
from ledgerstone.quotas.mutations import MutationQuota
from ledgerstone.quotas.rate import LONGEST_THROTTLE_MS
from ledgerstone.quotas.token_bucket import TokenBucket
from ledgerstone.quotas.windows import Windows

KEY = CounterKey(None, "c")
MB = 1_000_000
NANOS_OF_A_PERCENT = 1e7


def counter(
    bound: float, *, samples: int = 11, longest_ms: int = LONGEST_THROTTLE_MS, scale: float = 1.0
) -> RateCounter:
    return RateCounter(KEY, Limit(bound, None), Windows(samples, 1000), longest_ms, scale)


def mutations(bound: float, samples: int = 11) -> MutationCounter:
    return MutationCounter(KEY, Limit(bound, None), TokenBucket(samples, 1000))


def test_rate_of_one_and_a_fifth_of_the_bound_waits_a_fifth_of_the_window() -> None:
    bytes_in = counter(500)
    for now_ms in range(0, 10_000, 1000):
        assert bytes_in.record(400, now_ms) == 0

    assert bytes_in.record(2300, 10_500) == 2100


@pytest.mark.parametrize(
    ("size", "throttle_ms"),
    [(20 * MB, 10_000), (10 * MB, 0), (10_010_400, 10), (10_010_500, 11)],
)
def test_first_burst_is_spread_over_ten_windows_and_halves_are_rounded_up(
    size: int, throttle_ms: int
) -> None:
    assert counter(MB).record(size, 0) == throttle_ms


def test_less_than_half_a_millisecond_is_nothing() -> None:
    bytes_in = counter(MB)

    assert [bytes_in.record(10 * MB, 0), bytes_in.record(1, 0)] == [0, 0]


def test_burst_is_forgotten_at_once_when_its_last_event_is_eleven_windows_old() -> None:
    bytes_in = counter(MB)
    bytes_in.record(5 * MB, 0)

    assert round(bytes_in.rate(10_999), 1) == 454_586.8
    assert bytes_in.rate(11_000) == 0


def test_fetch_that_is_taken_back_leaves_the_sum_as_it_was() -> None:
    bytes_out, passed, now_ms = counter(MB), 0, 0
    throttles: list[int] = []
    while len(throttles) < 3:
        throttle_ms = bytes_out.record(100_000, now_ms)
        if throttle_ms:
            bytes_out.record_only(-100_000, now_ms)
            throttles.append(throttle_ms)
        else:
            passed += 1
        now_ms += 5 + throttle_ms

    assert throttles == [75, 90, 90]
    assert bytes_out.windows.total(now_ms) == passed * 100_000


def test_tenth_of_the_loop_is_used_up_by_two_hundred_requests_of_five_ms() -> None:
    loop_time = counter(10, longest_ms=1000, scale=NANOS_OF_A_PERCENT)

    throttles = [loop_time.record(5_000_000, 0) for _ in range(201)]

    assert throttles[:200] == [0] * 200
    assert throttles[200] == 50


def test_wait_for_the_loop_is_at_most_one_window() -> None:
    loop_time = counter(10, longest_ms=1000, scale=NANOS_OF_A_PERCENT)

    assert [loop_time.record(20_000_000, 0) for _ in range(100)][-1] == 1000


def _strict(bucket: MutationCounter, count: int, now_ms: int) -> tuple[int, int]:
    quota = MutationQuota(bucket, lambda: now_ms, is_strict=True)
    try:
        quota.take(count)
    except ThrottlingQuotaExceeded as error:
        return error.code, quota.throttle_ms()
    return 0, quota.throttle_ms()


def test_strict_bucket_may_be_overdrawn_once_and_refuses_until_the_debt_is_paid() -> None:
    bucket = mutations(5)

    outcomes = [_strict(bucket, *each) for each in ((50, 0), (30, 0), (1, 0), (1, 2500), (1, 5000))]

    assert outcomes == [(0, 0), (0, 0), (89, 5000), (89, 2500), (0, 0)]


def test_permissive_bucket_takes_everything_and_the_wait_shrinks_while_the_answer_waits() -> None:
    bucket, now = mutations(10, samples=10), [0]
    quotas = [MutationQuota(bucket, lambda: now[0], is_strict=False) for _ in range(3)]

    for quota in quotas:
        quota.take(90)
    at_once = [quota.throttle_ms() for quota in quotas]
    now[0] = 5000

    assert at_once == [0, 8000, 17_000]
    assert [quota.throttle_ms() for quota in quotas] == [0, 3000, 12_000]


def test_twenty_connections_a_second_let_two_hundred_in_at_one_instant() -> None:
    accepted = counter(20, longest_ms=1000)

    throttles = [accepted.record(1, 0) for _ in range(201)]

    assert throttles == [0] * 200 + [50]


def test_bound_that_changes_measures_what_was_counted_before() -> None:
    bytes_in = counter(2000)
    bytes_in.record(25_000, 0)

    def bounded(bound: float) -> int:
        bytes_in.bound = bound
        return bytes_in.record(0, 0)

    assert bounded(3000) == 0
    assert bounded(500) > 0


def test_batch_of_more_than_ten_seconds_of_quota_never_passes() -> None:
    bytes_out = counter(100)

    for now_ms in (0, 60_000, 3_600_000):
        assert bytes_out.record(5000, now_ms) == 40_000
        bytes_out.record_only(-5000, now_ms)


def test_throttle_that_no_answer_can_name_is_cut() -> None:
    assert counter(1).record(100 * MB, 0) == LONGEST_THROTTLE_MS


@pytest.mark.parametrize("samples", [1, 2, 11])
def test_rate_at_the_very_first_instant_is_finite(samples: int) -> None:
    assert counter(1, samples=samples).record(5, 0) >= 0


def test_saturating_client_gets_its_quota_over_minutes() -> None:
    bytes_in, sent, now_ms = counter(MB), 0, 0
    while now_ms < 300_000:
        sent += 50_000
        now_ms += 5 + bytes_in.record(50_000, now_ms)

    assert 0.98 < sent / MB / 300 < 1.02 + 10 / 300
