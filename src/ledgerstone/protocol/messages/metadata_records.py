"""Metadata records. Pure.

Made from schemas/metadata_records.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, MetadataRecord, Struct


@dataclass(slots=True, eq=False, repr=False)
class RegisterBrokerEndPoint(Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RegisterBrokerFeature(Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RegisterBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 0

    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: bytes = ZERO_UUID
    broker_epoch: int = 0
    end_points: list[RegisterBrokerEndPoint] = field(default_factory=list)
    features: list[RegisterBrokerFeature] = field(default_factory=list)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[bytes] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class UnregisterBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 1

    broker_id: int = 0
    broker_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TopicRecord(MetadataRecord):
    record_type: ClassVar[int] = 2

    name: str = ""
    topic_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class PartitionRecord(MetadataRecord):
    record_type: ClassVar[int] = 3

    partition_id: int = -1
    topic_id: bytes = ZERO_UUID
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: list[bytes] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConfigRecord(MetadataRecord):
    record_type: ClassVar[int] = 4

    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class PartitionChangeRecord(MetadataRecord):
    record_type: ClassVar[int] = 5

    partition_id: int = -1
    topic_id: bytes = ZERO_UUID
    isr: list[int] | None = None
    leader: int = -2
    replicas: list[int] | None = None
    removing_replicas: list[int] | None = None
    adding_replicas: list[int] | None = None
    leader_recovery_state: int = -1
    directories: list[bytes] | None = None
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass(slots=True, eq=False, repr=False)
class FenceBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 7

    id: int = 0
    epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class UnfenceBrokerRecord(MetadataRecord):
    record_type: ClassVar[int] = 8

    id: int = 0
    epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RemoveTopicRecord(MetadataRecord):
    record_type: ClassVar[int] = 9

    topic_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class DelegationTokenRecord(MetadataRecord):
    record_type: ClassVar[int] = 10

    owner: str = ""
    requester: str = ""
    renewers: list[str] = field(default_factory=list)
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class UserScramCredentialRecord(MetadataRecord):
    record_type: ClassVar[int] = 11

    name: str = ""
    mechanism: int = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0


@dataclass(slots=True, eq=False, repr=False)
class FeatureLevelRecord(MetadataRecord):
    record_type: ClassVar[int] = 12

    name: str = ""
    feature_level: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ClientQuotaEntity(Struct):
    entity_type: str = ""
    entity_name: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ClientQuotaRecord(MetadataRecord):
    record_type: ClassVar[int] = 14

    entity: list[ClientQuotaEntity] = field(default_factory=list)
    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ProducerIdsRecord(MetadataRecord):
    record_type: ClassVar[int] = 15

    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BrokerRegistrationChangeRecord(MetadataRecord):
    record_type: ClassVar[int] = 17

    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: list[bytes] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AccessControlEntryRecord(MetadataRecord):
    record_type: ClassVar[int] = 18

    id: bytes = ZERO_UUID
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RemoveAccessControlEntryRecord(MetadataRecord):
    record_type: ClassVar[int] = 19

    id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class NoOpRecord(MetadataRecord):
    record_type: ClassVar[int] = 20


@dataclass(slots=True, eq=False, repr=False)
class ZkMigrationStateRecord(MetadataRecord):
    record_type: ClassVar[int] = 21

    zk_migration_state: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RemoveUserScramCredentialRecord(MetadataRecord):
    record_type: ClassVar[int] = 22

    name: str = ""
    mechanism: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BeginTransactionRecord(MetadataRecord):
    record_type: ClassVar[int] = 23

    name: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class EndTransactionRecord(MetadataRecord):
    record_type: ClassVar[int] = 24


@dataclass(slots=True, eq=False, repr=False)
class AbortTransactionRecord(MetadataRecord):
    record_type: ClassVar[int] = 25

    reason: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class RemoveDelegationTokenRecord(MetadataRecord):
    record_type: ClassVar[int] = 26

    token_id: str = ""


@dataclass(slots=True, eq=False, repr=False)
class RegisterControllerEndPoint(Struct):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RegisterControllerFeature(Struct):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RegisterControllerRecord(MetadataRecord):
    record_type: ClassVar[int] = 27

    controller_id: int = 0
    incarnation_id: bytes = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[RegisterControllerEndPoint] = field(default_factory=list)
    features: list[RegisterControllerFeature] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ClearElrRecord(MetadataRecord):
    record_type: ClassVar[int] = 28

    topic_name: str = ""


SCHEMA: Final = """\
record 0 RegisterBrokerRecord v0-3 flexible 0+
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
record 17 BrokerRegistrationChangeRecord v0-2 flexible 0+
    broker_id: i32
    broker_epoch: i64
    fenced: i8 #0
    in_controlled_shutdown: i8 #1 @1+
    log_dirs: [uuid] #2 @2+
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
