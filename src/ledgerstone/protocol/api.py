"""The APIs and versions that a broker advertises and accepts. Pure.

A schema may have more versions than are advertised: a version is advertised once its meaning is
implemented, not once its bytes can be decoded. Differs from Kafka: an API without a handler is not
advertised.
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.protocol.messages import APIS, ApiKey
from ledgerstone.protocol.messages.api_versions import ApiVersion
from ledgerstone.protocol.notation import VersionRange

__all__ = ["ACCEPTED_FROM", "OFFERED", "ApiKey", "accepts", "advertised", "is_flexible"]

_WHOLE: Final = (
    ApiKey.METADATA,  # librdkafka encodes v9 and v10 wrongly, so the offer must not end there
    ApiKey.LIST_OFFSETS, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM, ApiKey.ALTER_PARTITION,
    ApiKey.UPDATE_FEATURES, ApiKey.ENVELOPE, ApiKey.FETCH_SNAPSHOT, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS,
    ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION, ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.ERASURE_WORK,  # ours, between brokers
)  # fmt: skip
_PARTLY: Final[dict[int, VersionRange]] = {
    # KAFKA-18659: librdkafka looks for compression support at Produce v0, so it must be offered.
    ApiKey.PRODUCE: VersionRange(0, 13),
    ApiKey.FETCH: VersionRange(4, 18),  # formats before 4 are gone, as in Kafka
    ApiKey.OFFSET_COMMIT: VersionRange(2, 9),  # 10 has topic ids
    ApiKey.OFFSET_FETCH: VersionRange(1, 9),  # 10 has topic ids
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),  # 6 is for two-phase commit
}

OFFERED: Final[dict[int, VersionRange]] = {
    **{key: VersionRange(APIS[key].first_version, APIS[key].last_version) for key in _WHOLE},
    **_PARTLY,
}
# Advertised for the sake of old clients, but refused.
ACCEPTED_FROM: Final[dict[int, int]] = {ApiKey.PRODUCE: 3}


def advertised(handled: Iterable[int]) -> list[ApiVersion]:
    """The ApiVersions answer of a broker that has handlers for these keys, sorted by key."""
    return [
        ApiVersion(api_key=key, min_version=OFFERED[key].first, max_version=OFFERED[key].last)
        for key in sorted(set(handled))
        if key in OFFERED
    ]


def accepts(api_key: int, api_version: int) -> bool:
    """Whether a request of this key and version may be decoded."""
    offered = OFFERED.get(api_key)
    if offered is None or not offered.has(api_version):
        return False
    return api_version >= ACCEPTED_FROM.get(api_key, 0)


def is_flexible(api_key: int, api_version: int) -> bool:
    flexible_from = APIS[api_key].flexible_from
    return flexible_from is not None and api_version >= flexible_from
