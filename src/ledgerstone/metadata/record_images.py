"""Records as the values of an image, and these as records again. Pure.

What is written from a value gives the same value when it is read: a snapshot is the image.
"""

from ledgerstone.metadata.image import (
    BrokerImage,
    ControllerImage,
    Endpoint,
    PartitionImage,
    SupportedFeature,
)
from ledgerstone.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaEntity,
    ClientQuotaRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerEndPoint,
    RegisterBrokerFeature,
    RegisterBrokerRecord,
    RegisterControllerEndPoint,
    RegisterControllerFeature,
    RegisterControllerRecord,
)
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.security.acl import Acl

_LEADER_UNCHANGED = -2
_RECOVERY_UNCHANGED = -1


def _endpoints(record: RegisterBrokerRecord | RegisterControllerRecord) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(each.name, each.host, each.port, each.security_protocol)
        for each in record.end_points
    )


def _features(
    record: RegisterBrokerRecord | RegisterControllerRecord,
) -> tuple[SupportedFeature, ...]:
    return tuple(
        SupportedFeature(each.name, each.min_supported_version, each.max_supported_version)
        for each in record.features
    )


def broker_of(record: RegisterBrokerRecord) -> BrokerImage:
    cordoned = record.cordoned_log_dirs
    return BrokerImage(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record),
        features=_features(record),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=None if cordoned is None else tuple(cordoned),
    )


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    cordoned = broker.cordoned_log_dirs
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        end_points=[RegisterBrokerEndPoint(*each) for each in broker.endpoints],
        features=[RegisterBrokerFeature(*each) for each in broker.features],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def controller_of(record: RegisterControllerRecord) -> ControllerImage:
    return ControllerImage(
        controller_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record),
        features=_features(record),
    )


def controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        end_points=[RegisterControllerEndPoint(*each) for each in controller.endpoints],
        features=[RegisterControllerFeature(*each) for each in controller.features],
    )


def partition_of(record: PartitionRecord) -> PartitionImage:
    replicas = tuple(record.replicas)
    # Most of the time they are the same. One tuple for both is a tenth of a partition's memory.
    isr = replicas if record.isr == record.replicas else tuple(record.isr)
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        leader_recovery_state=record.leader_recovery_state,
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        directories=tuple(record.directories),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


def partition_record(topic_id: bytes, number: int, partition: PartitionImage) -> PartitionRecord:
    # By position: this runs for every partition of a cluster.
    return PartitionRecord(
        number,
        topic_id,
        list(partition.replicas),
        list(partition.isr),
        list(partition.removing_replicas),
        list(partition.adding_replicas),
        partition.leader,
        partition.leader_recovery_state,
        partition.leader_epoch,
        partition.partition_epoch,
        list(partition.directories),
        # Tagged fields: left out where there is nothing to say.
        list(partition.eligible_leader_replicas) or None,
        list(partition.last_known_elr) or None,
    )


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """None removes it."""
    parts = [ClientQuotaEntity(kind, name) for kind, name in entity.parts]
    is_gone = value is None
    return ClientQuotaRecord(parts, key, 0.0 if value is None else value, remove=is_gone)


def changed(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition epoch always rises. The leader epoch does where a leader is named, also the
    same one."""
    names_leader = record.leader != _LEADER_UNCHANGED
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=before.replicas if record.replicas is None else tuple(record.replicas),
        isr=before.isr if record.isr is None else tuple(record.isr),
        leader=record.leader if names_leader else before.leader,
        leader_epoch=before.leader_epoch + names_leader,
        partition_epoch=before.partition_epoch + 1,
        leader_recovery_state=before.leader_recovery_state
        if recovery == _RECOVERY_UNCHANGED
        else recovery,
        removing_replicas=before.removing_replicas
        if record.removing_replicas is None
        else tuple(record.removing_replicas),
        adding_replicas=before.adding_replicas
        if record.adding_replicas is None
        else tuple(record.adding_replicas),
        directories=before.directories if record.directories is None else tuple(record.directories),
        eligible_leader_replicas=before.eligible_leader_replicas
        if record.eligible_leader_replicas is None
        else tuple(record.eligible_leader_replicas),
        last_known_elr=before.last_known_elr
        if record.last_known_elr is None
        else tuple(record.last_known_elr),
    )


def acl_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
