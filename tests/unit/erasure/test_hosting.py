"""Which disks have to be shown free of a key, and which of them nobody has scanned."""

from typing import Any

import pytest

from ledgerstone.erasure import changes
from ledgerstone.erasure.erasure import (
    Erasure,
    FileHits,
    HostDisk,
    LostBroker,
    RecordCounts,
    ReplicaScan,
    ScanProof,
    Stage,
)
from ledgerstone.erasure.facts import Facts, PartitionFacts, is_readable, is_removed
from ledgerstone.erasure.hosting import (
    awaited_replicas,
    must_scan,
    unknown_replica,
    unproven_disks,
    why_not_given_up,
)
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.steps import Advance, Ask, ScanStep, WaitStep
from ledgerstone.errors import InvalidRequest
from tests.unit.erasure.making import SALT, T0, at_stage

DISKS = (HostDisk(1, "a"), HostDisk(2, "b"), HostDisk(3, "c"))


def scan(node_id: int, *disks: str, **fields: Any) -> ReplicaScan:
    known: dict[str, Any] = {
        "started_ms": T0 * 2,
        "ended_ms": T0 * 2 + 10,
        "files": 3,
        "scanned_bytes": 100,
        "digest": "0" * 64,
        "counts": RecordCounts(),
        "proof": ScanProof(f"i{node_id}", 7, disks),
    }
    return ReplicaScan(node_id=node_id, **{**known, **fields})


def lost(broker_id: int) -> LostBroker:
    return LostBroker(broker_id=broker_id, reason="shredded", by="ops", at_ms=T0)


ALL = [scan(1, "a"), scan(2, "b"), scan(3, "c")]


def test_every_disk_since_the_search_is_scanned_or_named() -> None:
    assert unproven_disks(DISKS, ALL, ()) == []
    assert unproven_disks(DISKS, ALL[:2], [lost(3)]) == []

    (missing,) = unproven_disks(DISKS, ALL[:2], ())
    assert missing.startswith("broker 3 had log directory c since the search")
    assert "accept --broker 3" in missing


def test_another_disk_under_the_same_id_proves_nothing_of_the_first() -> None:
    replaced = [*ALL[:2], scan(3, "new")]

    (missing,) = unproven_disks((*DISKS, HostDisk(3, "new")), replaced, ())

    assert "log directory c" in missing
    assert unproven_disks((*DISKS, HostDisk(3, "new")), replaced, [lost(3)]) == []


def test_scan_that_does_not_say_on_which_disks_proves_no_disk() -> None:
    assert unproven_disks(DISKS[:1], [scan(1, proof=None)], ())


def test_broker_that_was_given_up_owes_a_scan_once_it_is_back() -> None:
    brokers = (1, 2, 3)

    assert must_scan((), brokers, (1, 2), ()) == (1, 2, 3)
    assert must_scan((), brokers, (1, 2), (3,)) == (1, 2)
    assert must_scan((), brokers, (1, 2, 3), (3,)) == (1, 2, 3)
    # It has left the metadata and had a disk since the search.
    assert must_scan((HostDisk(4, "d"),), brokers, brokers, ()) == (1, 2, 3, 4)
    assert awaited_replicas((1, 2, 3), (3,), (1, 2)) == [1, 2]
    assert awaited_replicas((1, 2, 3), (3,), (1, 2, 3)) == [1, 2, 3]


# -- stages ---------------------------------------------------------------------------------------


def replica(node_id: int, **fields: Any) -> PartitionFacts:
    known: dict[str, Any] = {
        "log_start_offset": 0,
        "first_dirty_offset": 100,
        "tombstone_is_there": True,
        "horizon_ms": T0 + 1000,
    }
    return PartitionFacts(node_id=node_id, **{**known, **fields})


def facts(*replicas: PartitionFacts, **fields: Any) -> Facts:
    return Facts(replicas={0: replicas}, **fields)


def test_stage_is_reached_when_every_replica_shows_it() -> None:
    erasure = at_stage(Stage.TOMBSTONED)
    now_ms = erasure.stage_ms + 1

    late = next_step(erasure, facts(replica(1), replica(2, first_dirty_offset=0)), now_ms=now_ms)
    reached = next_step(erasure, facts(replica(1), replica(2)), now_ms=now_ms)

    assert late == Ask((), replicas=((0, 2),))
    assert isinstance(reached, Advance)
    assert reached.erasure.stage is Stage.STAMPED


def test_replica_that_does_not_answer_is_waited_for_and_the_others_go_on() -> None:
    erasure = at_stage(Stage.TOMBSTONED)
    now_ms = erasure.stage_ms + 1
    silent = unknown_replica(3, "broker 3 is fenced")

    others = next_step(erasure, facts(replica(1, first_dirty_offset=0), silent), now_ms=now_ms)
    alone = next_step(erasure, facts(replica(1), silent), now_ms=now_ms)

    assert others == Ask((), replicas=((0, 1),))
    assert isinstance(alone, WaitStep)
    assert alone.because == "customers-0 on broker 3: broker 3 is fenced"


@pytest.mark.parametrize("stage", [Stage.STAMPED, Stage.REMOVED])
def test_silence_of_one_replica_ends_no_stage(stage: Stage) -> None:
    erasure = at_stage(stage)
    silent = unknown_replica(3, "broker 3 is fenced")
    gone = replica(1, tombstone_is_there=False)

    step = next_step(erasure, facts(gone, silent), now_ms=erasure.stage_ms + 1)

    assert isinstance(step, WaitStep)
    assert "broker 3 is fenced" in step.because


def test_tombstone_is_removed_when_no_replica_has_it_and_readable_while_all_do() -> None:
    tombstone, _ = at_stage(Stage.STAMPED).tombstones
    there, gone = replica(1), replica(2, tombstone_is_there=False)

    assert is_readable(tombstone, facts(there, replica(2))) is True
    # A group that reads from broker 2 from now on does not meet it.
    assert is_readable(tombstone, facts(there, gone)) is False
    assert is_readable(tombstone, facts(there, unknown_replica(3, "?"))) is None
    assert not is_removed(tombstone, facts(there, gone))
    assert is_removed(tombstone, facts(gone, replica(3, tombstone_is_there=False)))


def proven(erasure: Erasure, *scans: ReplicaScan) -> Any:
    found = Facts(scans=scans, node_ids=[each.node_id for each in scans])
    return next_step(erasure, found, now_ms=T0 * 2 + 20)


def test_receipt_waits_for_a_disk_that_was_taken_out() -> None:
    erasure = changes.with_hosts(at_stage(Stage.UNLINKED), DISKS)

    held = proven(erasure, *ALL[:2])
    given_up = changes.with_lost_broker(
        erasure, broker_id=3, reason="shredded", by="ops", salt=SALT, now_ms=T0
    )
    went_on = proven(given_up, *ALL[:2])

    assert isinstance(held, WaitStep)
    assert "broker 3 had log directory c" in held.because
    assert isinstance(went_on, Advance)
    assert went_on.erasure.stage is Stage.VERIFIED


def test_broker_that_was_given_up_and_comes_back_before_the_receipt_is_scanned() -> None:
    """While outputs were waited for, nobody looked at what it brought back, and the time at which
    the others were clean stood for it."""
    verified = changes.with_lost_broker(
        at_stage(Stage.VERIFIED), broker_id=3, reason="lost", by="ops", salt=SALT, now_ms=T0
    )
    first_ms = verified.stage_ms

    away = next_step(verified, Facts(node_ids=(1,)), now_ms=first_ms + 10)
    back = next_step(verified, Facts(node_ids=(1, 3)), now_ms=first_ms + 10)

    assert not isinstance(away, Advance)
    assert isinstance(back, Advance)
    assert back.erasure.stage is Stage.UNLINKED
    again = changes.verified(
        back.erasure, [scan(1), scan(3)], recreated=(), elsewhere=(), now_ms=first_ms + 20
    )
    assert again.reached_ms(Stage.VERIFIED) == first_ms + 20
    # It is scanned now, however long outputs take.
    assert not isinstance(next_step(again, Facts(node_ids=(1, 3)), now_ms=T0 * 2), Advance)


def test_one_broker_without_a_scan_is_scanned() -> None:
    erasure = changes.with_hosts(at_stage(Stage.UNLINKED), DISKS)
    found = Facts(scans=ALL[:2], node_ids=(1, 2, 3))

    assert next_step(erasure, found, now_ms=T0 * 2) == ScanStep((3,))


def test_disks_are_noted_from_the_search_on_and_none_is_forgotten() -> None:
    before = changes.with_hosts(at_stage(Stage.REQUESTED), DISKS)
    searched = changes.with_hosts(at_stage(Stage.SEARCHED), DISKS[:2])
    later = changes.with_hosts(searched, DISKS[2:])

    assert before.hosts == ()
    assert later.hosts == DISKS


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"reason": " "}, "needs a reason"),
        ({"by": ""}, "needs a reason and a name"),
        ({"reason": "alice@example.org is gone"}, "contains the key"),
    ],
)
def test_broker_is_given_up_with_a_reason_that_keeps_the_key_secret(
    fields: dict[str, str], why: str
) -> None:
    given = {"reason": "shredded", "by": "ops", **fields}

    with pytest.raises(InvalidRequest, match=why):
        changes.with_lost_broker(
            at_stage(Stage.UNLINKED), broker_id=3, salt=SALT, now_ms=T0, **given
        )


def test_acceptance_of_a_file_counts_for_the_broker_it_was_found_on() -> None:
    dirty = {"residue": 1, "residue_files": (FileHits("0/x", 1),)}
    two, three = scan(2, "b", **dirty), scan(3, "c", **dirty)
    erasure = at_stage(Stage.UNLINKED)

    accepted = changes.with_exception(
        erasure, two, file="0/x", reason="old", by="ops", salt=SALT, now_ms=T0
    )

    assert changes.accepted_hits(two, accepted.exceptions) == 1
    assert changes.accepted_hits(three, accepted.exceptions) == 0


@pytest.mark.parametrize(
    ("broker_id", "standing", "alive", "refusal"),
    [
        pytest.param(2, DISKS, {1, 3}, None, id="away"),
        pytest.param(2, DISKS, {1, 2, 3}, "is alive", id="alive, on the disk it had"),
        pytest.param(2, (*DISKS[::2], HostDisk(2, "d")), {1, 2, 3}, None, id="back on another"),
        pytest.param(4, DISKS, {1, 2, 3}, "never part", id="nobody"),
        pytest.param(4, (*DISKS, HostDisk(4, "d")), {1, 2, 3, 4}, "is alive", id="joined since"),
    ],
)
def test_a_disk_is_given_up_where_it_cannot_be_scanned(
    broker_id: int, standing: tuple[HostDisk, ...], alive: set[int], refusal: str | None
) -> None:
    """A broker that was back with an empty disk blocked for ever: it was alive, so it could not be
    given up, and its former disk could not be scanned."""
    found = why_not_given_up(broker_id, hosts=DISKS, standing=standing, alive=alive)

    assert found is None if refusal is None else refusal in str(found)
