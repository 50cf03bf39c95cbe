"""Metadata records. Pure.

Made from schemas/metadata_records.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, MetadataRecord, Struct


class RegisterBrokerEndPoint(Struct):
    __slots__ = (
        "name",
        "host",
        "port",
        "security_protocol",
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class RegisterBrokerFeature(Struct):
    __slots__ = (
        "name",
        "min_supported_version",
        "max_supported_version",
    )

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 0

    __slots__ = (
        "broker_id",
        "is_migrating_zk_broker",
        "incarnation_id",
        "broker_epoch",
        "end_points",
        "features",
        "rack",
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
        "cordoned_log_dirs",
    )

    def __init__(
        self,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: bytes = ZERO_UUID,
        broker_epoch: int = 0,
        end_points: list[RegisterBrokerEndPoint] = ABSENT,
        features: list[RegisterBrokerFeature] = ABSENT,
        rack: str | None = None,
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: list[bytes] = ABSENT,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points = [] if end_points is ABSENT else end_points
        self.features = [] if features is ABSENT else features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is ABSENT else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class UnregisterBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 1

    __slots__ = (
        "broker_id",
        "broker_epoch",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class TopicRecord(MetadataRecord):
    record_type: ClassVar[int] = 2

    __slots__ = (
        "name",
        "topic_id",
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class PartitionRecord(MetadataRecord):
    record_type: ClassVar[int] = 3

    __slots__ = (
        "partition_id",
        "topic_id",
        "replicas",
        "isr",
        "removing_replicas",
        "adding_replicas",
        "leader",
        "leader_recovery_state",
        "leader_epoch",
        "partition_epoch",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    )

    def __init__(
        self,
        partition_id: int = -1,
        topic_id: bytes = ZERO_UUID,
        replicas: list[int] = ABSENT,
        isr: list[int] = ABSENT,
        removing_replicas: list[int] = ABSENT,
        adding_replicas: list[int] = ABSENT,
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: list[bytes] = ABSENT,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = [] if replicas is ABSENT else replicas
        self.isr = [] if isr is ABSENT else isr
        self.removing_replicas = [] if removing_replicas is ABSENT else removing_replicas
        self.adding_replicas = [] if adding_replicas is ABSENT else adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = [] if directories is ABSENT else directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class ConfigRecord(MetadataRecord):
    record_type: ClassVar[int] = 4

    __slots__ = (
        "resource_type",
        "resource_name",
        "name",
        "value",
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value


class PartitionChangeRecord(MetadataRecord):
    record_type: ClassVar[int] = 5

    __slots__ = (
        "partition_id",
        "topic_id",
        "isr",
        "leader",
        "replicas",
        "removing_replicas",
        "adding_replicas",
        "leader_recovery_state",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    )

    def __init__(
        self,
        partition_id: int = -1,
        topic_id: bytes = ZERO_UUID,
        isr: list[int] | None = None,
        leader: int = -2,
        replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        leader_recovery_state: int = -1,
        directories: list[bytes] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class FenceBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 7

    __slots__ = (
        "id",
        "epoch",
    )

    def __init__(
        self,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch


class UnfenceBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 8

    __slots__ = (
        "id",
        "epoch",
    )

    def __init__(
        self,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch


class RemoveTopicRecord(MetadataRecord):
    record_type: ClassVar[int] = 9

    __slots__ = ("topic_id",)

    def __init__(
        self,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.topic_id = topic_id


class DelegationTokenRecord(MetadataRecord):
    record_type: ClassVar[int] = 10

    __slots__ = (
        "owner",
        "requester",
        "renewers",
        "issue_timestamp",
        "max_timestamp",
        "expiration_timestamp",
        "token_id",
    )

    def __init__(
        self,
        owner: str = "",
        requester: str = "",
        renewers: list[str] = ABSENT,
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = [] if renewers is ABSENT else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id


class UserScramCredentialRecord(MetadataRecord):
    record_type: ClassVar[int] = 11

    __slots__ = (
        "name",
        "mechanism",
        "salt",
        "stored_key",
        "server_key",
        "iterations",
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        salt: bytes = b"",
        stored_key: bytes = b"",
        server_key: bytes = b"",
        iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations


class FeatureLevelRecord(MetadataRecord):
    record_type: ClassVar[int] = 12

    __slots__ = (
        "name",
        "feature_level",
    )

    def __init__(
        self,
        name: str = "",
        feature_level: int = 0,
    ) -> None:
        self.name = name
        self.feature_level = feature_level


class ClientQuotaEntity(Struct):
    __slots__ = (
        "entity_type",
        "entity_name",
    )

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ClientQuotaRecord(MetadataRecord):
    record_type: ClassVar[int] = 14

    __slots__ = (
        "entity",
        "key",
        "value",
        "remove",
    )

    def __init__(
        self,
        entity: list[ClientQuotaEntity] = ABSENT,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.entity = [] if entity is ABSENT else entity
        self.key = key
        self.value = value
        self.remove = remove


class ProducerIdsRecord(MetadataRecord):
    record_type: ClassVar[int] = 15

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "next_producer_id",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        next_producer_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.next_producer_id = next_producer_id


class BrokerRegistrationChangeRecord(MetadataRecord):
    record_type: ClassVar[int] = 17

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
        "cordoned_log_dirs",
    )

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[bytes] = ABSENT,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is ABSENT else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class AccessControlEntryRecord(MetadataRecord):
    record_type: ClassVar[int] = 18

    __slots__ = (
        "id",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        id: bytes = ZERO_UUID,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 0,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.id = id
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class RemoveAccessControlEntryRecord(MetadataRecord):
    record_type: ClassVar[int] = 19

    __slots__ = ("id",)

    def __init__(
        self,
        id: bytes = ZERO_UUID,
    ) -> None:
        self.id = id


class NoOpRecord(MetadataRecord):
    record_type: ClassVar[int] = 20

    __slots__ = ()


class ZkMigrationStateRecord(MetadataRecord):
    record_type: ClassVar[int] = 21

    __slots__ = ("zk_migration_state",)

    def __init__(
        self,
        zk_migration_state: int = 0,
    ) -> None:
        self.zk_migration_state = zk_migration_state


class RemoveUserScramCredentialRecord(MetadataRecord):
    record_type: ClassVar[int] = 22

    __slots__ = (
        "name",
        "mechanism",
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class BeginTransactionRecord(MetadataRecord):
    record_type: ClassVar[int] = 23

    __slots__ = ("name",)

    def __init__(
        self,
        name: str | None = None,
    ) -> None:
        self.name = name


class EndTransactionRecord(MetadataRecord):
    record_type: ClassVar[int] = 24

    __slots__ = ()


class AbortTransactionRecord(MetadataRecord):
    record_type: ClassVar[int] = 25

    __slots__ = ("reason",)

    def __init__(
        self,
        reason: str | None = None,
    ) -> None:
        self.reason = reason


class RemoveDelegationTokenRecord(MetadataRecord):
    record_type: ClassVar[int] = 26

    __slots__ = ("token_id",)

    def __init__(
        self,
        token_id: str = "",
    ) -> None:
        self.token_id = token_id


class RegisterControllerEndPoint(Struct):
    __slots__ = (
        "name",
        "host",
        "port",
        "security_protocol",
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class RegisterControllerFeature(Struct):
    __slots__ = (
        "name",
        "min_supported_version",
        "max_supported_version",
    )

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterControllerRecord(MetadataRecord):
    record_type: ClassVar[int] = 27

    __slots__ = (
        "controller_id",
        "incarnation_id",
        "zk_migration_ready",
        "end_points",
        "features",
    )

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        end_points: list[RegisterControllerEndPoint] = ABSENT,
        features: list[RegisterControllerFeature] = ABSENT,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points = [] if end_points is ABSENT else end_points
        self.features = [] if features is ABSENT else features


class ClearElrRecord(MetadataRecord):
    record_type: ClassVar[int] = 28

    __slots__ = ("topic_name",)

    def __init__(
        self,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


SCHEMA: Final = """\
record 0 RegisterBrokerRecord v0-4 flexible 0+
    broker_id: i32
    is_migrating_zk_broker: bool @2+
    incarnation_id: uuid
    broker_epoch: i64
    end_points: [RegisterBrokerEndPoint]
        name: str
        host: str
        port: u16
        security_protocol: i16
    features: [RegisterBrokerFeature]
        name: str
        min_supported_version: i16
        max_supported_version: i16
    rack: str?
    fenced: bool = true
    in_controlled_shutdown: bool @1+
    log_dirs: [uuid] #0 @3+
    cordoned_log_dirs: [uuid]? #1 = null @4+
record 1 UnregisterBrokerRecord v0-0 flexible 0+
    broker_id: i32
    broker_epoch: i64
record 2 TopicRecord v0-0 flexible 0+
    name: str
    topic_id: uuid
record 3 PartitionRecord v0-2 flexible 0+
    partition_id: i32 = -1
    topic_id: uuid
    replicas: [i32]
    isr: [i32]
    removing_replicas: [i32]
    adding_replicas: [i32]
    leader: i32 = -1
    leader_recovery_state: i8 #0
    leader_epoch: i32 = -1
    partition_epoch: i32 = -1
    directories: [uuid] @1+
    eligible_leader_replicas: [i32]? #1 = null @2+
    last_known_elr: [i32]? #2 = null @2+
record 4 ConfigRecord v0-0 flexible 0+
    resource_type: i8
    resource_name: str
    name: str
    value: str?
record 5 PartitionChangeRecord v0-2 flexible 0+
    partition_id: i32 = -1
    topic_id: uuid
    isr: [i32]? #0 = null
    leader: i32 #1 = -2
    replicas: [i32]? #2 = null
    removing_replicas: [i32]? #3 = null
    adding_replicas: [i32]? #4 = null
    leader_recovery_state: i8 #5 = -1
    directories: [uuid]? #8 = null @1+
    eligible_leader_replicas: [i32]? #6 = null @2+
    last_known_elr: [i32]? #7 = null @2+
record 7 FenceBrokerRecord v0-0 flexible 0+
    id: i32
    epoch: i64
record 8 UnfenceBrokerRecord v0-0 flexible 0+
    id: i32
    epoch: i64
record 9 RemoveTopicRecord v0-0 flexible 0+
    topic_id: uuid
record 10 DelegationTokenRecord v0-0 flexible 0+
    owner: str
    requester: str
    renewers: [str]
    issue_timestamp: i64
    max_timestamp: i64
    expiration_timestamp: i64
    token_id: str
record 11 UserScramCredentialRecord v0-0 flexible 0+
    name: str
    mechanism: i8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: i32
record 12 FeatureLevelRecord v0-0 flexible 0+
    name: str
    feature_level: i16
record 14 ClientQuotaRecord v0-0 flexible 0+
    entity: [ClientQuotaEntity]
        entity_type: str
        entity_name: str?
    key: str
    value: f64
    remove: bool
record 15 ProducerIdsRecord v0-0 flexible 0+
    broker_id: i32
    broker_epoch: i64 = -1
    next_producer_id: i64
record 17 BrokerRegistrationChangeRecord v0-3 flexible 0+
    broker_id: i32
    broker_epoch: i64
    fenced: i8 #0
    in_controlled_shutdown: i8 #1 @1+
    log_dirs: [uuid] #2 @2+
    cordoned_log_dirs: [uuid]? #3 = null @3+
record 18 AccessControlEntryRecord v0-0 flexible 0+
    id: uuid
    resource_type: i8
    resource_name: str
    pattern_type: i8
    principal: str
    host: str
    operation: i8
    permission_type: i8
record 19 RemoveAccessControlEntryRecord v0-0 flexible 0+
    id: uuid
record 20 NoOpRecord v0-0 flexible 0+
record 21 ZkMigrationStateRecord v0-0 flexible 0+
    zk_migration_state: i8
record 22 RemoveUserScramCredentialRecord v0-0 flexible 0+
    name: str
    mechanism: i8
record 23 BeginTransactionRecord v0-0 flexible 0+
    name: str? #0 = null
record 24 EndTransactionRecord v0-0 flexible 0+
record 25 AbortTransactionRecord v0-0 flexible 0+
    reason: str? #0 = null
record 26 RemoveDelegationTokenRecord v0-0 flexible 0+
    token_id: str
record 27 RegisterControllerRecord v0-0 flexible 0+
    controller_id: i32
    incarnation_id: uuid
    zk_migration_ready: bool
    end_points: [RegisterControllerEndPoint]
        name: str
        host: str
        port: u16
        security_protocol: i16
    features: [RegisterControllerFeature]
        name: str
        min_supported_version: i16
        max_supported_version: i16
record 28 ClearElrRecord v0-0 flexible 0+
    topic_name: str
"""
