"""Which rights each API asks for. Grade D, through the handlers.

The table is the whole of it: every handler has an entry; one without serves nobody.
tests/compat/test_authorization_matrix.py compares it with Apache Kafka.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.messages.alter_configs import AlterConfigsResponse, AlterConfigsResult
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResult,
)
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.authorising import (
    admin_rules,
    group_rules,
    metadata_rules,
    topic_rules,
    txn_rules,
)
from ledgerstone.server.authorising.admin_rules import each_resource_needs
from ledgerstone.server.authorising.call import Rule
from ledgerstone.server.authorising.cluster_rules import (
    describe_cluster,
    list_groups,
    needs,
    open_to_all,
)
from ledgerstone.server.authorising.group_rules import group_needs
from ledgerstone.server.authorising.offset_fetch_rules import offset_fetch
from ledgerstone.server.authorising.produce_rules import produce
from ledgerstone.server.enveloping import FORWARDABLE

_ALTER: Final = needs(AclOperation.ALTER)
_DESCRIBE: Final = needs(AclOperation.DESCRIBE)
_CLUSTER_ACTION: Final = needs(AclOperation.CLUSTER_ACTION)
_READ_GROUP: Final = group_needs(AclOperation.READ)

# Forwarded as they are; the controller that decides also checks. What the quorum itself answers is
# not among them: that is checked here, too.
DECIDED_BY_CONTROLLER: Final = FORWARDABLE - {
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}

_ADMIN: Final[Mapping[int, Rule]] = {
    ApiKey.API_VERSIONS: open_to_all,
    ApiKey.SASL_HANDSHAKE: open_to_all,
    ApiKey.SASL_AUTHENTICATE: open_to_all,
    ApiKey.CREATE_TOPICS: admin_rules.create_topics,
    ApiKey.DELETE_TOPICS: admin_rules.delete_topics,
    ApiKey.CREATE_PARTITIONS: admin_rules.create_partitions,
    ApiKey.DESCRIBE_CONFIGS: each_resource_needs(
        AclOperation.DESCRIBE_CONFIGS,
        DescribeConfigsResponse,
        DescribeConfigsResult,
        "results",
        refuses_repeated=False,
    ),
    ApiKey.ALTER_CONFIGS: each_resource_needs(
        AclOperation.ALTER_CONFIGS,
        AlterConfigsResponse,
        AlterConfigsResult,
        "responses",
        refuses_repeated=True,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: each_resource_needs(
        AclOperation.ALTER_CONFIGS,
        IncrementalAlterConfigsResponse,
        IncrementalAlterConfigsResult,
        "responses",
        refuses_repeated=True,
    ),
    ApiKey.DESCRIBE_ACLS: _DESCRIBE,
    ApiKey.CREATE_ACLS: _ALTER,
    ApiKey.DELETE_ACLS: _ALTER,
    ApiKey.ELECT_LEADERS: _ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
    ApiKey.ALTER_CLIENT_QUOTAS: needs(AclOperation.ALTER_CONFIGS),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER,
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
    ApiKey.UPDATE_FEATURES: _ALTER,
    ApiKey.UNREGISTER_BROKER: _ALTER,
    ApiKey.ADD_RAFT_VOTER: _ALTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER,
}

RULES: Final[Mapping[int, Rule]] = {
    **_ADMIN,
    ApiKey.PRODUCE: produce,
    # Sessions hold more than a request names: the handler looks at each partition it reads.
    ApiKey.FETCH: open_to_all,
    ApiKey.LIST_OFFSETS: topic_rules.LIST_OFFSETS,
    ApiKey.METADATA: metadata_rules.metadata,
    ApiKey.OFFSET_COMMIT: group_rules.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: group_rules.find_coordinator,
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: group_rules.describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_RECORDS: topic_rules.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID: txn_rules.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topic_rules.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN: txn_rules.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: txn_rules.add_offsets_to_txn,
    ApiKey.END_TXN: txn_rules.end_txn,
    ApiKey.WRITE_TXN_MARKERS: needs(AclOperation.ALTER, AclOperation.CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: txn_rules.txn_offset_commit,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTER,
    ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBE,
    ApiKey.DELETE_GROUPS: group_rules.delete_groups,
    ApiKey.OFFSET_DELETE: group_rules.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: needs(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: topic_rules.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS: txn_rules.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: txn_rules.list_transactions,
    # Types of groups that are not served: everybody is told so, as in Kafka where they are off.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: open_to_all,
    ApiKey.SHARE_GROUP_HEARTBEAT: open_to_all,
    ApiKey.LIST_CONFIG_RESOURCES: needs(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata_rules.describe_topic_partitions,
    ApiKey.ERASURE_WORK: _CLUSTER_ACTION,
}

# On listeners for controllers; the rest of them is for nodes of the cluster alone.
CONTROLLER_RULES: Final[Mapping[int, Rule]] = {
    **_ADMIN,
    ApiKey.DESCRIBE_CLUSTER: needs(AclOperation.ALTER, rest=describe_cluster),
    **dict.fromkeys(
        (
            ApiKey.FETCH,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.UPDATE_RAFT_VOTER,
            ApiKey.ALTER_PARTITION,
            ApiKey.ENVELOPE,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ),
        _CLUSTER_ACTION,
    ),
}
