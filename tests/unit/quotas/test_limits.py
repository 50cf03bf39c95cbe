"""Eight levels: which limit holds, and who shares a counter."""

import pytest

from ledgerstone.quotas.counters import (
    MOST_COUNTERS,
    OTHERS,
    QuotaCounters,
    RateCounter,
    rate_counters,
)
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.quotas.limits import CounterKey, QuotaLimits
from ledgerstone.quotas.rate import NO_BOUND

NOBODY = "nobody"


def entity(user: str | None = NOBODY, client_id: str | None = NOBODY) -> QuotaEntity:
    """None is the default; a part that is not given is not in it."""
    named = {"user": user, "client-id": client_id}
    return QuotaEntity.of({kind: name for kind, name in named.items() if name != NOBODY})


VECTOR = {
    entity(user=None): 1000.0,
    entity(client_id=None): 2000.0,
    entity(None, None): 3000.0,
    entity(user="A"): 4000.0,
    entity("A", "c1"): 5000.0,
    entity(user="B"): 6000.0,
    entity("B", "c1"): 7000.0,
    entity("B", None): 8000.0,
    entity(user="C"): 10_000.0,
    entity(client_id="c1"): 9000.0,
}


@pytest.mark.parametrize(
    ("user", "client_id", "bound", "level", "shared_by"),
    [
        ("A", "c1", 5000, 1, ("A", "c1")),
        ("A", "c2", 4000, 3, ("A", None)),
        ("B", "c1", 7000, 1, ("B", "c1")),
        ("B", "c2", 8000, 2, ("B", "c2")),
        ("C", "c1", 10_000, 3, ("C", None)),
        ("D", "c1", 3000, 5, ("D", "c1")),
        ("D", "", 3000, 5, ("D", "")),
    ],
)
def test_most_specific_quota_holds_and_its_level_says_who_shares(
    user: str, client_id: str, bound: float, level: int, shared_by: tuple[str, str | None]
) -> None:
    limits = QuotaLimits(VECTOR)

    key = limits.counter_key(user, client_id)
    limit = limits.limit_of(key)

    assert key == shared_by
    assert limit.bound == bound
    assert limit.level is not None
    assert limit.level.number == level


def test_limits_follow_as_levels_are_removed_from_the_top() -> None:
    """Of D with client c1, which every level could hold for."""
    bounds = {
        entity("D", "c1"): 1.0,
        entity("D", None): 2.0,
        entity(user="D"): 3.0,
        entity(None, "c1"): 4.0,
        entity(None, None): 5.0,
        entity(user=None): 6.0,
        entity(client_id="c1"): 7.0,
        entity(client_id=None): 8.0,
    }
    found = []

    for gone in list(bounds):
        limits = QuotaLimits(bounds)
        limit = limits.limit_of(limits.counter_key("D", "c1"))
        found.append((limit.bound, limit.level.number if limit.level else None))
        del bounds[gone]

    assert found == [(float(level), level) for level in range(1, 9)]
    assert not QuotaLimits(bounds)


def test_clients_that_no_quota_is_for_are_counted_by_the_only_kind_there_is() -> None:
    by_user, by_client = (
        QuotaLimits({entity(user="A"): 1.0}),
        QuotaLimits({entity(client_id="c"): 1.0}),
    )
    by_both = QuotaLimits({entity("A", "c"): 1.0})

    assert by_user.counter_key("B", "x") == CounterKey("B", None)
    assert by_client.counter_key("B", "x") == CounterKey(None, "x")
    assert by_both.counter_key("B", "x") == CounterKey("B", "x")
    assert by_both.limit_of(CounterKey("B", "x")).bound == NO_BOUND


@pytest.mark.parametrize("default", [entity(client_id=None), entity(None, None), entity("A", None)])
def test_empty_client_id_does_not_escape_a_default(default: QuotaEntity) -> None:
    limits = QuotaLimits({default: 5.0})

    assert limits.limit_of(limits.counter_key("A", "")).bound == 5.0


def test_empty_client_id_is_not_everybody() -> None:
    limits = QuotaLimits({entity(user="A"): 5.0, entity(client_id=None): 7.0})

    assert limits.counter_key("B", "") == CounterKey(None, "")


# -- counters ------------------------------------------------------------------------------------


def counters() -> QuotaCounters[RateCounter]:
    return rate_counters(samples=11, window_ms=1000)


def test_clients_of_a_user_share_its_counter_and_others_do_not() -> None:
    book = counters()
    book.follow({entity(user=None): 100.0})

    assert book.get("A", "c1") is book.get("A", "c2")
    assert book.get("A", "c1") is not book.get("B", "c1")


def test_change_of_level_starts_a_fresh_counter_and_a_new_bound_keeps_the_old_one() -> None:
    book = counters()
    book.follow({entity(user="A"): 100.0})
    before = book.get("A", "c")
    book.follow({entity(user="A"): 200.0})
    rebound = book.get("A", "c")
    book.follow({entity(user="A"): 200.0, entity("A", "c"): 50.0})

    assert rebound is before
    assert before.bound == 200.0
    assert book.get("A", "c") is not before


def test_names_without_end_share_one_counter_and_named_ones_keep_their_own() -> None:
    book = counters()
    book.follow({entity(client_id=None): 100.0, entity(client_id="known"): 50.0})

    for number in range(MOST_COUNTERS + 10):
        book.get("A", f"c{number}")
    newcomer, other = book.get("A", "one more"), book.get("A", "another")

    assert newcomer is other
    assert newcomer.key.client_id == OTHERS
    assert newcomer.bound == 100.0
    assert book.get("A", "known").bound == 50.0
    assert len(book) <= MOST_COUNTERS + 2


def test_counter_is_forgotten_after_an_hour_of_silence() -> None:
    book = counters()
    book.follow({entity(client_id=None): 100.0})
    book.get("A", "quiet").record(1, 0)
    book.get("A", "busy").record(1, 3_000_000)

    book.forget_idle(3_600_000)

    assert [each.key.client_id for each in book] == ["busy"]
