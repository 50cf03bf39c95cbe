"""The cluster as its metadata has it."""

from ledgerstone.metadata.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ledgerstone.server.cluster_facts import LISTED, ClusterFacts, cluster_facts


def broker(number: int, **more: bool) -> BrokerImage:
    return BrokerImage(
        broker_id=number,
        broker_epoch=number,
        incarnation_id=bytes(16),
        endpoints=(Endpoint("PLAINTEXT", "h", 9000 + number, 0),),
        **{"fenced": False, **more},  # type: ignore[arg-type]
    )


def partition(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, **more: tuple[int, ...]
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        **more,  # type: ignore[arg-type]
    )


def facts_of(*partitions: PartitionImage, brokers: tuple[BrokerImage, ...] = ()) -> ClusterFacts:
    topic = TopicImage(name="t", topic_id=bytes(16), partitions=dict(enumerate(partitions)))
    image = MetadataImage(
        cluster_id="c",
        brokers={each.broker_id: each for each in brokers or map(broker, (1, 2, 3))},
        topics={"t": topic},
    )
    return cluster_facts(image, controller=2, voters=[1, 2, 9])


def test_nodes_are_counted_by_what_they_lead_and_host() -> None:
    facts = facts_of(partition((1, 2), (1, 2), 1), partition((2, 3), (2,), 2))

    assert [(each.id, each.leads, each.replicas, each.behind) for each in facts.nodes] == [
        (1, 1, 1, 0),
        (2, 1, 2, 0),
        (3, 0, 1, 1),
        (9, 0, 0, 0),
    ]
    assert [each.is_active for each in facts.nodes] == [False, True, False, False]
    assert [each.is_controller for each in facts.nodes] == [True, True, False, True]


def test_states_of_nodes_are_told_apart() -> None:
    brokers = (broker(1), broker(2, fenced=True), broker(3, in_controlled_shutdown=True))

    states = [each.state for each in facts_of(brokers=brokers).nodes]

    assert states == ["up", "fenced", "leaving", "unregistered"]


def test_partition_that_lacks_a_replica_is_listed_with_what_is_missing() -> None:
    facts = facts_of(partition((1, 2), (1, 2), 1), partition((2, 3), (2,), 2))

    assert facts.under_replicated == 1
    assert [(each.partition, each.missing) for each in facts.troubled] == [(1, (3,))]


def test_new_replica_of_a_move_is_no_trouble() -> None:
    facts = facts_of(partition((1, 2, 3), (1, 2), 1, adding_replicas=(3,), removing_replicas=(2,)))

    assert (facts.under_replicated, facts.reassigning) == (0, 1)
    assert [(each.adding, each.removing) for each in facts.moves] == [((3,), (2,))]


def test_partition_without_a_leader_is_listed() -> None:
    facts = facts_of(partition((1,), (1,), -1))

    assert (facts.offline, len(facts.troubled)) == (1, 1)


def test_lists_have_an_end_and_counts_do_not() -> None:
    facts = facts_of(*[partition((1, 2), (1,), 1)] * (LISTED + 5))

    assert (facts.under_replicated, len(facts.troubled)) == (LISTED + 5, LISTED)
