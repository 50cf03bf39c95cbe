"""Records into images, and what a broker learns from the difference of two."""

from collections.abc import Iterable, Sequence

import pytest

from ledgerstone.errors import InvariantViolation
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import (
    EVERY_BROKER,
    ConfigResource,
    Endpoint,
    MetadataImage,
    ResourceType,
    SupportedFeature,
)
from ledgerstone.metadata.record_images import acl_of
from ledgerstone.metadata.replay import FENCE, apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaEntity,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerEndPoint,
    RegisterControllerFeature,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from ledgerstone.quotas.entities import QuotaEntity

EMPTY = MetadataImage(cluster_id="cluster")
A, B = bytes([1] * 16), bytes([2] * 16)


def _topic(name: str, topic_id: bytes, partitions: int = 1) -> list[MetadataRecord]:
    return [TopicRecord(name, topic_id), *_partitions(topic_id, range(partitions))]


def _partitions(topic_id: bytes, numbers: Iterable[int]) -> list[MetadataRecord]:
    return [
        PartitionRecord(
            number, topic_id, [1, 2], [1, 2], leader=1, leader_epoch=0, partition_epoch=0
        )
        for number in numbers
    ]


def _setting(topic: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(ResourceType.TOPIC, topic, name, value)


def _image(*records: MetadataRecord) -> MetadataImage:
    image = apply(EMPTY, records).image
    image.check_invariants()
    return image


# -- images --------------------------------------------------------------------------------------


def test_an_image_is_not_changed_by_what_comes_after_it() -> None:
    before = _image(*_topic("a", A, 2))
    topic, partition = before.topics["a"], before.topics["a"].partitions[0]

    after = apply(before, [PartitionChangeRecord(0, A, isr=[1])]).image

    assert before.topics["a"] is topic
    assert topic.partitions[0] is partition
    assert after.topics["a"].partitions[0].isr == (1,)


def test_images_share_what_did_not_change() -> None:
    before = _image(*_topic("a", A, 2), *_topic("b", B))

    after = apply(before, [PartitionChangeRecord(0, A, isr=[1])]).image

    assert after.topics["b"] is before.topics["b"]
    assert after.topics["a"].partitions[1] is before.topics["a"].partitions[1]
    assert after.configs is before.configs
    assert after.brokers is before.brokers
    assert after.topic_names is before.topic_names


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    image = _image(*_topic("a", A), PartitionChangeRecord(0, A, isr=[1]))

    partition = image.topics["a"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)
    assert partition.replicas == (1, 2)


@pytest.mark.parametrize("leader", [1, 2, -1])
def test_naming_a_leader_starts_a_leader_epoch_even_for_the_same_one(leader: int) -> None:
    image = _image(*_topic("a", A), PartitionChangeRecord(0, A, leader=leader))

    partition = image.topics["a"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (leader, 1, 1)


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = _image(*_topic("a", A))

    assert image.topic_by_id(A) is image.topics["a"]
    assert image.topic_by_id(B) is None
    assert image.partition("a", 0) is not None
    assert image.partition("a", 1) is None
    assert image.partition("b", 0) is None


def test_unsetting_the_last_setting_forgets_the_resource() -> None:
    image = _image(*_topic("a", A), _setting("a", "x", "1"), _setting("a", "x", None))

    assert image.configs == {}
    assert apply(image, [_setting("a", "y", None)]).image.configs == {}


def test_a_removed_topic_takes_its_settings_along() -> None:
    image = _image(*_topic("a", A), _setting("a", "x", "1"), RemoveTopicRecord(A))

    assert image == EMPTY


def test_settings_of_a_broker_come_before_those_of_all_before_static_ones() -> None:
    image = _image(
        ConfigRecord(*EVERY_BROKER, "b", "all"),
        ConfigRecord(*EVERY_BROKER, "c", "all"),
        ConfigRecord(ResourceType.BROKER, "1", "c", "own"),
    )

    static = {"a": "static", "b": "static", "c": "static"}

    assert image.broker_values(1, static) == {"a": "static", "b": "all", "c": "own"}
    assert image.broker_values(2, static) == {"a": "static", "b": "all", "c": "all"}


def test_a_broker_is_fenced_unfenced_and_removed_by_its_epoch() -> None:
    registered = _image(RegisterBrokerRecord(broker_id=1, broker_epoch=5, log_dirs=[A]))
    unfenced = apply(registered, [BrokerRegistrationChangeRecord(1, 5, -1)]).image
    leaving = apply(unfenced, [BrokerRegistrationChangeRecord(1, 5, 0, 1)]).image
    fenced = apply(unfenced, [BrokerRegistrationChangeRecord(1, 5, FENCE, 0, [B])]).image

    assert [each.brokers[1].fenced for each in (registered, unfenced, leaving, fenced)] == [
        True,
        False,
        False,
        True,
    ]
    assert (unfenced.brokers[1].is_active, leaving.brokers[1].is_active) == (True, False)
    assert (unfenced.brokers[1].log_dirs, fenced.brokers[1].log_dirs) == ((A,), (B,))
    assert apply(fenced, [UnregisterBrokerRecord(1, 5)]).image.brokers == {}


def test_a_feature_at_level_0_is_gone() -> None:
    level, gone = FeatureLevelRecord("f", 3), FeatureLevelRecord("f", 0)

    assert _image(level).features == {"f": 3}
    assert _image(level, gone, gone).features == {}


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord("a", B),
        TopicRecord("b", A),
        PartitionRecord(0, B),
        PartitionChangeRecord(0, B),
        PartitionChangeRecord(1, A),
        RemoveTopicRecord(B),
        BrokerRegistrationChangeRecord(1, 4),
        BrokerRegistrationChangeRecord(2, 5),
        UnregisterBrokerRecord(1, 4),
        ClearElrRecord("b"),
        EndTransactionRecord(),
        AbortTransactionRecord(),
        FenceBrokerRecord(1, 4),
        UnfenceBrokerRecord(2, 5),
    ],
)
def test_a_record_that_contradicts_the_image_is_never_guessed_at(record: MetadataRecord) -> None:
    image = _image(*_topic("a", A), RegisterBrokerRecord(broker_id=1, broker_epoch=5))

    with pytest.raises(InvariantViolation):
        apply(image, [record])


def test_fence_and_unfence_as_older_releases_wrote_them() -> None:
    registered = _image(RegisterBrokerRecord(broker_id=1, broker_epoch=5))

    unfenced = apply(registered, [UnfenceBrokerRecord(1, 5)]).image
    fenced = apply(unfenced, [FenceBrokerRecord(1, 5)]).image

    assert (unfenced.brokers[1].fenced, fenced.brokers[1].fenced) == (False, True)


def test_a_controller_is_known_by_its_newest_registration() -> None:
    first, second = (
        RegisterControllerRecord(
            controller_id=3,
            incarnation_id=incarnation,
            end_points=[RegisterControllerEndPoint("CONTROLLER", "host", 9093, 0)],
            features=[RegisterControllerFeature("metadata.version", 7, 30)],
        )
        for incarnation in (A, B)
    )

    controller = _image(first, second).controllers[3]

    assert controller.incarnation_id == B
    assert controller.endpoints == (Endpoint("CONTROLLER", "host", 9093, 0),)
    assert controller.features == (SupportedFeature("metadata.version", 7, 30),)


def test_the_level_of_kraft_version_is_not_a_matter_of_the_image() -> None:
    assert _image(FeatureLevelRecord("kraft.version", 1)).features == {}


# -- records that are only kept ------------------------------------------------------------------

SCRAM = UserScramCredentialRecord("ann", 1, b"salt", b"stored", b"server", 4096)
TOKEN = DelegationTokenRecord("User:a", "User:b", ["User:c"], 1, 2, 3, "token")
QUOTA = ClientQuotaRecord([ClientQuotaEntity("user", None)], "producer_byte_rate", 10.0)


def test_what_this_release_does_not_act_on_is_kept_as_it_came() -> None:
    image = _image(SCRAM, TOKEN, ZkMigrationStateRecord(3))

    assert list(image.kept.values()) == [SCRAM, TOKEN]
    assert _delta(EMPTY, SCRAM, TOKEN).is_empty


def test_of_each_key_the_newest_is_kept() -> None:
    later = UserScramCredentialRecord("ann", 1, b"other", b"stored", b"server", 4096)
    other = UserScramCredentialRecord("ann", 2, b"salt", b"stored", b"server", 4096)

    image = _image(SCRAM, other, later)

    assert list(image.kept.values()) == [later, other]


def test_what_is_removed_is_gone_and_may_be_removed_again() -> None:
    removals: list[MetadataRecord] = [
        RemoveUserScramCredentialRecord("ann", 1),
        RemoveDelegationTokenRecord("token"),
    ]

    assert _image(SCRAM, TOKEN, *removals, *removals).kept == {}


# -- quotas --------------------------------------------------------------------------------------


def test_quotas_are_kept_by_entity_and_key_and_the_last_removal_removes_the_entity() -> None:
    named = ClientQuotaRecord([ClientQuotaEntity("user", "ann")], QUOTA.key, 30.0)
    later = ClientQuotaRecord(QUOTA.entity, QUOTA.key, 20.0)
    gone = ClientQuotaRecord(QUOTA.entity, QUOTA.key, 0.0, remove=True)

    image = _image(QUOTA, named, later)

    default, ann = QuotaEntity.of({"user": None}), QuotaEntity.of({"user": "ann"})
    assert image.client_quotas == {default: {QUOTA.key: 20.0}, ann: {QUOTA.key: 30.0}}
    assert _delta(EMPTY, QUOTA).quotas_changed
    assert _delta(image, later).is_empty
    assert _image(QUOTA, named, gone, gone).client_quotas == {ann: {QUOTA.key: 30.0}}


# -- ACLs ----------------------------------------------------------------------------------------

ACL = AccessControlEntryRecord(A, 2, "t", 3, "User:a", "*", 3, 3)
OTHER = AccessControlEntryRecord(B, 2, "t", 3, "User:b", "*", 3, 3)


def test_acls_are_known_by_id_and_come_back_from_a_snapshot() -> None:
    image = _image(ACL, OTHER)

    assert image.acls == {A: acl_of(ACL), B: acl_of(OTHER)}
    assert [each for each in snapshot_records(image) if type(each) is type(ACL)] == [ACL, OTHER]


def test_delta_names_the_acls_that_came_and_went() -> None:
    added = _delta(EMPTY, ACL, OTHER)
    removed = _delta(_image(ACL), RemoveAccessControlEntryRecord(A), OTHER)

    assert added.acls_added == (acl_of(ACL), acl_of(OTHER))
    assert (removed.acls_removed, removed.acls_added) == ((acl_of(ACL),), (acl_of(OTHER),))


def test_acl_that_got_another_id_has_not_changed() -> None:
    again = AccessControlEntryRecord(B, 2, "t", 3, "User:a", "*", 3, 3)

    assert _delta(_image(ACL), RemoveAccessControlEntryRecord(A), again).is_empty


@pytest.mark.parametrize(
    "records",
    [
        (ACL, ACL),
        (ACL, AccessControlEntryRecord(B, 2, "t", 3, "User:a", "*", 3, 3)),
        (RemoveAccessControlEntryRecord(A),),
    ],
)
def test_acl_that_contradicts_the_image_is_not_replayed(records: Sequence[MetadataRecord]) -> None:
    with pytest.raises(InvariantViolation):
        _image(*records)


# -- transactions --------------------------------------------------------------------------------


def test_nothing_of_a_transaction_is_seen_before_its_end() -> None:
    begun = apply(EMPTY, [BeginTransactionRecord("t"), *_topic("a", A)])
    longer = apply(begun.image, _topic("b", B))
    ended = apply(longer.image, [EndTransactionRecord()])

    for each in (begun, longer):
        assert each.delta.is_empty
        assert each.image.topics == {}
        assert each.image.open_transaction is not None
    assert [topic.name for topic in ended.delta.topics_created] == ["a", "b"]
    assert ended.image == _image(*_topic("a", A), *_topic("b", B))


def test_an_aborted_transaction_leaves_no_trace() -> None:
    before = _image(*_topic("a", A))
    records = [BeginTransactionRecord(), RemoveTopicRecord(A), *_topic("b", B)]

    whole = apply(before, [*records, AbortTransactionRecord("why")])
    open_ = apply(before, records)
    aborted = apply(open_.image, [AbortTransactionRecord()])

    assert whole == (before, Delta())
    assert aborted == (before, Delta())


def test_one_transaction_at_a_time() -> None:
    open_ = apply(EMPTY, [BeginTransactionRecord()]).image

    with pytest.raises(InvariantViolation, match="inside another"):
        apply(open_, [BeginTransactionRecord()])


# -- eligible leader replicas --------------------------------------------------------------------


def _with_elr(topic_id: bytes) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, topic_id, isr=[], leader=-1, eligible_leader_replicas=[1])


def test_clearing_eligible_replicas_changes_only_partitions_that_have_some() -> None:
    before = _image(*_topic("a", A, 2), *_topic("b", B), _with_elr(A), _with_elr(B))

    one = apply(before, [ClearElrRecord("a")])
    all_ = apply(before, [ClearElrRecord("")])

    assert [each.topic for each in one.delta.partitions_changed] == ["a"]
    assert [each.topic for each in all_.delta.partitions_changed] == ["a", "b"]
    old, new = before.topics["a"].partitions[0], one.image.topics["a"].partitions[0]
    assert (new.eligible_leader_replicas, new.last_known_elr) == ((), ())
    assert new.leader_epoch == old.leader_epoch
    assert new.partition_epoch == old.partition_epoch + 1
    assert apply(one.image, [ClearElrRecord("a")]).delta.is_empty


def test_clearing_sees_what_came_before_it_in_the_batch() -> None:
    image = _image(*_topic("a", A), _with_elr(A), ClearElrRecord(""))

    assert image.topics["a"].partitions[0].eligible_leader_replicas == ()


# -- deltas --------------------------------------------------------------------------------------


def _delta(before: MetadataImage, *records: MetadataRecord) -> Delta:
    return apply(before, records).delta


def test_a_created_topic_comes_whole_and_is_not_also_a_change() -> None:
    delta = _delta(EMPTY, *_topic("a", A, 2), _setting("a", "x", "1"))

    (created,) = delta.topics_created
    assert (created.name, sorted(created.partitions)) == ("a", [0, 1])
    assert delta == Delta(topics_created=(created,))


def test_a_deleted_topic_is_shown_as_it_was() -> None:
    before = _image(*_topic("a", A, 2), _setting("a", "x", "1"))

    delta = _delta(before, PartitionChangeRecord(0, A, leader=2), RemoveTopicRecord(A))

    assert delta == Delta(topics_deleted=(before.topics["a"],))


def test_a_topic_made_and_removed_in_one_batch_leaves_no_trace() -> None:
    assert _delta(EMPTY, *_topic("a", A), RemoveTopicRecord(A)).is_empty


def test_a_name_made_anew_is_a_deletion_and_a_creation() -> None:
    before = _image(*_topic("a", A), _setting("a", "x", "1"))

    delta = _delta(before, RemoveTopicRecord(A), *_topic("a", B), _setting("a", "x", "2"))

    assert [topic.topic_id for topic in delta.topics_deleted] == [A]
    assert [topic.topic_id for topic in delta.topics_created] == [B]
    assert delta.configs_changed == ()


def test_added_and_changed_partitions_are_told_apart() -> None:
    before = _image(*_topic("a", A, 3))

    delta = _delta(before, *_partitions(A, [3]), PartitionChangeRecord(1, A, leader=2))

    (added,), (changed,) = delta.partitions_added, delta.partitions_changed
    assert (added.topic, added.topic_id, added.partition, added.before) == ("a", A, 3, None)
    assert changed.partition == 1
    assert changed.before is before.topics["a"].partitions[1]
    assert (changed.after.leader, changed.after.leader_epoch) == (2, 1)


def test_a_partition_written_again_as_it_is_has_not_changed() -> None:
    assert _delta(_image(*_topic("a", A)), *_partitions(A, [0])).is_empty


def test_changed_settings_name_their_resources_in_order() -> None:
    before = _image(*_topic("b", B), *_topic("a", A), _setting("a", "x", "1"))

    delta = _delta(
        before,
        ConfigRecord(*EVERY_BROKER, "k", "1"),
        _setting("b", "x", "1"),
        _setting("a", "x", None),
    )

    assert delta.configs_changed == (
        ConfigResource(ResourceType.TOPIC, "a"),
        ConfigResource(ResourceType.TOPIC, "b"),
        EVERY_BROKER,
    )


def test_a_setting_set_to_what_it_was_is_no_change() -> None:
    before = _image(*_topic("a", A), _setting("a", "x", "1"))

    assert _delta(before, _setting("a", "x", "2"), _setting("a", "x", "1")).is_empty


def test_brokers_and_features_are_told() -> None:
    delta = _delta(EMPTY, RegisterBrokerRecord(broker_id=4), FeatureLevelRecord("f", 1))

    assert delta == Delta(brokers_changed=(4,), features_changed=True)


def test_producer_ids_and_idle_records_are_nothing_to_act_on() -> None:
    applied = apply(EMPTY, [NoOpRecord(), ProducerIdsRecord(next_producer_id=1000)])

    assert applied.delta.is_empty
    assert applied.image.next_producer_id == 1000
