"""Which brokers must prove that a key is gone, and which proofs count."""

from typing import Any

import pytest

from ledgerstone.erasure.hosting import (
    Assignment,
    Hosting,
    Incarnation,
    ProofStanding,
    ReplicaProof,
    TombstoneProgress,
    standing,
)

TOMBSTONE = 7
DONE = {each: TombstoneProgress(each, 10, 10, is_removed=True) for each in (1, 2, 3, 4)}


def life(broker_id: int, disk: bytes = b"d") -> Incarnation:
    return Incarnation(broker_id, b"i", 100 + broker_id, disk)


def proof(broker_id: int, **fields: Any) -> ReplicaProof:
    known = {"partition_epoch": 5, "log_start_offset": 0, "log_end_offset": 10, "scanned_ms": 1}
    return ReplicaProof(life(broker_id), **{**known, "hits": 0, "digest": "x", **fields})


def hosting(*assignments: tuple[int, tuple[int, ...]]) -> Hosting:
    found = Hosting()
    for each in assignments or ((0, (1, 2, 3)),):
        found.assigned(Assignment(*each))
    return found


def judged(found: Hosting | None = None, **how: Any) -> ProofStanding:
    known: dict[str, Any] = {
        "min_in_sync": 2,
        "in_sync": (1, 2, 3),
        "progress": DONE,
        "proofs": [proof(1), proof(2), proof(3)],
        "lives": {each: life(each) for each in (1, 2, 3, 4)},
    }
    return standing(found or hosting(), TOMBSTONE, **{**known, **how})


def test_three_replicas_give_three_proofs() -> None:
    found = judged()

    assert (found.is_committed, found.is_stamped, found.is_removed) == (True, True, True)
    assert found.is_verified
    assert (found.missing, found.exceptions) == ((), ())


def test_104_a_replica_that_is_down_holds_the_receipt_until_it_is_back() -> None:
    up = {each: life(each) for each in (1, 2)}
    away = judged(proofs=[proof(1), proof(2)], lives=up)
    assert not away.is_verified
    assert away.missing == ((3, "is not reachable"),)

    back = judged(proofs=[proof(1), proof(2)])
    assert back.missing == ((3, "has not scanned"),)

    assert judged().is_verified


def test_an_operator_may_declare_a_broker_destroyed_and_the_receipt_names_it() -> None:
    found = judged(proofs=[proof(1), proof(2)], lives={1: life(1), 2: life(2)}, destroyed=[3, 9])

    assert found.is_verified
    assert found.exceptions == (3,)


@pytest.mark.parametrize(
    ("how", "stages"),
    [
        ({"in_sync": (1,)}, (False, False, False)),
        ({"progress": {1: DONE[1], 2: DONE[2]}}, (True, False, False)),
        ({"progress": {**DONE, 3: TombstoneProgress(3, 10, TOMBSTONE, is_removed=False)}},
         (True, False, False)),
        ({"progress": {**DONE, 3: TombstoneProgress(3, 10, 10, is_removed=False)}},
         (True, True, False)),
    ],
)  # fmt: skip
def test_a_stage_is_reached_when_every_replica_has_reached_it(
    how: dict[str, Any], stages: tuple[bool, bool, bool]
) -> None:
    found = judged(**how)

    assert (found.is_committed, found.is_stamped, found.is_removed) == stages
    assert not found.is_verified


def test_a_broker_that_was_reassigned_away_must_prove_it_too() -> None:
    moved = hosting((0, (1, 2, 3)), (4, (1, 2)))

    found = judged(moved, proofs=[proof(1), proof(2)])

    assert found.missing == ((3, "has not scanned"),)
    assert judged(moved).is_verified


def test_a_broker_that_joined_after_the_scans_is_covered_by_its_source() -> None:
    joined = hosting((0, (1, 2, 3)), (6, (1, 2, 3, 4)))

    assert judged(joined).is_verified


def test_a_broker_that_joined_before_the_last_scan_is_not() -> None:
    joined = hosting((0, (1, 2, 3)), (5, (1, 2, 3, 4)))

    assert judged(joined).missing == ((4, "has not scanned"),)


def test_a_broker_that_joined_while_a_proof_was_missing_is_not() -> None:
    joined = hosting((0, (1, 2, 3)), (6, (1, 2, 3, 4)))

    found = judged(joined, proofs=[proof(1), proof(2)])

    assert found.missing == ((3, "has not scanned"), (4, "has not scanned"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"hits": 2}, "still holds it in 2 places"),
        ({"log_end_offset": TOMBSTONE}, "had not copied the tombstone when it scanned"),
        ({"partition_epoch": -1}, "was assigned again since its scan"),
    ],
)
def test_a_proof_that_does_not_do_is_told_why(fields: dict[str, Any], reason: str) -> None:
    found = judged(proofs=[proof(1), proof(2), proof(3, **fields)])

    assert found.missing == ((3, reason),)


def test_a_new_disk_under_an_old_id_proves_nothing() -> None:
    lives = {1: life(1), 2: life(2), 3: life(3, b"other")}

    assert judged(lives=lives).missing == ((3, "has had another disk since its scan"),)
    # One that is away keeps the proof it gave.
    assert judged(lives={1: life(1), 2: life(2)}).is_verified


def test_the_newest_scan_counts() -> None:
    again = [proof(3, hits=1, scanned_ms=1), proof(3, scanned_ms=2)]

    assert judged(proofs=[proof(1), proof(2), *again]).is_verified


def test_old_news_of_assignments_changes_nothing() -> None:
    found = hosting((3, (1, 2)), (5, (2, 3)), (3, (1, 2)), (4, (9,)), (6, (2, 3)))

    assert [each.partition_epoch for each in found.assignments] == [3, 5]
    assert found.hosts() == {1: 3, 2: 3, 3: 5}


def test_a_broker_that_comes_back_is_assigned_anew() -> None:
    assert hosting((0, (1, 2)), (1, (1,)), (2, (1, 2))).hosts() == {1: 0, 2: 2}
