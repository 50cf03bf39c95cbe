"""Every API: its key, its versions, the module of its messages. Pure.

Made from schemas/*.txt by tools/codegen.py.
"""

from enum import IntEnum
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    ERASURE_WORK = 30100


class Api(NamedTuple):
    name: str
    module: str | None  # None: no messages generated, the feature is not built
    first_version: int
    last_version: int
    flexible_from: int | None


APIS: Final = {
    0: Api("Produce", "produce", 3, 13, 9),
    1: Api("Fetch", "fetch", 4, 18, 12),
    2: Api("ListOffsets", "list_offsets", 1, 11, 6),
    3: Api("Metadata", "metadata", 0, 13, 9),
    8: Api("OffsetCommit", "offset_commit", 2, 10, 8),
    9: Api("OffsetFetch", "offset_fetch", 1, 10, 6),
    10: Api("FindCoordinator", "find_coordinator", 0, 6, 3),
    11: Api("JoinGroup", "join_group", 0, 9, 6),
    12: Api("Heartbeat", "heartbeat", 0, 4, 4),
    13: Api("LeaveGroup", "leave_group", 0, 5, 4),
    14: Api("SyncGroup", "sync_group", 0, 5, 4),
    15: Api("DescribeGroups", "describe_groups", 0, 6, 5),
    16: Api("ListGroups", "list_groups", 0, 5, 3),
    17: Api("SaslHandshake", "sasl_handshake", 0, 1, None),
    18: Api("ApiVersions", "api_versions", 0, 4, 3),
    19: Api("CreateTopics", "create_topics", 2, 7, 5),
    20: Api("DeleteTopics", "delete_topics", 1, 6, 4),
    21: Api("DeleteRecords", "delete_records", 0, 2, 2),
    22: Api("InitProducerId", "init_producer_id", 0, 6, 2),
    23: Api("OffsetForLeaderEpoch", "offset_for_leader_epoch", 2, 4, 4),
    24: Api("AddPartitionsToTxn", "add_partitions_to_txn", 0, 5, 3),
    25: Api("AddOffsetsToTxn", "add_offsets_to_txn", 0, 4, 3),
    26: Api("EndTxn", "end_txn", 0, 5, 3),
    27: Api("WriteTxnMarkers", "write_txn_markers", 1, 2, 1),
    28: Api("TxnOffsetCommit", "txn_offset_commit", 0, 5, 3),
    29: Api("DescribeAcls", "describe_acls", 1, 3, 2),
    30: Api("CreateAcls", "create_acls", 1, 3, 2),
    31: Api("DeleteAcls", "delete_acls", 1, 3, 2),
    32: Api("DescribeConfigs", "describe_configs", 1, 4, 4),
    33: Api("AlterConfigs", "alter_configs", 0, 2, 2),
    34: Api("AlterReplicaLogDirs", "alter_replica_log_dirs", 1, 2, 2),
    35: Api("DescribeLogDirs", "describe_log_dirs", 1, 5, 2),
    36: Api("SaslAuthenticate", "sasl_authenticate", 0, 2, 2),
    37: Api("CreatePartitions", "create_partitions", 0, 3, 2),
    38: Api("CreateDelegationToken", None, 1, 3, 2),
    39: Api("RenewDelegationToken", None, 1, 2, 2),
    40: Api("ExpireDelegationToken", None, 1, 2, 2),
    41: Api("DescribeDelegationToken", None, 1, 3, 2),
    42: Api("DeleteGroups", "delete_groups", 0, 2, 2),
    43: Api("ElectLeaders", "elect_leaders", 0, 2, 2),
    44: Api("IncrementalAlterConfigs", "incremental_alter_configs", 0, 1, 1),
    45: Api("AlterPartitionReassignments", "alter_partition_reassignments", 0, 1, 0),
    46: Api("ListPartitionReassignments", "list_partition_reassignments", 0, 0, 0),
    47: Api("OffsetDelete", "offset_delete", 0, 0, None),
    48: Api("DescribeClientQuotas", "describe_client_quotas", 0, 1, 1),
    49: Api("AlterClientQuotas", "alter_client_quotas", 0, 1, 1),
    50: Api("DescribeUserScramCredentials", "describe_user_scram_credentials", 0, 0, 0),
    51: Api("AlterUserScramCredentials", "alter_user_scram_credentials", 0, 0, 0),
    52: Api("Vote", "vote", 0, 2, 0),
    53: Api("BeginQuorumEpoch", "begin_quorum_epoch", 0, 1, 1),
    54: Api("EndQuorumEpoch", "end_quorum_epoch", 0, 1, 1),
    55: Api("DescribeQuorum", "describe_quorum", 0, 2, 0),
    56: Api("AlterPartition", "alter_partition", 2, 3, 2),
    57: Api("UpdateFeatures", "update_features", 0, 2, 0),
    58: Api("Envelope", "envelope", 0, 0, 0),
    59: Api("FetchSnapshot", "fetch_snapshot", 0, 1, 0),
    60: Api("DescribeCluster", "describe_cluster", 0, 2, 0),
    61: Api("DescribeProducers", "describe_producers", 0, 0, 0),
    62: Api("BrokerRegistration", "broker_registration", 0, 4, 0),
    63: Api("BrokerHeartbeat", "broker_heartbeat", 0, 2, 0),
    64: Api("UnregisterBroker", "unregister_broker", 0, 0, 0),
    65: Api("DescribeTransactions", "describe_transactions", 0, 0, 0),
    66: Api("ListTransactions", "list_transactions", 0, 2, 0),
    67: Api("AllocateProducerIds", "allocate_producer_ids", 0, 0, 0),
    68: Api("ConsumerGroupHeartbeat", "consumer_group_heartbeat", 0, 1, 0),
    69: Api("ConsumerGroupDescribe", "consumer_group_describe", 0, 1, 0),
    70: Api("ControllerRegistration", "controller_registration", 0, 0, 0),
    71: Api("GetTelemetrySubscriptions", None, 0, 0, 0),
    72: Api("PushTelemetry", None, 0, 0, 0),
    73: Api("AssignReplicasToDirs", "assign_replicas_to_dirs", 0, 0, 0),
    74: Api("ListConfigResources", "list_config_resources", 0, 1, 0),
    75: Api("DescribeTopicPartitions", "describe_topic_partitions", 0, 0, 0),
    76: Api("ShareGroupHeartbeat", "share_group_heartbeat", 1, 1, 1),
    77: Api("ShareGroupDescribe", None, 1, 1, 1),
    78: Api("ShareFetch", None, 1, 2, 1),
    79: Api("ShareAcknowledge", None, 1, 2, 1),
    80: Api("AddRaftVoter", "add_raft_voter", 0, 1, 0),
    81: Api("RemoveRaftVoter", "remove_raft_voter", 0, 0, 0),
    82: Api("UpdateRaftVoter", "update_raft_voter", 0, 0, 0),
    83: Api("InitializeShareGroupState", None, 0, 0, 0),
    84: Api("ReadShareGroupState", None, 0, 0, 0),
    85: Api("WriteShareGroupState", None, 0, 1, 0),
    86: Api("DeleteShareGroupState", None, 0, 0, 0),
    87: Api("ReadShareGroupStateSummary", None, 0, 1, 0),
    88: Api("StreamsGroupHeartbeat", None, 0, 0, 0),
    89: Api("StreamsGroupDescribe", None, 0, 0, 0),
    90: Api("DescribeShareGroupOffsets", None, 0, 1, 0),
    91: Api("AlterShareGroupOffsets", None, 0, 0, 0),
    92: Api("DeleteShareGroupOffsets", None, 0, 0, 0),
    30100: Api("ErasureWork", "erasure_work", 0, 0, 0),
}
