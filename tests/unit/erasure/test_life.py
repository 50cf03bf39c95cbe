"""`next_step`, stage by stage: what is asked for, what is waited for, and what is said."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ledgerstone.erasure import changes
from ledgerstone.erasure.erasure import (
    TRANSITIONS,
    AskedAbort,
    Erasure,
    Evidence,
    PartitionEnd,
    RecordSpan,
    ScanOutcome,
    ScanProof,
    Stage,
    Tombstone,
)
from ledgerstone.erasure.facts import (
    BlockingTxn,
    Facts,
    PartitionFacts,
    SearchOutcome,
    sort_findings,
)
from ledgerstone.erasure.journal import decode, encode
from ledgerstone.erasure.life import RESCAN_REST_MS, REST_MS, next_step, standing_objection
from ledgerstone.erasure.steps import (
    AbortOpen,
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    Nothing,
    ScanStep,
    Search,
    Step,
    WaitStep,
    WriteTombstones,
)
from ledgerstone.errors import InvalidRequest, InvariantViolation
from ledgerstone.types import INT64_MAX
from tests.unit.erasure.making import (
    DAY_MS,
    KEY,
    SALT,
    T0,
    TOMBSTONES,
    at_stage,
    partition,
    requested,
    scan,
)

NOW = T0 + 20 * 60_000
FOUND = RecordSpan("customers", 3, 2, 4, 2)


def search(*, own: tuple[Tombstone, ...] = (), found: tuple[RecordSpan, ...] = (FOUND,)) -> Facts:
    outcome = SearchOutcome(
        home_partition=0, ends=(PartitionEnd(0, 9),), found=found, own_tombstones=own
    )
    return Facts(search=outcome)


def logs(zero: PartitionFacts, three: PartitionFacts | None = None) -> Facts:
    partitions = {0: zero} if three is None else {0: zero, 3: three}
    return Facts(partitions=partitions, node_ids=[1])


def step(stage: Stage, facts: Facts, *, now_ms: int = NOW) -> Step:
    return next_step(at_stage(stage), facts, now_ms=now_ms)


def reached(found: Step) -> Stage:
    assert isinstance(found, Advance)
    return found.erasure.stage


# -- the table of transitions ---------------------------------------------------------------------


@pytest.mark.parametrize("stage", [stage for stage in Stage if not TRANSITIONS[stage]])
def test_what_is_over_needs_nothing(stage: Stage) -> None:
    erasure = replace(requested(), stage=stage)

    assert next_step(erasure, Facts(), now_ms=NOW) == Nothing()


@pytest.mark.parametrize("stage", list(Stage))
def test_stages_are_left_by_the_ways_of_the_table_only(stage: Stage) -> None:
    erasure = replace(at_stage(Stage.REQUESTED), stage=stage)
    moves: dict[Stage, Callable[[], Erasure]] = {
        Stage.REQUESTED: lambda: changes.due(erasure, now_ms=NOW),
        Stage.NOT_FOUND: lambda: changes.not_found(erasure, note="", now_ms=NOW),
        Stage.STAMPED: lambda: changes.stamped(erasure, now_ms=NOW),
        Stage.REMOVED: lambda: changes.removed(erasure, now_ms=NOW),
        Stage.UNLINKED: lambda: changes.unlinked(erasure, now_ms=NOW),
        Stage.RECEIPTED: lambda: changes.receipted(erasure, "", now_ms=NOW),
    }
    for target, move in moves.items():
        if target in TRANSITIONS[stage]:
            assert move().stage is target
        else:
            with pytest.raises(InvariantViolation, match=f"from {stage.value} no way"):
                move()


def test_clock_that_was_set_back_does_not_disorder_the_stages() -> None:
    erasure = at_stage(Stage.TOMBSTONED)

    after = changes.stamped(erasure, now_ms=T0 - DAY_MS)

    assert after.reached_ms(Stage.STAMPED) == erasure.stage_ms


def test_sealed_key_goes_when_the_tombstones_are_written() -> None:
    before, after = at_stage(Stage.SEARCHED), at_stage(Stage.TOMBSTONED)

    assert before.sealed_key is not None
    assert after.sealed_key is None


# -- up to the tombstone --------------------------------------------------------------------------


def test_request_is_searched_first() -> None:
    assert step(Stage.REQUESTED, Facts()) == Search()


def test_request_for_a_topic_that_is_gone_ends() -> None:
    found = step(Stage.REQUESTED, Facts(topic_exists=False))

    assert reached(found) is Stage.NOT_FOUND


def test_home_partition_gets_a_tombstone_beside_the_holders() -> None:
    found = step(Stage.REQUESTED, search())

    assert isinstance(found, Advance)
    assert found.erasure.target_partitions == (0, 3)
    assert found.erasure.searched_ends == (PartitionEnd(0, 9),)


@pytest.mark.parametrize("stage", [Stage.REQUESTED, Stage.SEARCHED])
@pytest.mark.parametrize("found", [(), (FOUND,)])
def test_search_that_may_have_missed_something_is_repeated_after_a_rest(
    stage: Stage, found: tuple[RecordSpan, ...]
) -> None:
    outcome = SearchOutcome(
        home_partition=0, ends=(), found=found, ended_ms=NOW, trouble="damaged: 0.log at 7"
    )
    facts = Facts(search=outcome)

    resting = step(stage, facts, now_ms=NOW)

    assert resting == WaitStep(NOW + REST_MS, "the search is incomplete: damaged: 0.log at 7")
    assert step(stage, facts, now_ms=NOW + REST_MS) == Search()


def test_restart_after_the_search_searches_again_before_it_writes() -> None:
    assert step(Stage.SEARCHED, Facts()) == Search()


def test_only_tombstones_that_are_not_there_are_written() -> None:
    there = Tombstone(3, 5, T0)

    some = step(Stage.SEARCHED, search(own=(there,)))
    none = step(Stage.SEARCHED, search())

    assert some == WriteTombstones((0,), (there,))
    assert none == WriteTombstones((0, 3), ())


def test_tombstones_that_are_all_there_are_only_written_down() -> None:
    found = step(Stage.SEARCHED, search(own=TOMBSTONES))

    assert isinstance(found, Advance)
    assert found.erasure.tombstones == TOMBSTONES


def test_last_of_two_own_tombstones_counts() -> None:
    found = step(Stage.SEARCHED, search(own=(*TOMBSTONES, Tombstone(3, 8, T0))))

    assert isinstance(found, Advance)
    assert [each.offset for each in found.erasure.tombstones] == [9, 8]


def test_tombstones_elsewhere_than_due_are_our_mistake() -> None:
    with pytest.raises(InvariantViolation, match=r"tombstones in \(0,\), due in \(0, 3\)"):
        changes.tombstoned(at_stage(Stage.SEARCHED), TOMBSTONES[:1], now_ms=NOW)


@pytest.mark.parametrize("stage", [Stage.REQUESTED, Stage.SEARCHED, Stage.UNLINKED])
def test_work_under_way_is_not_begun_again_and_trouble_is_told(stage: Stage) -> None:
    busy = step(stage, Facts(in_flight="a search is running", node_ids=[1]))
    hurt = step(stage, Facts(trouble="the scan worker died: exit code -9", node_ids=[1]))

    assert busy == WaitStep(None, "a search is running")
    assert hurt == WaitStep(None, "the scan worker died: exit code -9")


# -- the passes -----------------------------------------------------------------------------------


def test_passes_are_asked_for_where_none_has_seen_the_tombstone() -> None:
    seen = partition(first_dirty_offset=6, horizon_ms=NOW)

    assert step(Stage.TOMBSTONED, logs(partition(), partition())) == Ask((0, 3))
    assert step(Stage.TOMBSTONED, logs(partition(), seen)) == Ask((0,))


def test_dirty_offset_at_the_tombstone_has_not_passed_it() -> None:
    before = partition(first_dirty_offset=9, horizon_ms=NOW)
    after = partition(first_dirty_offset=10, horizon_ms=NOW)

    assert step(Stage.TOMBSTONED, logs(before)) == Ask((0,))
    assert reached(step(Stage.TOMBSTONED, logs(after))) is Stage.STAMPED


def test_tombstone_without_horizon_below_the_dirty_offset_is_not_stamped() -> None:
    assert step(Stage.TOMBSTONED, logs(partition(first_dirty_offset=10))) == Ask((0,))


def test_superseded_tombstone_and_deleted_records_count_as_passed() -> None:
    superseded = partition(first_dirty_offset=12, tombstone_is_there=False)
    expired = partition(log_start_offset=6, tombstone_is_there=False)

    assert reached(step(Stage.TOMBSTONED, logs(superseded, expired))) is Stage.STAMPED


def test_partitions_of_a_deleted_topic_count_as_passed_and_removed() -> None:
    gone = Facts(topic_exists=False, node_ids=[1])

    assert reached(step(Stage.TOMBSTONED, gone)) is Stage.STAMPED
    assert reached(step(Stage.STAMPED, gone)) is Stage.REMOVED
    assert reached(step(Stage.REMOVED, gone)) is Stage.UNLINKED


def test_shut_gate_is_told_with_the_time_it_opens() -> None:
    shut = partition(waits_for="min.compaction.lag.ms=9", opens_at_ms=NOW + 9)

    assert step(Stage.TOMBSTONED, logs(shut)) == WaitStep(
        NOW + 9, "customers-0: min.compaction.lag.ms=9"
    )


def test_gate_that_opens_first_is_told_first() -> None:
    endless = partition(waits_for="a transaction is open")
    timed = partition(waits_for="too young", opens_at_ms=NOW + 5)

    assert step(Stage.TOMBSTONED, logs(endless, timed)) == WaitStep(
        NOW + 5, "customers-3: too young"
    )


def test_open_partition_is_asked_for_while_another_waits() -> None:
    shut = partition(waits_for="a transaction is open")

    assert step(Stage.TOMBSTONED, logs(shut, partition())) == Ask((3,))


def test_pass_that_is_pending_is_not_asked_for_again() -> None:
    found = step(Stage.TOMBSTONED, logs(partition(pass_is_pending=True)))

    assert found == WaitStep(None, "customers-0: a pass is asked for or running")


def test_pass_that_did_not_help_is_asked_for_again_after_a_rest() -> None:
    futile = logs(partition(last_pass_started_ms=NOW - 1))
    earlier = logs(partition(last_pass_started_ms=T0))

    resting = step(Stage.TOMBSTONED, futile)

    assert isinstance(resting, WaitStep)
    assert resting.until_ms == NOW - 1 + REST_MS
    assert step(Stage.TOMBSTONED, futile, now_ms=NOW - 1 + REST_MS) == Ask((0,))
    assert step(Stage.TOMBSTONED, earlier) == Ask((0,))


def test_stamped_tombstones_wait_for_the_first_horizon() -> None:
    zero = partition(first_dirty_offset=10, horizon_ms=NOW + 50)
    three = partition(first_dirty_offset=10, horizon_ms=NOW + 40)

    found = step(Stage.STAMPED, logs(zero, three))

    assert isinstance(found, WaitStep)
    assert found.until_ms == NOW + 40
    assert "delete.retention.ms=86400000" in found.because
    assert step(Stage.STAMPED, logs(zero, three), now_ms=NOW + 40) == Ask((3,))
    assert step(Stage.STAMPED, logs(zero, three), now_ms=NOW + 50) == Ask((0, 3))


def test_horizon_that_never_comes_is_told_as_such() -> None:
    found = step(Stage.STAMPED, logs(partition(first_dirty_offset=10, horizon_ms=INT64_MAX)))

    assert isinstance(found, WaitStep)
    assert "for ever" in found.because


def test_held_tombstone_tells_who_holds_it() -> None:
    held = partition(
        first_dirty_offset=10, horizon_ms=NOW - 1, waits_for="group billing is at 4",
        opens_at_ms=NOW + DAY_MS,
    )  # fmt: skip

    assert step(Stage.STAMPED, logs(held)) == WaitStep(
        NOW + DAY_MS, "customers-0: group billing is at 4"
    )


def test_tombstones_that_are_gone_are_removed() -> None:
    gone = partition(first_dirty_offset=10, tombstone_is_there=False)

    assert reached(step(Stage.STAMPED, logs(gone, gone))) is Stage.REMOVED


# -- the evidence ---------------------------------------------------------------------------------


def test_files_left_by_the_passes_are_waited_for() -> None:
    removed_ms = at_stage(Stage.REMOVED).stage_ms
    left = partition(leftovers_since_ms=removed_ms, leftovers_go_at_ms=NOW + 7)

    found = step(Stage.REMOVED, logs(left))

    assert isinstance(found, WaitStep)
    assert found.until_ms == NOW + 7
    assert "file.delete.delay.ms=60000" in found.because


def test_files_left_by_later_passes_are_not_waited_for() -> None:
    removed_ms = at_stage(Stage.REMOVED).stage_ms
    later = partition(leftovers_since_ms=removed_ms + 1, leftovers_go_at_ms=NOW + 7)

    assert reached(step(Stage.REMOVED, logs(later))) is Stage.UNLINKED


def test_journal_is_compacted_before_the_scan_while_it_holds_sealed_keys() -> None:
    facts = Facts(node_ids=[1], sealed_copies_left=True)

    assert step(Stage.UNLINKED, facts) == Ask((), journal=True)


def test_every_node_is_scanned() -> None:
    assert step(Stage.UNLINKED, Facts(node_ids=[2, 1])) == ScanStep((1, 2))
    assert step(Stage.UNLINKED, Facts(node_ids=[1, 2], scans=[scan()])) == ScanStep((2,))


def test_scan_from_before_the_files_were_gone_does_not_count() -> None:
    early = scan(started_ms=at_stage(Stage.UNLINKED).stage_ms - 1)

    assert step(Stage.UNLINKED, Facts(node_ids=[1], scans=[early])) == ScanStep((1,))


def test_clean_scan_verifies() -> None:
    found = step(Stage.UNLINKED, Facts(node_ids=[1], scans=[scan(mentions=3)]))

    assert isinstance(found, Advance)
    assert found.erasure.stage is Stage.VERIFIED
    assert found.erasure.scans[0].mentions == 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"trouble": "a.log: Permission denied"}, "incomplete: a.log: Permission denied"),
        ({"residue": 2, "residue_places": ("x.snapshot:7",)}, "2 times the key outside of records"),
        ({"records": (RecordSpan("customers", 0, 9, 9, 1),)}, "1 in customers-0, offsets 9 to 9"),
        ({"records": (RecordSpan("customers", 1, 19, 30, 2),)}, "offsets 19 to 30"),
    ],
)
def test_scan_that_is_not_clean_blocks_and_is_repeated(
    change: dict[str, object], text: str
) -> None:
    dirty = scan(**change)
    facts = Facts(node_ids=[1], scans=[dirty])

    found = step(Stage.UNLINKED, facts, now_ms=dirty.ended_ms)

    assert isinstance(found, WaitStep)
    assert text in found.because
    assert found.because.startswith("node 1: ")
    assert found.until_ms == dirty.ended_ms + RESCAN_REST_MS
    assert step(Stage.UNLINKED, facts, now_ms=found.until_ms) == ScanStep((1,))


def test_long_scan_rests_ten_times_as_long() -> None:
    dirty = scan(residue=1, started_ms=NOW, ended_ms=NOW + 60_000)

    found = step(Stage.UNLINKED, Facts(node_ids=[1], scans=[dirty]), now_ms=NOW + 60_000)

    assert isinstance(found, WaitStep)
    assert found.until_ms == NOW + 60_000 + 600_000


def test_records_are_sorted_into_lives_by_tombstone_and_search() -> None:
    later = RecordSpan("customers", 0, 10, 12, 3)  # after the tombstone at 9
    beyond = RecordSpan("customers", 1, 20, 20, 1)  # where the search had ended
    new_partition = RecordSpan("customers", 7, 0, 0, 1)
    other = RecordSpan("orders", 0, 0, 5, 2)
    found = step(
        Stage.UNLINKED,
        Facts(node_ids=[1], scans=[scan(records=(other, later, beyond, new_partition))]),
    )

    assert isinstance(found, Advance)
    assert found.erasure.recreated == (later, beyond, new_partition)
    assert found.erasure.elsewhere == (other,)


@pytest.mark.parametrize(
    ("span", "is_older"),
    [
        (RecordSpan("customers", 0, 10, 10, 1, leader_epoch=4), True),
        (RecordSpan("customers", 0, 10, 10, 1, leader_epoch=5), False),
        (RecordSpan("customers", 0, 10, 10, 1, leader_epoch=6), False),
        (RecordSpan("customers", 0, 10, 10, 1), True),  # nobody knows
        (RecordSpan("customers", 0, 9, 10, 2, leader_epoch=6), True),
        (RecordSpan("customers", 1, 20, 20, 1, leader_epoch=2), True),
        (RecordSpan("customers", 1, 20, 20, 1, leader_epoch=3), False),
    ],
)
def test_record_of_an_older_leader_is_no_later_life(span: RecordSpan, is_older: bool) -> None:
    """After an unclean election it may lie behind the tombstone, or behind the search's end."""
    erasure = replace(
        at_stage(Stage.UNLINKED),
        tombstones=(Tombstone(0, 9, T0, 5),),
        searched_ends=(PartitionEnd(0, 9, 5), PartitionEnd(1, 20, 3)),
    )

    found = sort_findings(erasure, [scan(records=(span,))], Facts())

    assert (found.older, found.recreated) == (([span], []) if is_older else ([], [span]))


def test_record_in_a_log_that_has_lost_the_tombstone_is_no_later_life() -> None:
    """Whatever its offset and its leader: it may have been written before the tombstone was."""
    span = RecordSpan("customers", 0, 10, 10, 1, leader_epoch=6)
    erasure = replace(at_stage(Stage.UNLINKED), tombstones=(Tombstone(0, 9, T0, 5),))
    lost = scan(records=(span,), without_tombstone=(0,))
    other = scan(records=(span,), without_tombstone=(1,))

    assert sort_findings(erasure, [other], Facts()).recreated == [span]
    assert sort_findings(erasure, [lost], Facts()).older == [span]
    objection = standing_objection(erasure, Facts(node_ids=[1], scans=[lost])) or ""
    assert "customers-0 has lost the tombstone: erase the key again" in objection


def test_log_of_another_topic_of_the_name_proves_nothing() -> None:
    span = RecordSpan("customers", 0, 10, 10, 1)
    scans = [scan(records=(span,), has_namesake=True)]

    known = Facts(node_ids=[1], scans=scans)
    assert step(Stage.UNLINKED, known) == ScanStep((1,))
    objection = standing_objection(at_stage(Stage.UNLINKED), known) or ""
    assert "in another topic customers, that is hosted there" in objection
    # Of a topic that was deleted, it is the one that came after it.
    deleted = Facts(topic_exists=False, node_ids=[1], scans=scans)
    assert isinstance(step(Stage.UNLINKED, deleted), Advance)


def test_topic_that_came_back_under_its_name_is_another_topic() -> None:
    span = RecordSpan("customers", 0, 0, 0, 1)
    facts = Facts(topic_exists=False, node_ids=[1], scans=[scan(records=(span,))])

    found = step(Stage.UNLINKED, facts)

    assert isinstance(found, Advance)
    assert found.erasure.elsewhere == (span,)


def test_broker_that_still_hosts_a_deleted_topic_proves_nothing() -> None:
    """It has not heard of the deletion: its records would pass for those of another topic."""
    span = RecordSpan("customers", 0, 0, 0, 1)
    hosting = scan(records=(span,), proof=ScanProof("i", 4, ("d",), (), 1))
    facts = Facts(topic_exists=False, node_ids=[1], scans=[hosting])

    assert step(Stage.UNLINKED, facts) == ScanStep((1,))


def evidence(outcome: ScanOutcome, *, verifier: str = "lake") -> Evidence:
    return Evidence(
        verifier=verifier, output="table", outcome=outcome, evidence="9 files", given_ms=NOW
    )


def test_receipt_waits_for_the_verifiers_that_were_named() -> None:
    erasure = at_stage(Stage.VERIFIED, requested(awaited_verifiers=["lake", "cache"]))

    asked = next_step(erasure, Facts(), now_ms=NOW)
    one = changes.with_evidence(erasure, evidence(ScanOutcome.CLEAN), salt=SALT)
    both = changes.with_evidence(one, evidence(ScanOutcome.UNKNOWN, verifier="cache"), salt=SALT)

    assert asked == AskVerifiers(("cache", "lake"))
    assert next_step(one, Facts(), now_ms=NOW) == AskVerifiers(("cache",))
    assert next_step(both, Facts(), now_ms=NOW) == Issue()


def test_residue_downstream_blocks_until_the_verifier_says_otherwise() -> None:
    erasure = at_stage(Stage.VERIFIED)
    dirty = changes.with_evidence(erasure, evidence(ScanOutcome.RESIDUE), salt=SALT)

    blocked = next_step(dirty, Facts(), now_ms=NOW)
    clean = changes.with_evidence(dirty, evidence(ScanOutcome.CLEAN), salt=SALT)

    assert blocked == WaitStep(None, "verifier lake found the key in table: 9 files")
    assert len(clean.evidence) == 1
    assert next_step(clean, Facts(), now_ms=NOW) == Issue()


@pytest.mark.parametrize("field", ["verifier", "output", "evidence"])
def test_evidence_that_holds_the_key_is_refused_without_repeating_it(field: str) -> None:
    change: dict[str, Any] = {field: f"no {KEY.decode()} here"}
    telling = replace(evidence(ScanOutcome.CLEAN), **change)

    with pytest.raises(InvalidRequest, match=f"{field} contains the key, at byte 3") as caught:
        changes.with_evidence(at_stage(Stage.VERIFIED), telling, salt=SALT)

    assert KEY.decode() not in str(caught.value)


def test_evidence_is_bounded_and_ends_with_the_receipt() -> None:
    long = replace(evidence(ScanOutcome.CLEAN), evidence="x" * 4097)
    erasure = at_stage(Stage.VERIFIED)

    with pytest.raises(InvalidRequest, match="at most 4096"):
        changes.with_evidence(erasure, long, salt=SALT)
    with pytest.raises(InvalidRequest, match="takes no more evidence"):
        changes.with_evidence(at_stage(Stage.RECEIPTED), evidence(ScanOutcome.CLEAN), salt=SALT)
    for number in range(changes.MAX_EVIDENCE):
        word = evidence(ScanOutcome.CLEAN, verifier=f"v{number}")
        erasure = changes.with_evidence(erasure, word, salt=SALT)
    with pytest.raises(InvalidRequest, match="256 pieces"):
        changes.with_evidence(erasure, evidence(ScanOutcome.CLEAN), salt=SALT)


# -- open transactions ----------------------------------------------------------------------------

HELD = partition(waits_for="a transaction is open", abortable_txns=(BlockingTxn(7, 2),))


def test_open_transaction_is_waited_for_unless_it_may_be_aborted() -> None:
    patient = at_stage(Stage.TOMBSTONED)
    asked = replace(patient, abort_open=True)

    waits = next_step(patient, logs(HELD, HELD), now_ms=NOW)
    aborts = next_step(asked, logs(HELD, partition()), now_ms=NOW)

    assert isinstance(waits, WaitStep)
    assert "a transaction is open" in waits.because
    assert aborts == AbortOpen(((0, BlockingTxn(7, 2)),))


def test_transaction_that_is_being_aborted_is_waited_for() -> None:
    asked = replace(at_stage(Stage.TOMBSTONED), abort_open=True)
    under_way = partition(waits_for="it is being aborted")

    found = next_step(asked, logs(under_way, under_way), now_ms=NOW)

    assert isinstance(found, WaitStep)
    assert "it is being aborted" in found.because


def test_aborted_transaction_is_written_down_once() -> None:
    first = AskedAbort(0, 2, 7, NOW)

    once = changes.aborting(at_stage(Stage.TOMBSTONED), [first])
    again = changes.aborting(once, [first._replace(asked_ms=NOW + 1), AskedAbort(3, 5, 7, NOW)])

    assert again.asked_aborts == (first, AskedAbort(3, 5, 7, NOW))
    assert decode(encode(again)) == again
