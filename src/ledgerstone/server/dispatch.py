"""From an api key through the stages to its handler. Grade D, through the handlers.

Two tables list what this node can do: one for listeners of clients, one for listeners of
controllers. ApiVersions offers exactly their keys. A handler's module has the name of its API and
is imported by the first request for it, those of every day by the first request of all: few
brokers are ever asked for all of them, and a start need not wait for any. A handler answers errors
of the protocol in the response, where each API has its own place for them; whatever else a handler
raises closes the connection, because nothing sensible can be said.
"""

from collections.abc import Container
from importlib import import_module
from typing import Final

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker, Dispatch
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR, refusal_of
from ledgerstone.server.metrics import add
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.stages import Handler, StagedHandlers, Stages

HANDLED: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.HEARTBEAT,
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.LIST_GROUPS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.OFFSET_FETCH,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ERASURE_WORK,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
# What listeners for controllers serve. Kafka's schemas say which APIs are for which listeners.
CONTROLLER_HANDLED: Final = frozenset(
    {
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
    }
)
# Imported together, by the first request for any: a client that is connected is served also when no
# descriptor is left to read a module with.
DAILY: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
)
# The one API that means something else there.
_ON_CONTROLLERS: Final = {ApiKey.FETCH: "quorum_fetch"}


def client_handler(api_key: int) -> Handler[Broker]:
    """KeyError: not served to clients."""
    module = _module_of(api_key, HANDLED)
    for daily in DAILY:
        _handler_in(_module_of(daily, HANDLED))
    return _handler_in(module)


def controller_handler(api_key: int) -> Handler[Broker]:
    module = _module_of(api_key, CONTROLLER_HANDLED)
    return _handler_in(_ON_CONTROLLERS.get(ApiKey(api_key), module))


def _module_of(api_key: int, handled: Container[int]) -> str:
    if api_key not in handled:
        raise KeyError(api_key)
    return ApiKey(api_key).name.lower()


def _handler_in(module: str) -> Handler[Broker]:
    handle: Handler[Broker] = import_module(f"ledgerstone.server.handlers.{module}").handle
    return handle


def dispatch_through(stages: Stages) -> Dispatch:
    """Composes the stages once. A request pays for those that are active, and for no others."""
    for_clients = StagedHandlers(client_handler, stages)
    for_controllers = StagedHandlers(controller_handler, stages)

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
