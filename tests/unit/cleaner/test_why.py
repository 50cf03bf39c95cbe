"""Every gate that keeps records on disk says so, with numbers and the time it opens."""

from typing import Any

import pytest

from ledgerstone.cleaner.deadlines import Due
from ledgerstone.cleaner.holds import GroupHold, Holds, ReplicaHold
from ledgerstone.cleaner.open_txn import OpenTxn, TxnOwner
from ledgerstone.cleaner.plan import TombstoneRange
from ledgerstone.cleaner.selection import CleaningReason, DirtySegment, LogFacts, measure
from ledgerstone.cleaner.why import Gate, KeyRecord, Situation, explain_record, first_shut, gates
from tests.unit.cleaner.test_selection import HOUR_MS, T0, facts

SEALED = facts(DirtySegment(0, 70, T0, T0), DirtySegment(10, 0), end_offset=10)
NOTHING_DIRTY = 10


def situation(
    log_facts: LogFacts = SEALED, checkpoint: int | None = None, **changes: Any
) -> Situation:
    """A log that nothing keeps from being cleaned, unless told otherwise."""
    given: dict[str, Any] = {
        "now_ms": T0 + HOUR_MS,
        "facts": log_facts,
        "log": measure(log_facts, checkpoint, now_ms=T0 + HOUR_MS),
        "dues": [],
        "compacts": True,
        "is_enabled": True,
        "finishes_deletes": True,
        "segment_bytes": 1000,
        "segment_ms": 7 * HOUR_MS,
        "delete_retention_ms": HOUR_MS,
        "high_watermark": log_facts.log_end_offset,
        "state": "free",
    }
    return Situation(**{**given, **changes})


def shut(about: Situation) -> Gate:
    found = first_shut(gates(about))
    assert found is not None
    return found


def test_dirty_log_has_every_gate_open() -> None:
    found = gates(situation())

    assert first_shut(found) is None
    assert [gate.name for gate in found] == [
        "policy", "cleaner", "health", "active segment", "undecided", "age", "dirty ratio",
        "horizon",
    ]  # fmt: skip


def test_topic_that_is_not_compacted_is_told_so_first() -> None:
    found = shut(situation(compacts=False))

    assert found.name == "policy"
    assert "does not contain compact" in found.text


def test_cleaner_that_is_off_or_has_no_worker_is_named() -> None:
    off = shut(situation(is_enabled=False))
    dead = shut(situation(worker_failure="exit code -9"))

    assert (off.name, dead.name) == ("cleaner", "cleaner")
    assert "exit code -9" in dead.text


def test_failed_pass_says_why_and_when_it_is_tried_again() -> None:
    again = shut(situation(trouble="bad crc at 00.log:70", retry_at_ms=T0 + 5))
    never = shut(situation(trouble="bad crc at 00.log:70"))

    assert again.opens_at_ms == T0 + 5
    assert "bad crc at 00.log:70; it will be retried" in again.text
    assert "it needs a restart" in never.text


def test_records_in_the_active_segment_wait_for_its_roll() -> None:
    active = facts(DirtySegment(0, 70, T0, T0), end_offset=10)

    without = shut(situation(active))
    due = shut(situation(active, dues=[Due(CleaningReason.TOMBSTONE, T0 + 5, 0)]))
    stock = shut(situation(active, dues=[Due(CleaningReason.LAG, T0, 0)], finishes_deletes=False))

    assert without.name == "active segment"
    assert "70 bytes from offset 0 on" in without.text
    assert "segment.bytes=1000" in without.text
    assert (without.opens_at_ms, due.opens_at_ms, stock.opens_at_ms) == (None, T0 + 5, None)


def test_open_transaction_is_named_with_its_producer_and_offset() -> None:
    pinned = facts(*SEALED.segments, end_offset=10, last_stable_offset=4)
    owner = TxnOwner("copier-3", since_ms=0)

    hanging = shut(situation(pinned, open_txn=OpenTxn(77, 4)))
    owned = shut(situation(pinned, open_txn=OpenTxn(77, 4, owner)))

    assert "producer 77 has had a transaction open since offset 4" in hanging.text
    assert "no coordinator here knows it" in hanging.text
    assert "transactional id copier-3 (producer 77)" in owned.text
    assert "since offset 4, 1970-01-01T00:00:00.000Z" in owned.text


def test_what_is_not_replicated_is_not_cleaned() -> None:
    behind = facts(*SEALED.segments, end_offset=10, last_stable_offset=4)

    found = shut(situation(behind, high_watermark=4))

    assert "the high watermark is 4" in found.text


def test_min_compaction_lag_opens_when_the_youngest_record_is_old_enough() -> None:
    young = facts(
        DirtySegment(0, 70, T0, T0),
        DirtySegment(10, 0),
        end_offset=10,
        min_compaction_lag_ms=2 * HOUR_MS,
    )

    found = shut(situation(young))

    assert found.name == "age"
    assert found.opens_at_ms == T0 + 2 * HOUR_MS


def test_ratio_that_is_too_low_is_told_in_numbers() -> None:
    mostly_clean = facts(
        DirtySegment(0, 90), DirtySegment(10, 10), DirtySegment(20, 0), end_offset=20
    )

    found = shut(situation(mostly_clean, checkpoint=10))

    assert found.name == "dirty ratio"
    assert "10 of 100 bytes" in found.text
    assert "0.100; min.cleanable.dirty.ratio is 0.5" in found.text
    assert found.opens_at_ms is None


def test_low_ratio_is_no_hindrance_for_a_pass_that_is_due() -> None:
    due = [Due(CleaningReason.HORIZON, T0)]
    later = [Due(CleaningReason.HORIZON, T0 + 3 * HOUR_MS)]

    assert first_shut(gates(situation(checkpoint=NOTHING_DIRTY, dues=due))) is None
    assert shut(situation(checkpoint=NOTHING_DIRTY, dues=later)).opens_at_ms == T0 + 3 * HOUR_MS


def test_horizon_keeps_tombstones_until_its_time() -> None:
    before = shut(situation(earliest_horizon_ms=T0 + 2 * HOUR_MS))
    after = first_shut(gates(situation(earliest_horizon_ms=T0)))

    assert (before.name, before.opens_at_ms) == ("horizon", T0 + 2 * HOUR_MS)
    assert after is None


def test_pass_at_work_is_told() -> None:
    assert shut(situation(state="in progress")).text == "cleaning is in progress"


@pytest.mark.parametrize(
    ("record", "name"),
    [
        (KeyRecord(5, False, None, None), "live"),
        (KeyRecord(5, False, None, 6), "superseded"),
        (KeyRecord(5, True, None, 6), "superseded"),
        (KeyRecord(5, True, None, None), "fresh tombstone"),
        (KeyRecord(5, True, T0 + 9 * HOUR_MS, None), "retained tombstone"),
        (KeyRecord(5, True, T0, None), "due tombstone"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_record_of_a_key_is_at_one_stage(record: KeyRecord, name: str) -> None:
    found = explain_record(record, gates(situation()), now_ms=T0 + HOUR_MS)

    assert found.name == name


def test_retained_tombstone_goes_at_its_own_horizon() -> None:
    record = KeyRecord(5, True, T0 + 9 * HOUR_MS, None)

    found = explain_record(record, gates(situation()), now_ms=T0 + HOUR_MS)

    assert found.opens_at_ms == T0 + 9 * HOUR_MS


def test_superseded_record_waits_for_the_gate_that_is_shut() -> None:
    about = situation(trouble="broken", retry_at_ms=T0 + 5)

    found = explain_record(KeyRecord(5, False, None, 6), gates(about), now_ms=T0)

    assert "the last pass failed: broken" in found.text
    assert found.opens_at_ms == T0 + 5


def test_record_of_a_sealed_segment_does_not_wait_for_the_active_one() -> None:
    log = facts(DirtySegment(0, 70, T0, T0), DirtySegment(10, 70, T0, T0), end_offset=20)
    found = gates(situation(log))

    sealed = explain_record(KeyRecord(5, False, None, 6), found, now_ms=T0)
    active = explain_record(KeyRecord(5, False, None, 12), found, now_ms=T0)

    assert sealed.text == "superseded by a later record of its key; the next pass will see it"
    assert "70 bytes from offset 10 on are in the active segment" in active.text


# -- holds --------------------------------------------------------------------------------------

HOLDS = Holds(groups=(GroupHold("slow", 4), GroupHold("fast", 6)), max_ms=HOUR_MS)
NOW = T0 + HOUR_MS


@pytest.mark.parametrize("horizon_ms", [NOW, NOW - 10])
def test_held_tombstones_name_the_slowest_group_and_the_end(horizon_ms: int) -> None:
    about = situation(holds=HOLDS, ranges=(TombstoneRange(2, 8, horizon_ms),))

    found = gates(about)[-1]

    assert (found.name, found.is_open, found.opens_at_ms) == ("hold", False, horizon_ms + HOUR_MS)
    assert "from offset 4 to 8" in found.text
    assert "group slow has committed offset 4, and 1 more groups hold" in found.text


@pytest.mark.parametrize(
    "tombstones",
    [(2, 3, NOW), (2, 8, NOW + 1), (2, 8, NOW - HOUR_MS)],
)
def test_gate_of_holds_is_open_where_nothing_is_held(tombstones: tuple[int, int, int]) -> None:
    about = situation(holds=HOLDS, ranges=(TombstoneRange(*tombstones),))

    found = gates(about)[-1]

    assert (found.name, found.is_open) == ("hold", True)


def test_held_tombstone_of_a_key_names_who_holds_it() -> None:
    record = KeyRecord(5, True, NOW - 1, None)

    found = explain_record(record, gates(situation(holds=HOLDS)), now_ms=NOW, holds=HOLDS)

    assert found.name == "held tombstone"
    assert found.text.endswith("held: group slow has committed offset 4")
    assert found.opens_at_ms == NOW - 1 + HOUR_MS


def test_hold_keeps_no_pass_from_older_values() -> None:
    about = situation(holds=HOLDS, ranges=(TombstoneRange(5, 5, NOW),))

    found = explain_record(KeyRecord(1, False, None, 6), gates(about), now_ms=NOW, holds=HOLDS)

    assert found.text == "superseded by a later record of its key; the next pass will see it"


REPLICA_HOLD = Holds(replica=ReplicaHold(5, "replica 3 has not reported", NOW + HOUR_MS))


def test_tombstones_that_another_replica_needs_are_told_with_it() -> None:
    about = situation(holds=REPLICA_HOLD, ranges=(TombstoneRange(2, 8, NOW - 1),))

    gate = next(each for each in gates(about) if each.name == "replicas")

    assert not gate.is_open
    assert "from offset 5 to 8" in gate.text
    assert "replica 3 has not reported" in gate.text
    assert gate.opens_at_ms == NOW + HOUR_MS


@pytest.mark.parametrize("tombstones", [(2, 4, NOW - 1), (2, 8, NOW + 1)])
def test_replicas_hold_nothing_below_or_before_the_horizon(
    tombstones: tuple[int, int, int],
) -> None:
    about = situation(holds=REPLICA_HOLD, ranges=(TombstoneRange(*tombstones),))

    assert next(each for each in gates(about) if each.name == "replicas").is_open


def test_a_tombstone_that_another_replica_needs_is_explained() -> None:
    record = KeyRecord(6, True, NOW - 1, None)

    found = explain_record(record, [], now_ms=NOW, holds=REPLICA_HOLD)

    assert (found.name, found.is_open) == ("held tombstone", False)
    assert "held back: replica 3 has not reported" in found.text
    assert (
        explain_record(record._replace(offset=4), [], now_ms=NOW, holds=REPLICA_HOLD).name
        == "due tombstone"
    )
