"""How often somebody may guess a password."""

import pytest

from ledgerstone.security.login_rates import (
    LONGEST_WAIT_MS,
    MOST_FAILURES,
    MOST_KEPT,
    WINDOW_MS,
    LoginRates,
    network_of,
)

HOST = "10.0.0.1"


def fail(rates: LoginRates, name: str | None, host: str, now_ms: int, times: int) -> list[int]:
    return [rates.begin(name, host, now_ms) for _ in range(times)]


def test_sixth_failure_in_a_minute_has_to_wait_a_second() -> None:
    waits = fail(LoginRates(), "ann", HOST, 0, MOST_FAILURES + 1)

    assert waits == [0] * MOST_FAILURES + [1000]


def test_each_failure_beyond_the_limit_doubles_the_wait_up_to_a_bound() -> None:
    rates, now_ms, waits = LoginRates(), 0, []
    fail(rates, "ann", HOST, 0, MOST_FAILURES)
    for _ in range(7):
        wait_ms = rates.begin("ann", HOST, now_ms)
        waits.append(wait_ms)
        now_ms += wait_ms
        assert rates.begin("ann", HOST, now_ms) == 0

    assert waits[:5] == [1000, 2000, 4000, 8000, 16000]
    assert max(waits) == LONGEST_WAIT_MS


def test_other_networks_and_other_users_are_counted_apart() -> None:
    rates = LoginRates()
    for number in range(MOST_FAILURES):
        assert rates.begin("ann", f"10.0.{number}.1", 0) == 0

    assert rates.begin("ann", "10.9.9.9", 0) > 0
    assert rates.begin("bob", "10.0.0.1", 0) == 0


def test_one_network_guessing_many_users_has_to_wait() -> None:
    rates = LoginRates()
    for number in range(MOST_FAILURES):
        assert rates.begin(f"user {number}", f"10.0.0.{number}", 0) == 0

    assert rates.begin("another", "10.0.0.99", 0) > 0
    assert rates.begin("another", "10.0.1.99", 0) == 0


def test_successes_do_not_count_and_forgive_nothing() -> None:
    rates = LoginRates()
    for now_ms in range(100):
        assert rates.begin("ann", HOST, now_ms) == 0
        rates.succeeded("ann", HOST, now_ms)
    assert len(rates) == 0

    fail(rates, "ann", HOST, 100, MOST_FAILURES - 1)
    assert rates.begin("ann", HOST, 200) == 0
    rates.succeeded("ann", HOST, 200)
    assert rates.begin("ann", HOST, 201) == 0
    assert rates.begin("ann", HOST, 202) > 0


def test_a_minute_later_all_is_forgotten() -> None:
    rates = LoginRates()
    fail(rates, "ann", HOST, 0, MOST_FAILURES)

    assert rates.begin("ann", HOST, WINDOW_MS) == 0


def test_what_is_kept_is_bounded() -> None:
    rates = LoginRates()
    for number in range(5 * MOST_KEPT):
        rates.begin(f"user {number}" * 100, f"10.{number >> 16}.{number >> 8 & 255}.1", number)

    assert len(rates) <= 2 * MOST_KEPT


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.168.7.9", "192.168.7.0/24"),
        ("::ffff:192.168.7.9", "192.168.7.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_network_is_what_one_owner_easily_has(host: str, network: str) -> None:
    assert network_of(host) == network
