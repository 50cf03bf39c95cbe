"""Brokers, leaders and replicas as a client sees them through its listener."""

import pytest

from ledgerstone.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionImage
from ledgerstone.metadata.reachable import PartitionView, broker_for_admin, live_brokers
from ledgerstone.protocol.error_codes import ErrorCode

INSIDE = Endpoint("INSIDE", "10.0.0.1", 9092, 0)
OUTSIDE = Endpoint("OUTSIDE", "example.org", 443, 1)
DIRECTORY = bytes([9]) * 16
UNASSIGNED, LOST = bytes(15) + b"\1", bytes(15) + b"\2"


def broker(number: int, *endpoints: Endpoint, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id=number,
        broker_epoch=0,
        incarnation_id=bytes(16),
        endpoints=endpoints or (INSIDE, OUTSIDE),
        fenced=fenced,
        log_dirs=(DIRECTORY,),
    )


def image_of(*brokers: BrokerImage) -> MetadataImage:
    return MetadataImage(cluster_id="c", brokers={each.broker_id: each for each in brokers})


def partition(leader: int, *directories: bytes) -> PartitionImage:
    return PartitionImage(
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )


def test_live_brokers_have_the_address_of_the_clients_listener() -> None:
    image = image_of(broker(1), broker(2, INSIDE), broker(3, fenced=True))

    assert [(each.broker_id, end) for each, end in live_brokers(image, "INSIDE")] == [
        (1, INSIDE),
        (2, INSIDE),
    ]
    assert [(each.broker_id, end) for each, end in live_brokers(image, "OUTSIDE")] == [(1, OUTSIDE)]


@pytest.mark.parametrize(
    ("active_id", "own_id", "expected"),
    [(2, 5, 2), (3, 5, 5), (4, 5, 5), (-1, 5, 5), (9, 9, 1), (3, 3, 1)],
    ids=["active", "active is fenced", "active is elsewhere", "election", "no brokers", "fenced"],
)
def test_clients_send_admin_requests_to_the_active_controller_if_they_can(
    active_id: int, own_id: int, expected: int
) -> None:
    brokers = [broker(5), broker(2), broker(1), broker(3, fenced=True), broker(4, INSIDE)]

    assert broker_for_admin(image_of(*brokers), "OUTSIDE", active_id, own_id) == expected


def test_without_a_live_broker_there_is_no_one_to_send_admin_requests_to() -> None:
    assert broker_for_admin(image_of(broker(1, fenced=True)), "INSIDE", 1, 1) == -1


@pytest.mark.parametrize(
    ("leader", "listener", "expected"),
    [
        (1, "OUTSIDE", (1, ErrorCode.NONE)),
        (2, "INSIDE", (2, ErrorCode.NONE)),
        (2, "OUTSIDE", (-1, ErrorCode.LISTENER_NOT_FOUND)),
        (-1, "OUTSIDE", (-1, ErrorCode.LEADER_NOT_AVAILABLE)),
        (7, "OUTSIDE", (-1, ErrorCode.LEADER_NOT_AVAILABLE)),
    ],
)
def test_a_leader_is_named_if_it_has_the_clients_listener(
    leader: int, listener: str, expected: tuple[int, int]
) -> None:
    image = image_of(broker(1), broker(2, INSIDE))

    assert PartitionView(image, listener).leader_and_error(partition(leader)) == expected


def test_clients_that_do_not_know_the_error_wait_for_a_leader() -> None:
    image = image_of(broker(2, INSIDE))
    view = PartitionView(image, "OUTSIDE", names_listener=False)

    assert view.leader_and_error(partition(2)) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_replicas_of_fenced_unknown_and_unreachable_brokers_are_offline() -> None:
    image = image_of(broker(1), broker(2, fenced=True))
    assert PartitionView(image, "INSIDE").offline_replicas(partition(1)) == [2, 3]

    image = image_of(broker(1), broker(2), broker(3, INSIDE))
    assert PartitionView(image, "OUTSIDE").offline_replicas(partition(1)) == [3]


def test_replicas_in_lost_directories_are_offline() -> None:
    image = image_of(broker(1), broker(2), broker(3))
    other = bytes([8]) * 16

    state = partition(1, DIRECTORY, other, LOST)
    assert PartitionView(image, "INSIDE").offline_replicas(state) == [2, 3]
    # One that is not chosen yet counts as there.
    state = partition(1, bytes(16), UNASSIGNED, DIRECTORY)
    assert PartitionView(image, "INSIDE").offline_replicas(state) == []
