"""The expected end follows from the gates, and an erasure that will be late says so in time."""

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.facts import Facts
from ledgerstone.erasure.forecast import WORK_MS, Forecast, forecast, why_not_in_time
from ledgerstone.types import INT64_MAX
from tests.unit.erasure.making import DAY_MS, T0, at_stage, partition, requested, scan

DELAY_MS = 60_000
STAMPED = {"first_dirty_offset": 10}


def test_request_is_expected_after_retention_delay_and_work() -> None:
    found = forecast(requested(), Facts(delete_retention_ms=DAY_MS), now_ms=T0)

    assert found.expected_done_ms == T0 + DAY_MS + DELAY_MS + WORK_MS
    assert not found.will_miss
    assert "delete.retention.ms=86400000" in found.because


def test_scheduled_erasure_begins_when_it_is_due() -> None:
    erasure = requested(after_ms=7 * DAY_MS)

    found = forecast(erasure, Facts(delete_retention_ms=0), now_ms=T0)

    assert found.expected_done_ms == T0 + 7 * DAY_MS + DELAY_MS + WORK_MS
    assert found.because == "it is scheduled for 2027-01-22T08:00:00.000Z"


def test_gate_with_a_time_puts_the_horizon_off() -> None:
    facts = Facts(
        partitions={0: partition(waits_for="too young", opens_at_ms=T0 + 5 * DAY_MS)},
        delete_retention_ms=DAY_MS,
    )

    found = forecast(at_stage(Stage.TOMBSTONED), facts, now_ms=T0)

    assert found.expected_done_ms == T0 + 6 * DAY_MS + DELAY_MS + WORK_MS
    assert found.because.startswith("customers-0: too young; then delete.retention.ms=")


def test_stamped_erasure_is_expected_after_its_last_horizon() -> None:
    facts = Facts(
        partitions={
            0: partition(**STAMPED, horizon_ms=T0 + DAY_MS),
            3: partition(**STAMPED, horizon_ms=T0 + 2 * DAY_MS),
        }
    )

    found = forecast(at_stage(Stage.STAMPED), facts, now_ms=T0)

    assert found.expected_done_ms == T0 + 2 * DAY_MS + DELAY_MS + WORK_MS
    assert found.because == "customers-3: the tombstone's horizon"


def test_hold_beyond_the_horizon_counts() -> None:
    held = partition(
        **STAMPED, horizon_ms=T0, waits_for="group billing", opens_at_ms=T0 + 3 * DAY_MS
    )

    found = forecast(at_stage(Stage.STAMPED), Facts(partitions={0: held}), now_ms=T0)

    assert found.expected_done_ms == T0 + 3 * DAY_MS + DELAY_MS + WORK_MS
    assert found.because == "customers-0: group billing"


def test_removed_erasure_waits_for_its_files_only() -> None:
    erasure = at_stage(Stage.REMOVED)
    left = partition(leftovers_since_ms=T0, leftovers_go_at_ms=erasure.stage_ms + 500)

    found = forecast(erasure, Facts(partitions={0: left}), now_ms=erasure.stage_ms)

    assert found.expected_done_ms == erasure.stage_ms + 500 + WORK_MS


def test_unlinked_erasure_has_a_scan_left() -> None:
    found = forecast(at_stage(Stage.UNLINKED), Facts(), now_ms=T0 + DAY_MS)

    assert found.expected_done_ms == T0 + DAY_MS + WORK_MS


# -- alarms ---------------------------------------------------------------------------------------


def test_retention_beyond_the_deadline_alarms_at_the_request() -> None:
    facts = Facts(delete_retention_ms=31 * DAY_MS)

    found = forecast(requested(deadline_ms=T0 + 30 * DAY_MS), facts, now_ms=T0)

    assert found.will_miss
    assert not found.is_overdue
    assert "delete.retention.ms=2678400000" in found.because


def test_alarm_begins_with_the_first_millisecond_too_late() -> None:
    facts = Facts(delete_retention_ms=DAY_MS)
    erasure = requested(deadline_ms=T0 + 2 * DAY_MS)
    last_ms = T0 + DAY_MS - DELAY_MS - WORK_MS

    assert not forecast(erasure, facts, now_ms=last_ms).will_miss
    assert forecast(erasure, facts, now_ms=last_ms + 1).will_miss


def test_horizon_that_never_comes_has_no_expected_end() -> None:
    found = forecast(requested(), Facts(delete_retention_ms=INT64_MAX), now_ms=T0)

    assert found.expected_done_ms is None
    assert found.will_miss


@pytest.mark.parametrize(("left_ms", "alarms"), [(5 * DAY_MS, False), (DAY_MS, True)])
def test_gate_without_an_end_alarms_a_day_before_it_is_too_late(left_ms: int, alarms: bool) -> None:
    shut = partition(waits_for="producer 7 has a transaction open")
    facts = Facts(partitions={0: shut}, delete_retention_ms=0)
    deadline_ms = T0 + 30 * DAY_MS

    found = forecast(at_stage(Stage.TOMBSTONED), facts, now_ms=deadline_ms - left_ms)

    assert found.expected_done_ms is None
    assert found.will_miss is alarms
    assert found.because == "customers-0: producer 7 has a transaction open"


def test_short_deadline_has_a_tenth_of_it_as_lead() -> None:
    erasure = requested(deadline_ms=T0 + 10 * 3_600_000)
    facts = Facts(trouble="the scan worker died", delete_retention_ms=0)

    early = forecast(erasure, facts, now_ms=T0 + 8 * 3_600_000)
    late = forecast(erasure, facts, now_ms=T0 + 9 * 3_600_000)

    assert (early.will_miss, late.will_miss) == (False, True)
    assert late.because == "the scan worker died"


@pytest.mark.parametrize(("waited_ms", "alarms"), [(3_599_999, False), (3_600_000, True)])
def test_what_has_lasted_for_an_hour_alarms_weeks_before_the_deadline(
    waited_ms: int, alarms: bool
) -> None:
    shut = partition(waits_for="producer 7 has a transaction open")
    now_ms = T0 + DAY_MS
    facts = Facts(partitions={0: shut}, delete_retention_ms=0, blocked_since_ms=now_ms - waited_ms)

    found = forecast(at_stage(Stage.TOMBSTONED), facts, now_ms=now_ms)

    assert found.will_miss is alarms
    assert found.blocked_by == "customers-0: producer 7 has a transaction open"


def test_residue_is_what_blocks_also_while_the_next_scan_runs() -> None:
    erasure = at_stage(Stage.UNLINKED)
    dirty = scan(
        started_ms=erasure.stage_ms, residue=2, residue_places=("notes.txt at 7", "b at 1")
    )
    facts = Facts(scans=[dirty], in_flight="a scan of every file is under way")

    found = forecast(erasure, facts, now_ms=T0 + 31 * DAY_MS)

    assert found.is_overdue
    assert found.because == "node 1: 2 times the key outside of records: notes.txt at 7; b at 1"
    assert found.blocked_by == found.because


def test_hold_that_ends_after_the_deadline_blocks_and_one_that_ends_before_does_not() -> None:
    def held_until(opens_at_ms: int) -> Forecast:
        held = partition(**STAMPED, horizon_ms=T0, waits_for="group b", opens_at_ms=opens_at_ms)
        return forecast(at_stage(Stage.STAMPED), Facts(partitions={0: held}), now_ms=T0)

    late, early = held_until(T0 + 31 * DAY_MS), held_until(T0 + 20 * DAY_MS)

    assert (late.will_miss, late.blocked_by) == (True, "customers-0: group b")
    assert (early.will_miss, early.blocked_by) == (False, None)


def test_who_asks_for_too_much_is_told_by_how_much_and_what_would_help() -> None:
    erasure = requested(deadline_ms=T0 + 3_600_000)
    facts = Facts(delete_retention_ms=DAY_MS)

    said = why_not_in_time(erasure, facts, now_ms=T0) or ""

    assert "the deadline 2027-01-15T09:00:00.000Z cannot be met" in said
    assert "not before 2027-01-16T08:02:00.000Z" in said
    assert "delete.retention.ms=86400000 counts from the first pass" in said
    assert f"set delete.retention.ms of customers to at most {3_600_000 - 120_000}" in said
    assert "give it at least 1442 minutes" in said
    # Which is true.
    helped = Facts(delete_retention_ms=3_600_000 - 120_000)
    assert why_not_in_time(erasure, helped, now_ms=T0) is None
    later = requested(deadline_ms=T0 + 1442 * 60_000)
    assert why_not_in_time(later, facts, now_ms=T0) is None


@pytest.mark.parametrize(
    ("given", "retention_ms", "part"),
    [
        ({"deadline_ms": T0 + 1000}, 0, "To meet it, give it at least 2 minutes"),
        ({"deadline_ms": T0 + DAY_MS, "after_ms": DAY_MS - 1}, 0, "it is scheduled for"),
        ({"deadline_ms": T0 + DAY_MS}, INT64_MAX, "it will be done never"),
    ],
)
def test_other_reasons_are_told_too(given: dict[str, int], retention_ms: int, part: str) -> None:
    facts = Facts(delete_retention_ms=retention_ms)

    assert part in (why_not_in_time(requested(**given), facts, now_ms=T0) or "")


def test_past_deadline_is_overdue() -> None:
    found = forecast(requested(), Facts(), now_ms=T0 + 31 * DAY_MS)

    assert found.is_overdue
    assert found.will_miss


def test_erasure_without_a_deadline_never_alarms() -> None:
    facts = Facts(delete_retention_ms=INT64_MAX, trouble="the scan worker died")

    found = forecast(requested(deadline_ms=None), facts, now_ms=T0)

    assert not found.will_miss
    assert not found.is_overdue


@pytest.mark.parametrize("stage", [Stage.VERIFIED, Stage.RECEIPTED])
def test_proven_erasure_has_nothing_left_to_miss(stage: Stage) -> None:
    found = forecast(at_stage(stage), Facts(), now_ms=T0 + 99 * DAY_MS)

    assert found == (None, False, False, "", None)


def test_deadline_is_met_by_the_proof_not_by_the_receipt() -> None:
    verified_ms = at_stage(Stage.VERIFIED).stage_ms

    met = at_stage(Stage.RECEIPTED, requested(deadline_ms=verified_ms))
    missed = at_stage(Stage.RECEIPTED, requested(deadline_ms=verified_ms - 1))
    none = at_stage(Stage.RECEIPTED, requested(deadline_ms=None))

    assert (met.met_deadline, missed.met_deadline, none.met_deadline) == (True, False, None)
