"""Any life of a cluster: the records alone say what it is, however they are cut into batches."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.metadata.config_changes import Operation
from ledgerstone.metadata.delta import Delta, difference
from ledgerstone.metadata.image import EVERY_BROKER, MetadataImage, ResourceType
from ledgerstone.metadata.records import decode_record, encode_records
from ledgerstone.metadata.replay import apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.create_acls import CreateAclsCreation, CreateAclsRequest
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClientQuotaEntity,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RegisterControllerRecord,
    UserScramCredentialRecord,
)
from tests.kit.sized import examples
from tests.unit.metadata.cluster import Cluster, a_topic

Step = Callable[[Cluster], object]

EMPTY = MetadataImage(cluster_id="cluster")


def _create(name: str, number: int) -> Step:
    topic = a_topic(name, partitions=number, factor=1 + number % 3, configs={"flush.ms": "1"})
    return lambda cluster: cluster.create(topic)


def _delete(name: str, number: int) -> Step:
    request = DeleteTopicsRequest(topic_names=[name])
    return lambda cluster: cluster.carry_out(cluster.controller.delete_topics(request))


def _grow(name: str, number: int) -> Step:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, number)])
    return lambda cluster: cluster.carry_out(cluster.controller.create_partitions(request))


def _alter(name: str, number: int) -> Step:
    change = IncrementalAlterConfigsConfig("retention.ms", number % 2, str(number))
    resource = IncrementalAlterConfigsResource(ResourceType.TOPIC, name, [change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    assert Operation(number % 2) in (Operation.SET, Operation.DELETE)
    return lambda cluster: cluster.carry_out(cluster.controller.incremental_alter_configs(request))


def _elect(name: str, number: int) -> Step:
    request = ElectLeadersRequest(election_type=number % 2)
    return lambda cluster: cluster.carry_out(cluster.controller.elect_leaders(request))


def _restart(name: str, number: int) -> Step:
    return lambda cluster: cluster.start_broker(1 + number % 3, stopped_cleanly=number % 2 == 0)


def _fence(name: str, number: int) -> Step:
    return lambda cluster: cluster.fence(1 + number % 3)


def _allocate(name: str, number: int) -> Step:
    def step(cluster: Cluster) -> object:
        epoch = cluster.image.brokers[1].broker_epoch
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        return cluster.carry_out(cluster.controller.allocate_producer_ids(request))

    return step


def _heartbeat(name: str, number: int) -> Step:
    """Fenced, unfenced, shut down: as the controller allows it."""

    def step(cluster: Cluster) -> object:
        broker = cluster.image.brokers[1 + number % 3]
        request = BrokerHeartbeatRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            current_metadata_offset=len(cluster.log),
            want_fence=number % 2 == 0,
            want_shut_down=name == "a",
        )
        return cluster.ask(request)

    return step


def _transaction(name: str, number: int) -> Step:
    """Ended or aborted, in batches of one record."""

    def step(cluster: Cluster) -> object:
        cluster.commit([BeginTransactionRecord("t")])
        cluster.commit([ConfigRecord(*EVERY_BROKER, "log.retention.ms", str(number))])
        end = EndTransactionRecord() if number % 2 else AbortTransactionRecord()
        return cluster.commit([end])

    return step


def _protect(name: str, number: int) -> Step:
    acl = CreateAclsCreation(2, name, 3 + number % 2, "User:a", "*", 2 + number, 2 + number % 2)
    return lambda cluster: cluster.ask(CreateAclsRequest([acl, acl]))


def _unprotect(name: str, number: int) -> Step:
    wanted = DeleteAclsFilter(1, name, 2, None, None, 1, 1 + number % 3)
    return lambda cluster: cluster.ask(DeleteAclsRequest([wanted]))


def _keep(name: str, number: int) -> Step:
    records: list[MetadataRecord] = [
        ClientQuotaRecord([ClientQuotaEntity("user", name)], "k", float(number)),
        UserScramCredentialRecord(name, number),
        DelegationTokenRecord(token_id=name),
        RegisterControllerRecord(controller_id=number),
        FeatureLevelRecord("share.version", number % 2),
    ]
    return lambda cluster: cluster.commit([records[number % len(records)]])


steps = st.builds(
    lambda make, name, number: make(name, number),
    st.sampled_from(
        [
            _create,
            _delete,
            _grow,
            _alter,
            _elect,
            _restart,
            _fence,
            _allocate,
            _heartbeat,
            _transaction,
            _protect,
            _unprotect,
            _keep,
        ]
    ),
    st.sampled_from(["a", "b", "a.b", "a_b"]),
    st.integers(0, 6),
)


def _live(life: list[Step]) -> Cluster:
    cluster = Cluster(brokers=3)
    for step in life:
        step(cluster)
    return cluster


@examples(60)
@given(life=st.lists(steps, max_size=15), data=st.data())
def test_replay_in_any_batches_gives_the_image_that_was_live(
    life: list[Step], data: st.DataObject
) -> None:
    cluster = _live(life)
    log = cluster.log
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=6)))

    image = EMPTY
    for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        image = apply(image, log[start:end]).image

    assert image == cluster.image
    assert apply(EMPTY, log).image == cluster.image


@examples(60)
@given(life=st.lists(steps, max_size=15), end=st.integers(0, 80))
def test_a_snapshot_is_its_image_and_the_rest_of_the_log_goes_on_from_it(
    life: list[Step], end: int
) -> None:
    log = _live(life).log
    image = apply(EMPTY, log[:end]).image
    while image.open_transaction is not None:
        end -= 1
        image = apply(EMPTY, log[:end]).image

    loaded = apply(EMPTY, [decode_record(each) for each in encode_records(snapshot_records(image))])

    assert loaded.image == image
    assert apply(loaded.image, log[end:]).image == apply(EMPTY, log).image


@examples(60)
@given(life=st.lists(steps, max_size=15), start=st.integers(0, 60))
def test_the_delta_names_exactly_what_differs(life: list[Step], start: int) -> None:
    log = _live(life).log
    before = apply(EMPTY, log[:start]).image

    after, delta = apply(before, log[start:])

    assert _carried_out(before, delta) == _partitions_of(after)
    assert delta == difference(before, after)
    assert difference(after, after).is_empty


def _partitions_of(image: MetadataImage) -> dict[tuple[bytes, int], object]:
    return {
        (topic.topic_id, number): partition
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    }


def _carried_out(before: MetadataImage, delta: Delta) -> dict[tuple[bytes, int], object]:
    """What a broker holds that started with `before` and did what the delta says."""
    held = _partitions_of(before)
    for topic in delta.topics_deleted:
        for number in topic.partitions:
            del held[topic.topic_id, number]
    for topic in delta.topics_created:
        held |= {(topic.topic_id, number): each for number, each in topic.partitions.items()}
    for added in delta.partitions_added:
        assert (added.topic_id, added.partition) not in held
        held[added.topic_id, added.partition] = added.after
    for changed in delta.partitions_changed:
        assert held[changed.topic_id, changed.partition] == changed.before
        held[changed.topic_id, changed.partition] = changed.after
    return held


def test_a_life_with_the_same_seed_is_the_same_life() -> None:
    life = [_create("a", 4), _create("b", 5), _delete("a", 0), _grow("b", 6)]

    assert _live(life).log == _live(life).log
