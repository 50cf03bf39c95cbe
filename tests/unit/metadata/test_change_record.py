"""The steps by which a partition changes, one by one. README.md numbers them."""

from typing import Any

import pytest

from ledgerstone.metadata.change_record import (
    Election,
    LeaderRecoveryState,
    PartitionTarget,
    Rules,
    change_record,
)
from ledgerstone.metadata.image import MIGRATING, NO_LEADER, PartitionImage
from ledgerstone.metadata.record_images import changed

TOPIC_ID = bytes([7]) * 16
A_DIRECTORY = bytes([200]) * 16


def _partition(**given: Any) -> PartitionImage:
    fields: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 5,
        "partition_epoch": 9,
        "directories": (A_DIRECTORY,) * 3,
        **given,
    }
    return PartitionImage(**fields)


def _after(
    before: PartitionImage,
    target: PartitionTarget,
    *,
    active: tuple[int, ...] = (1, 2, 3, 4, 5, 6),
    min_isr: int = 1,
    elr: bool = False,
    election: Election = Election.ONLINE,
    **rules: bool,
) -> PartitionImage:
    """What the partition is once the record is applied; itself where there is none."""
    record = change_record(
        TOPIC_ID,
        0,
        before,
        target,
        Rules(
            is_acceptable=active.__contains__,
            default_directory=lambda _: A_DIRECTORY,
            min_isr=min_isr,
            elr=elr,
            election=election,
            **rules,
        ),
    )
    return before if record is None else changed(before, record)


def test_7_nothing_to_change_is_no_record() -> None:
    before = _partition()

    assert _after(before, PartitionTarget()) is before
    assert _after(before, PartitionTarget(isr=[1, 2, 3])) is before


@pytest.mark.parametrize(
    ("isr", "adding", "removing", "is_complete"),
    [
        ([1, 2, 3, 4], [4], [3], True),
        ([1, 2, 3], [4], [3], False),
        ([3, 4], [4], [3], True),
        ([3], [], [3], False),
        ([1, 3], [], [3], False),  # Two stay, and one of them is not in sync.
        ([1, 2, 4], [], [3], True),
        ([1, 2, 4, 3], [], [3], True),
    ],
)
def test_1_a_reassignment_completes_once_those_that_stay_carry_the_partition(
    isr: list[int], adding: list[int], removing: list[int], is_complete: bool
) -> None:
    before = _partition(
        replicas=(1, 2, 4, 3),
        directories=(A_DIRECTORY,) * 4,
        isr=tuple(isr),
        leader=isr[0],
        adding_replicas=tuple(adding),
        removing_replicas=tuple(removing),
    )

    after = _after(before, PartitionTarget())

    assert after.is_reassigning is not is_complete
    assert after.replicas == ((1, 2, 4) if is_complete else (1, 2, 4, 3))
    assert (3 in after.isr) is (3 in isr and not is_complete)


@pytest.mark.parametrize(
    ("isr", "lost", "expected"),
    [([1, 2], None, ()), ([1], None, (2, 3)), ([1], 3, (2,)), ([], None, (1, 2, 3))],
)
def test_2_replicas_that_leave_below_the_minimum_are_eligible(
    isr: list[int], lost: int | None, expected: tuple[int, ...]
) -> None:
    target = PartitionTarget(isr=isr, lost=lost)

    after = _after(_partition(), target, min_isr=2, elr=True, active=(1,) if isr else ())

    assert after.eligible_leader_replicas == expected


def test_2_only_replicas_are_eligible() -> None:
    before = _partition(
        replicas=(1, 3), isr=(1, 3), directories=(A_DIRECTORY,) * 2, removing_replicas=(3,)
    )

    after = _after(before, PartitionTarget(), min_isr=2, elr=True)

    assert (after.replicas, after.eligible_leader_replicas) == ((1,), ())


@pytest.mark.parametrize(
    ("election", "active", "leader"),
    [
        (Election.ONLINE, (1, 2, 3), 2),
        (Election.PREFERRED, (1, 2, 3), 1),
        (Election.PREFERRED, (2, 3), 2),
        (Election.ONLINE, (1, 3), 1),
        (Election.ONLINE, (3,), 3),
        (Election.UNCLEAN, (3,), 3),
        (Election.ONLINE, (), NO_LEADER),
        (Election.UNCLEAN, (), NO_LEADER),
    ],
)
def test_3_the_present_leader_stays_if_it_may_else_the_first_replica_that_may(
    election: Election, active: tuple[int, ...], leader: int
) -> None:
    after = _after(_partition(leader=2), PartitionTarget(), election=election, active=active)

    assert (after.leader, after.isr) == (leader, (1, 2, 3))
    assert after.leader_epoch == 5 + (leader != 2)


def test_3_out_of_sync_only_if_the_election_is_unclean() -> None:
    before = _partition(isr=(1,), eligible_leader_replicas=(2,))
    gone = PartitionTarget()

    assert _after(before, gone, active=(3,), elr=True, min_isr=2).leader == NO_LEADER
    after = _after(before, gone, active=(3,), elr=True, min_isr=2, election=Election.UNCLEAN)
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (3, (3,), ())
    assert after.leader_recovery_state == LeaderRecoveryState.RECOVERING


def test_4_a_replica_that_goes_is_a_new_epoch_of_the_same_leader() -> None:
    after = _after(_partition(), PartitionTarget(replicas=[1, 2], isr=[1, 2]))

    assert (after.leader, after.leader_epoch) == (1, 6)
    assert after.directories == (A_DIRECTORY,) * 2


@pytest.mark.parametrize(("bumps", "epoch"), [(False, 5), (True, 6)])
def test_4_a_smaller_isr_is_a_new_epoch_only_for_old_brokers(bumps: bool, epoch: int) -> None:
    after = _after(_partition(), PartitionTarget(isr=[1, 2]), bumps_on_shrink=bumps)

    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 2), epoch, 10)


@pytest.mark.parametrize(("elr", "isr"), [(False, (1,)), (True, ())])
def test_5_without_eligible_replicas_the_last_member_stays(elr: bool, isr: tuple[int, ...]) -> None:
    after = _after(_partition(isr=(1,)), PartitionTarget(isr=[]), active=(), elr=elr)

    assert (after.leader, after.isr) == (NO_LEADER, isr)


def test_6_the_last_leader_is_noted_once_and_forgotten_when_there_is_one() -> None:
    without = _after(_partition(isr=(1,)), PartitionTarget(isr=[]), active=(), elr=True)
    assert without.last_known_elr == (1,)
    assert _after(without, PartitionTarget(), active=(), elr=True) is without

    again = _after(without, PartitionTarget(), active=(1,), elr=True)

    assert (again.leader, again.last_known_elr) == (1, ())


def test_records_of_old_levels_name_no_directories() -> None:
    before = _partition(directories=())

    after = _after(before, PartitionTarget(replicas=[1, 2, 3, 4]), has_directories=False)
    assert (after.replicas, after.directories) == ((1, 2, 3, 4), ())

    later = _after(before, PartitionTarget(replicas=[1, 2, 3, 4]))
    assert later.directories == (MIGRATING, MIGRATING, MIGRATING, A_DIRECTORY)
