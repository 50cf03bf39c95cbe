"""Every API, asked by principals of whom each has one right, none, or all.

Resources that the rights are about begin with `tea`, `g` and `x`: ACLs are for these prefixes, so
that every principal can have a topic, a group and a transactional id of its own to spoil.
"""

from typing import Any, Final

from ledgerstone.records.builder import build_batch
from ledgerstone.security.acl import Acl, AclOperation, AclResourceType, PatternType, PermissionType
from tests.compat.both_brokers import NO_ID, Case, topic_id

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER, TXN = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
ADMIN: Final = "admin"
T0: Final = 1_700_000_000_000
_PREFIXES: Final = {TOPIC: "tea", GROUP: "g", TXN: "x"}
_SINGLE: Final = {
    TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    CLUSTER: "CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS "
    "IDEMPOTENT_WRITE",
    TXN: "WRITE DESCRIBE",
}


def _acl(name: str, kind: AclResourceType, operation: AclOperation, *, denies: bool = False) -> Acl:
    pattern = PatternType.LITERAL if kind == CLUSTER else PatternType.PREFIXED
    permission = PermissionType.DENY if denies else PermissionType.ALLOW
    resource = "kafka-cluster" if kind == CLUSTER else _PREFIXES[kind]
    return Acl(kind, resource, pattern, f"User:{name}", "*", operation, permission)


def _principals() -> dict[str, list[Acl]]:
    found: dict[str, list[Acl]] = {"none": []}
    for kind, operations in _SINGLE.items():
        for operation in operations.split():
            name = f"{kind.name.lower()}-{operation}"
            found[name] = [_acl(name, kind, AclOperation[operation])]
    every = (TOPIC, GROUP, CLUSTER, TXN)
    found["all"] = [_acl("all", kind, AclOperation.ALL) for kind in every]
    hidden = "all-but-describe"
    found[hidden] = [_acl(hidden, kind, AclOperation.ALL) for kind in every]
    found[hidden] += [_acl(hidden, kind, AclOperation.DESCRIBE, denies=True) for kind in every]
    return found


PRINCIPALS: Final = _principals()


def _topics(*names: str, **fields: Any) -> dict[str, Any]:
    """One partition of each."""
    parts = [{"partition_index": 0, **fields}]
    return {"topics": [{"name": name, "partitions": parts} for name in names]}


def _records(**fields: Any) -> bytes:
    return bytes(build_batch([(T0, b"k", b"v", ())], **fields))


def _produced(*topics: dict[str, Any], **fields: Any) -> dict[str, Any]:
    data = [{"index": 0, "records": fields.pop("records", None) or _records()}]
    return {
        "acks": 1,
        "timeout_ms": 5000,
        "topic_data": [{**each, "partition_data": data} for each in topics],
        **fields,
    }


def _fetched(*topics: dict[str, Any], **fields: Any) -> dict[str, Any]:
    parts = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    return {
        "max_wait_ms": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{**each, "partitions": parts} for each in topics],
        **fields,
    }


# One that is there, one that is not but that rights are about, and one that none is about.
NAMES: Final = ("tea", "tea-ghost", "ghost")
BY_NAME: Final = tuple({"name": name} for name in NAMES)
BY_TOPIC: Final = tuple({"topic": name} for name in NAMES)
BY_ID: Final = ({"topic_id": topic_id("tea")}, {"topic_id": NO_ID})
_TRANSACTIONAL: Final = _records(
    producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
)
_CONFIGS: Final = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]


def _resource(kind: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **fields}


_RESOURCES: Final = (*((2, name) for name in NAMES), (4, "1"), (32, "g"))


def data_cases(name: str) -> list[Case]:
    """Of records, offsets and what is known of topics."""
    return [
        Case("produce", "Produce", _produced(*BY_NAME), until=12),
        Case("produce to ids", "Produce", _produced(*BY_ID), since=13),
        Case(
            "produce in a transaction",
            "Produce",
            _produced(BY_NAME[0], records=_TRANSACTIONAL, transactional_id=f"x-{name}"),
            until=10,
        ),
        Case(
            "produce in a transaction without an id",
            "Produce",
            _produced(BY_NAME[0], records=_TRANSACTIONAL),
            until=10,
        ),
        Case("fetch", "Fetch", _fetched(*BY_TOPIC), until=12),
        Case("fetch by id", "Fetch", _fetched(*BY_ID), since=13),
        Case("fetch as a replica", "Fetch", _fetched(*BY_TOPIC, replica_id=1), until=12),
        Case(
            "fetch by id as a replica",
            "Fetch",
            _fetched(*BY_ID, replica_state={"replica_id": 7, "replica_epoch": 1}),
            since=15,
        ),
        Case("list offsets", "ListOffsets", _topics(*NAMES, timestamp=-1)),
        Case(
            "delete records", "DeleteRecords", {**_topics(*NAMES, offset=0), "timeout_ms": 9}
        ),
        Case(
            "offset for leader epoch",
            "OffsetForLeaderEpoch",
            {
                "replica_id": -2,
                "topics": [
                    {**each, "partitions": [{"partition": 0, "leader_epoch": 0}]}
                    for each in BY_TOPIC
                ],
            },
        ),
        Case("metadata of all", "Metadata", {"topics": None, "allow_auto_topic_creation": False},
             since=4),
        Case("metadata", "Metadata",
             {"topics": list(BY_NAME), "allow_auto_topic_creation": False}, since=4),
        Case("metadata with operations", "Metadata",
             {"topics": list(BY_NAME), "allow_auto_topic_creation": False,
              "include_topic_authorized_operations": True}, since=8),
        Case("metadata with operations of the cluster", "Metadata",
             {"topics": [], "allow_auto_topic_creation": False,
              "include_cluster_authorized_operations": True}, since=8, until=10),
        Case("metadata by id", "Metadata",
             {"topics": [{**each, "name": None} for each in BY_ID],
              "allow_auto_topic_creation": False}, since=12),
        Case("describe topic partitions of all", "DescribeTopicPartitions",
             {"topics": [], "response_partition_limit": 2000}),
        Case("describe topic partitions", "DescribeTopicPartitions",
             {"topics": list(BY_NAME), "response_partition_limit": 2000}),
        Case("describe producers", "DescribeProducers",
             {"topics": [{**each, "partition_indexes": [0]} for each in BY_NAME]}),
    ]  # fmt: skip


def group_cases(name: str) -> list[Case]:
    named = [{**each, "partition_indexes": [0]} for each in BY_NAME]
    member = {"group_id": "g", "member_id": "nobody", "generation_id": 1}
    both = {"group_id": f"g-{name}", "generation_id_or_member_epoch": -1}
    return [
        Case("list groups", "ListGroups", {}, since=3),
        Case("describe groups", "DescribeGroups",
             {"groups": ["g", "h"], "include_authorized_operations": True}),
        Case("find the coordinator of groups", "FindCoordinator",
             {"key_type": 0, "coordinator_keys": ["g", "h"]}, since=4),
        Case("find one coordinator of groups", "FindCoordinator", {"key_type": 0, "key": "g"},
             since=1, until=3),
        Case("find the coordinator of transactions", "FindCoordinator",
             {"key_type": 1, "coordinator_keys": ["x", "y"]}, since=4),
        Case("heartbeat", "Heartbeat", member),
        Case("sync group", "SyncGroup", member, until=4),
        Case("leave group", "LeaveGroup",
             {"group_id": "g", "member_id": "nobody"}, until=2),
        Case("join group", "JoinGroup",
             {"group_id": f"g-{name}", "session_timeout_ms": 6000, "rebalance_timeout_ms": 6000,
              "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
             since=5),
        Case("offset fetch", "OffsetFetch",
             {"groups": [{"group_id": "g", "topics": named}, {"group_id": "h", "topics": named}]},
             since=8, until=9),
        Case("offset fetch of all", "OffsetFetch",
             {"groups": [{"group_id": "g", "topics": None}]}, since=8, until=9),
        Case("older offset fetch", "OffsetFetch", {"group_id": "g", "topics": named}, until=7),
        Case("older offset fetch of all", "OffsetFetch", {"group_id": "g", "topics": None},
             since=2, until=7),
        Case("offset commit", "OffsetCommit",
             {**both, **_topics(*NAMES, committed_offset=0)}, since=6, until=9),
        Case("offset delete", "OffsetDelete", {"group_id": "g-nobody", **_topics(*NAMES)}),
        Case("delete groups", "DeleteGroups", {"groups_names": ["g-nobody", "h-nobody"]}),
    ]  # fmt: skip


def txn_cases(name: str) -> list[Case]:
    producer = {"transactional_id": f"x-{name}", "producer_id": 9999, "producer_epoch": 0}
    older = {f"v3_and_below_{key}": value for key, value in producer.items()}
    added = [{"name": each, "partitions": [0]} for each in (*NAMES, "__consumer_offsets")]
    marker = {"producer_id": 9999, "producer_epoch": 0, "coordinator_epoch": 0,
              "topics": [{"name": "ghost", "partition_indexes": [0]}]}  # fmt: skip
    return [
        Case("init a producer", "InitProducerId",
             {"transactional_id": None, "transaction_timeout_ms": 1000}),
        Case("init a transactional producer", "InitProducerId",
             {"transactional_id": f"x-{name}", "transaction_timeout_ms": 1000}),
        Case("add partitions to a transaction", "AddPartitionsToTxn",
             {**older, "v3_and_below_topics": added}, until=3),
        Case("add partitions as a broker", "AddPartitionsToTxn",
             {"transactions": [{**producer, "verify_only": True, "topics": added[:1]}]}, since=4),
        Case("add offsets to a transaction", "AddOffsetsToTxn", {**producer, "group_id": "g"}),
        Case("end a transaction", "EndTxn", {**producer, "committed": True}),
        Case("commit offsets in a transaction", "TxnOffsetCommit",
             {**producer, "group_id": "g", **_topics("tea-ghost", "ghost", committed_offset=0)}),
        Case("write markers", "WriteTxnMarkers", {"markers": [marker]}),
        Case("list transactions", "ListTransactions", {}),
        Case("describe transactions", "DescribeTransactions",
             {"transactional_ids": ["x-nobody", "y"]}),
    ]  # fmt: skip


def admin_cases(name: str) -> list[Case]:
    described = [_resource(*each, configuration_keys=["retention.ms"]) for each in _RESOURCES]
    altered = [_resource(*each, configs=_CONFIGS) for each in _RESOURCES[:3]]
    older = [_resource(*each, configs=[{"name": "retention.ms", "value": "1000"}])
             for each in _RESOURCES[:3]]  # fmt: skip
    new = [{"name": f"{each}-new", "num_partitions": 1, "replication_factor": 1}
           for each in ("tea", "coffee")]  # fmt: skip
    return [
        Case("create topics", "CreateTopics",
             {"topics": new, "timeout_ms": 9999, "validate_only": True}),
        Case("create a topic", "CreateTopics",
             {"topics": [{**new[0], "name": f"tea-made-{name}"}], "timeout_ms": 9999}, since=7),
        Case("create partitions", "CreatePartitions",
             {"topics": [{"name": each, "count": 2, "assignments": None}
                         for each in NAMES],
              "timeout_ms": 9999, "validate_only": True}),
        Case("describe configs", "DescribeConfigs", {"resources": described}),
        Case("alter configs", "AlterConfigs", {"resources": older, "validate_only": True}),
        Case("incrementally alter configs", "IncrementalAlterConfigs",
             {"resources": altered, "validate_only": True}),
        Case("list config resources", "ListConfigResources", {"resource_types": [16]}, since=1),
        Case("describe acls", "DescribeAcls",
             {"resource_type_filter": 7, "pattern_type_filter": 1, "operation": 1,
              "permission_type": 1}),
        Case("create acls", "CreateAcls",
             {"creations": [
                 {"resource_type": 2, "resource_name": "", "principal": "User:a", "host": "*",
                  "operation": 3, "permission_type": 3}]}),
        Case("delete acls", "DeleteAcls",
             {"filters": [{"resource_type_filter": 7, "pattern_type_filter": 1, "operation": 1,
                           "permission_type": 1}]}),
        Case("elect leaders", "ElectLeaders",
             {"election_type": 0, "topic_partitions": [{"topic": "ghost", "partitions": [0]}],
              "timeout_ms": 9999}),
        Case("alter reassignments", "AlterPartitionReassignments",
             {"timeout_ms": 9999, "topics": [
                 {"name": "ghost", "partitions": [{"partition_index": 0, "replicas": [1]}]}]}),
        Case("list reassignments", "ListPartitionReassignments",
             {"timeout_ms": 9999, "topics": [{"name": "ghost", "partition_indexes": [0]}]}),
        Case("alter log dirs", "AlterReplicaLogDirs",
             {"dirs": [{"path": "/no/such", "topics": [{"name": "ghost", "partitions": [0]}]}]}),
        Case("describe log dirs", "DescribeLogDirs", {"topics": []}),
        Case("describe client quotas", "DescribeClientQuotas", {"components": [], "strict": True}),
        Case("describe scram credentials", "DescribeUserScramCredentials",
             {"users": [{"name": "nobody"}]}),
        Case("describe the quorum", "DescribeQuorum",
             {"topics": [{"topic_name": "ghost", "partitions": [{"partition_index": 0}]}]}),
        Case("update features", "UpdateFeatures",
             {"timeout_ms": 9999, "validate_only": True, "feature_updates": [
                 {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}]}, since=1),
        Case("unregister a broker", "UnregisterBroker", {"broker_id": 4711}),
        Case("alter client quotas", "AlterClientQuotas",
             {"validate_only": True, "entries": [
                 {"entity": [{"entity_type": "user", "entity_name": "ann"}],
                  "ops": [{"key": "producer_byte_rate", "value": 1000.0}]}]}),
        Case("add a voter", "AddRaftVoter",
             {"cluster_id": "another", "voter_id": 7, "timeout_ms": 1000, "listeners": [
                 {"name": "CONTROLLER", "host": "localhost", "port": 1}]}),
        Case("remove a voter", "RemoveRaftVoter", {"cluster_id": "another", "voter_id": 7}),
        Case("describe the cluster", "DescribeCluster",
             {"include_cluster_authorized_operations": True}),
        Case("versions", "ApiVersions",
             {"client_software_name": "a", "client_software_version": "1"}, since=3, until=3),
        *_deletions(name),
    ]  # fmt: skip


def _deletions(name: str) -> list[Case]:
    return [
        Case("delete topics", "DeleteTopics",
             {"topic_names": list(NAMES[1:]), "timeout_ms": 9999}, until=5),
        Case("delete a topic", "DeleteTopics",
             {"topics": [{"name": f"tea-{name}"}], "timeout_ms": 9999}, since=6),
        Case("delete a topic by id", "DeleteTopics",
             {"topics": [{"name": None, "topic_id": topic_id(f"tea-id-{name}")},
                         {"name": None, "topic_id": NO_ID}], "timeout_ms": 9999}, since=6),
    ]  # fmt: skip


def controller_cases(name: str) -> list[Case]:
    """On a listener for controllers."""
    partition = {"partition_index": 0}
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]}
    return [
        Case("vote", "Vote", {"cluster_id": "another", **quorum}),
        Case("begin an epoch", "BeginQuorumEpoch", {"cluster_id": "another", **quorum}),
        Case("end an epoch", "EndQuorumEpoch", {"cluster_id": "another", **quorum}),
        Case("fetch the quorum", "Fetch",
             {**_fetched({"topic_id": NO_ID}), "cluster_id": "another"}, since=15, until=17),
        Case("fetch a snapshot", "FetchSnapshot", {"cluster_id": "another", "replica_id": -1,
                                                   "topics": []}),
        Case("register a broker", "BrokerRegistration",
             {"broker_id": 9, "cluster_id": "another", "incarnation_id": b"\7" * 16}),
        Case("broker heartbeat", "BrokerHeartbeat", {"broker_id": 4711, "broker_epoch": 1}),
        Case("allocate producer ids", "AllocateProducerIds",
             {"broker_id": 4711, "broker_epoch": 1}),
        Case("alter a partition", "AlterPartition",
             {"broker_id": 4711, "broker_epoch": 1, "topics": []}),
        Case("assign directories", "AssignReplicasToDirs",
             {"broker_id": 4711, "broker_epoch": 1, "directories": []}),
        Case("update a voter", "UpdateRaftVoter", {"cluster_id": "another", "voter_id": 7}),
        Case("envelope", "Envelope",
             {"request_data": b"", "request_principal": b"", "client_host_address": b"1234"}),
        Case("describe controllers", "DescribeCluster",
             {"endpoint_type": 2, "include_cluster_authorized_operations": True}, since=1),
        *(each for each in admin_cases(name)
          if each.name in ("describe acls", "create acls", "delete acls", "elect leaders",
                           "unregister a broker", "list reassignments", "describe the quorum",
                           "update features")),
    ]  # fmt: skip


def broker_cases(name: str) -> list[Case]:
    """Those that change something come last."""
    return [*data_cases(name), *group_cases(name), *txn_cases(name), *admin_cases(name)]


# -- the ACL calls themselves, by somebody who may do everything -----------------------------------

_SOUND: Final = {
    "resource_type": 2, "resource_name": "acl-topic", "resource_pattern_type": 3,
    "principal": "User:ann", "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
_ANY_ACL: Final = {
    "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1
}  # fmt: skip
_WRONG: Final[dict[str, dict[str, Any]]] = {
    "any type": {"resource_type": 1},
    "a type nobody knows": {"resource_type": 99},
    "any pattern": {"resource_pattern_type": 1},
    "a matching pattern": {"resource_pattern_type": 2},
    "a pattern nobody knows": {"resource_pattern_type": 9},
    "any operation": {"operation": 1},
    "an operation nobody knows": {"operation": 99},
    "any permission": {"permission_type": 1},
    "a permission nobody knows": {"permission_type": 9},
    "no name": {"resource_name": ""},
    "a cluster of another name": {"resource_type": 4, "resource_name": "other"},
    "a principal without a kind": {"principal": "ann"},
    "no principal": {"principal": ""},
}
_CLOSES: Final = (
    {"resource_type": 0}, {"resource_pattern_type": 0}, {"operation": 0}, {"permission_type": 0},
)  # fmt: skip
_FOUND_BY: Final[dict[str, dict[str, Any]]] = {
    "name": {"resource_name_filter": "acl-topic"},
    "match": {"resource_name_filter": "acl-topic", "pattern_type_filter": 2},
    "prefix": {"resource_name_filter": "acl-", "pattern_type_filter": 4},
    "literal": {"resource_name_filter": "acl-topic", "pattern_type_filter": 3},
    "match of nothing": {"resource_name_filter": "other", "pattern_type_filter": 2},
    "principal": {"principal_filter": "User:ann"},
    "principal in other letters": {"principal_filter": "user:ann"},
    "host": {"host_filter": "10.0.0.1"},
    "operation": {"operation": 4, "resource_name_filter": "acl-topic"},
    "all": {"operation": 2, "resource_name_filter": "acl-topic"},
    "deny": {"permission_type": 2, "principal_filter": "User:ann"},
    "a type nobody knows": {"resource_type_filter": 99},
    "a pattern nobody knows": {"pattern_type_filter": 9},
    "an operation nobody knows": {"operation": 99},
    "a permission nobody knows": {"permission_type": 9},
}


def acl_cases() -> list[Case]:
    made = [
        _SOUND,
        {**_SOUND, "operation": 4, "host": "10.0.0.1"},
        {**_SOUND, "resource_name": "acl-", "resource_pattern_type": 4},
        {**_SOUND, "resource_name": "*", "permission_type": 2},
        {**_SOUND, "resource_type": 7, "operation": 13},
        {**_SOUND, "operation": 15, "resource_type": 5},
    ]
    renamed = {"resource_type": "resource_type_filter",
               "resource_pattern_type": "pattern_type_filter"}  # fmt: skip
    zeroes = [{renamed.get(key, key): 0 for key in each} for each in _CLOSES]
    return [
        Case("make acls", "CreateAcls", {"creations": made}),
        Case("make acls again", "CreateAcls", {"creations": [*made, *made]}),
        *(Case(f"make an acl with {name}", "CreateAcls",
               {"creations": [{**_SOUND, **wrong}, _SOUND]}) for name, wrong in _WRONG.items()),
        *(Case(f"make an acl without {min(wrong)}", "CreateAcls",
               {"creations": [{**_SOUND, **wrong}]}) for wrong in _CLOSES),
        *(Case(f"describe acls by {name}", "DescribeAcls", {**_ANY_ACL, **wanted})
          for name, wanted in _FOUND_BY.items()),
        *(Case(f"describe acls without {min(wrong)}", "DescribeAcls", {**_ANY_ACL, **wrong})
          for wrong in zeroes),
        *(Case(f"delete acls without {min(wrong)}", "DeleteAcls",
               {"filters": [{**_ANY_ACL, **wrong}]}) for wrong in zeroes),
        *(Case(f"delete acls by {name}", "DeleteAcls",
               {"filters": [{**_ANY_ACL, **wanted}, {**_ANY_ACL, "resource_name_filter": "no"}]})
          for name, wanted in _FOUND_BY.items()),
        Case("delete the same acls twice", "DeleteAcls",
             {"filters": [{**_ANY_ACL, "principal_filter": "User:ann"}] * 2}),
    ]  # fmt: skip
