"""From an api key through the stages to its handler. Grade D, through the handlers.

Two tables list what this node can do: one for listeners of clients, one for listeners of
controllers. ApiVersions offers exactly their keys. A handler answers errors of the protocol in the
response, where each API has its own place for them; whatever else a handler raises closes the
connection, because nothing sensible can be said.
"""

from typing import Final

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker, Dispatch
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR, refusal_of
from ledgerstone.server.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    consumer_group_heartbeat,
    controller_registration,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_quorum_epoch,
    end_txn,
    envelope,
    erasure_work,
    fetch,
    fetch_snapshot,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    quorum_fetch,
    remove_raft_voter,
    sasl_authenticate,
    sasl_handshake,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    update_raft_voter,
    vote,
    write_txn_markers,
)
from ledgerstone.server.metrics import add
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.stages import Handler, Stages, pipeline

HANDLERS: Final[dict[int, Handler[Broker]]] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.handle,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.handle,
    ApiKey.END_TXN: end_txn.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.ELECT_LEADERS: elect_leaders.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
    ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources.handle,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    ApiKey.DELETE_GROUPS: delete_groups.handle,
    ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
    ApiKey.HEARTBEAT: heartbeat.handle,
    ApiKey.JOIN_GROUP: join_group.handle,
    ApiKey.LEAVE_GROUP: leave_group.handle,
    ApiKey.LIST_GROUPS: list_groups.handle,
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
    ApiKey.OFFSET_FETCH: offset_fetch.handle,
    ApiKey.SYNC_GROUP: sync_group.handle,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.handle,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.handle,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_group_heartbeat.handle,
    ApiKey.SASL_HANDSHAKE: sasl_handshake.handle,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate.handle,
    ApiKey.DESCRIBE_ACLS: describe_acls.handle,
    ApiKey.CREATE_ACLS: create_acls.handle,
    ApiKey.DELETE_ACLS: delete_acls.handle,
    ApiKey.LIST_TRANSACTIONS: list_transactions.handle,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.handle,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas.handle,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas.handle,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials.handle,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials.handle,
    ApiKey.UPDATE_FEATURES: update_features.handle,
    ApiKey.ERASURE_WORK: erasure_work.handle,
    ApiKey.UNREGISTER_BROKER: unregister_broker.handle,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter.handle,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter.handle,
}
HANDLED: Final = frozenset(HANDLERS)

# What listeners for controllers serve. Kafka's schemas say which APIs are for which listeners.
CONTROLLER_HANDLERS: Final[dict[int, Handler[Broker]]] = {
    **{
        key: HANDLERS[key]
        for key in (
            ApiKey.API_VERSIONS,
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.ELECT_LEADERS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.UPDATE_FEATURES,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
        )
    },
    ApiKey.FETCH: quorum_fetch.handle,
    ApiKey.VOTE: vote.handle,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch.handle,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch.handle,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot.handle,
    ApiKey.UPDATE_RAFT_VOTER: update_raft_voter.handle,
    ApiKey.ALTER_PARTITION: alter_partition.handle,
    ApiKey.ENVELOPE: envelope.handle,
    ApiKey.BROKER_REGISTRATION: broker_registration.handle,
    ApiKey.BROKER_HEARTBEAT: broker_heartbeat.handle,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
    ApiKey.CONTROLLER_REGISTRATION: controller_registration.handle,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs.handle,
}
CONTROLLER_HANDLED: Final = frozenset(CONTROLLER_HANDLERS)


def dispatch_through(stages: Stages) -> Dispatch:
    """Composes the stages once. A request pays for those that are active, and for no others."""
    for_clients = pipeline(HANDLERS, stages)
    for_controllers = pipeline(CONTROLLER_HANDLERS, stages)

    def dispatch(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        counters, name = broker.counters, message.name
        counters.requests[name] = counters.requests.get(name, 0) + 1
        handlers = for_controllers if request.session.is_controller_listener else for_clients
        try:
            answer = handlers[request.api_key](broker, request, message)
        except NO_COORDINATOR as error:
            answer = refusal_of(message, error.code, request.api_version)
            if answer is None:
                raise
        spent_ms = broker.clock.monotonic_ms() - request.received_ms
        if spent_ms or name not in counters.local_time_ms:
            add(counters.local_time_ms, name, spent_ms)
        return answer

    return dispatch


# As long as no listener asks for more.
dispatch: Final = dispatch_through(Stages())
