"""A controller in a process of its own, asked through its listener as brokers and tools do."""

from collections.abc import Callable

import pytest

from ledgerstone.config.broker import Listener
from ledgerstone.metadata.topic_names import ERASURES
from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ledgerstone.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesFeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ledgerstone.security.principal import ANONYMOUS
from ledgerstone.server.forwarding import encode_principal
from tests.kit.in_process import Client, InProcess

CONTROLLER = Listener("CONTROLLER", "controller.example", 9093)
SETTINGS = {
    "node.id": "3",
    "process.roles": "controller",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "3@127.0.0.1:9093",
}
SESSION_MS = 9_000


@pytest.fixture
def machine() -> InProcess:
    machine = InProcess(settings=SETTINGS, advertised=[CONTROLLER])
    assert machine.broker.controller_link.is_active
    return machine


@pytest.fixture
def client(machine: InProcess) -> Client:
    return machine.connect(listener=CONTROLLER.name)


def registration(machine: InProcess, broker_id: int = 1, **changes: object) -> ApiMessage:
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=machine.broker.image.cluster_id,
        incarnation_id=bytes([broker_id]) * 16,
        listeners=[BrokerRegistrationListener("PLAINTEXT", f"b{broker_id}", 9092, 0)],
        features=[
            BrokerRegistrationFeature("metadata.version", 7, 30),
            BrokerRegistrationFeature("transaction.version", 0, 2),
            BrokerRegistrationFeature("eligible.leader.replicas.version", 0, 1),
        ],
        log_dirs=[bytes([100 + broker_id]) * 16],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def join(machine: InProcess, client: Client, broker_id: int = 1) -> int:
    """Registers and unfences a broker; its epoch."""
    answer = client.ask(registration(machine, broker_id), BrokerRegistrationResponse)
    assert answer.error_code == ErrorCode.NONE
    beat(machine, client, broker_id, answer.broker_epoch)
    assert not machine.broker.image.brokers[broker_id].fenced
    return answer.broker_epoch


def beat(
    machine: InProcess, client: Client, broker_id: int, epoch: int, **wishes: bool
) -> BrokerHeartbeatResponse:
    return client.ask(
        BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=machine.broker.quorum.committed_offset,
            **wishes,  # type: ignore[arg-type]
        ),
        BrokerHeartbeatResponse,
    )


def create(client: Client, name: str, replicas: int = 1) -> CreateTopicsResponse:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=replicas)
    return client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)


# -- what is offered ------------------------------------------------------------------------------


def test_controller_listener_offers_its_own_apis_and_features(client: Client) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = client.ask(request, ApiVersionsResponse)
    keys = {each.api_key for each in answer.api_keys}

    assert {
        18,
        19,
        20,
        32,
        33,
        37,
        43,
        44,
        45,
        46,
        55,
        56,
        57,
        58,
        60,
        62,
        63,
        64,
        67,
        70,
        73,
    } <= keys
    assert not keys & {0, 2, 3, 8, 9, 10, 11, 12}, "those are for brokers"
    supported = {each.name: each.max_version for each in answer.supported_features}
    assert supported["kraft.version"] == 1
    assert supported["group.version"] == 1, "it means nothing to a controller"
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized["metadata.version"] > 0
    assert "kraft.version" not in finalized, "0 is not listed"
    assert answer.finalized_features_epoch >= 0


def test_what_is_for_brokers_closes_a_controller_connection(client: Client) -> None:
    client.send(MetadataRequest(topics=[]), expects_answer=False)

    assert client.closed is not None


def test_client_listener_does_not_take_what_is_for_controllers() -> None:
    client = InProcess().connect()

    client.send(BrokerHeartbeatRequest(), expects_answer=False)

    assert client.closed is not None


def test_controllers_are_described_to_those_who_mean_them(
    machine: InProcess, client: Client
) -> None:
    answer = client.ask(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
    other = client.ask(DescribeClusterRequest(endpoint_type=1), DescribeClusterResponse)

    assert (answer.error_code, answer.endpoint_type, answer.controller_id) == (0, 2, 3)
    assert answer.cluster_id == machine.broker.image.cluster_id
    assert other.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


# -- broker life ----------------------------------------------------------------------------------


def test_broker_registers_is_unfenced_and_gets_producer_ids(
    machine: InProcess, client: Client
) -> None:
    epoch = join(machine, client)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    answer = client.ask(request, AllocateProducerIdsResponse)
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1)

    assert (answer.producer_id_start, answer.producer_id_len) == (0, 1000)
    refused = client.ask(stale, AllocateProducerIdsResponse)
    assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_silent_brokers_are_fenced_one_after_the_other(machine: InProcess, client: Client) -> None:
    epochs = {each: join(machine, client, each) for each in (1, 2)}
    assert create(client, "t", replicas=2).topics[0].error_code == ErrorCode.NONE

    pass_time(machine, SESSION_MS // 2, lambda: beat(machine, client, 1, epochs[1]))
    pass_time(machine, SESSION_MS // 2 + 500, lambda: None)

    brokers = machine.broker.image.brokers
    assert (brokers[1].fenced, brokers[2].fenced) == (False, True)
    partition = machine.broker.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))
    pass_time(machine, SESSION_MS, lambda: None)
    assert machine.broker.image.brokers[1].fenced
    partition = machine.broker.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (-1, ())
    assert partition.eligible_leader_replicas == (1,), "it has everything"


def test_controller_that_was_stopped_reads_heartbeats_before_it_fences(
    machine: InProcess, client: Client
) -> None:
    """SIGSTOP, or a machine without time: the session has expired by the clock, but the heartbeat
    waits in the socket."""
    epoch = join(machine, client)

    machine.clock.advance(ms=3 * SESSION_MS)
    machine.perform(machine.broker.tick())
    assert not machine.broker.image.brokers[1].fenced
    beat(machine, client, 1, epoch)
    pass_time(machine, 1_000, lambda: None)
    assert not machine.broker.image.brokers[1].fenced
    pass_time(machine, SESSION_MS, lambda: None)

    assert machine.broker.image.brokers[1].fenced, "a grace is no session"


def pass_time(machine: InProcess, ms: int, midway: Callable[[], object]) -> None:
    """In small steps, each with its tick."""
    for step in range(0, ms, 100):
        machine.clock.advance(ms=min(100, ms - step))
        if machine.broker.next_deadline_ms <= machine.clock.monotonic_ms():
            machine.perform(machine.broker.tick())
        if step == ms // 200 * 100:
            midway()


def test_sign_of_life_is_written_while_nothing_happens_and_somebody_follows(
    machine: InProcess, client: Client
) -> None:
    pass_time(machine, 500, lambda: None)
    assert 3 in machine.broker.image.controllers, "it has registered itself"
    end = machine.broker.quorum.end_offset
    pass_time(machine, 2_000, lambda: None)
    assert machine.broker.quorum.end_offset == end, "this is the only node"

    epoch = join(machine, client)
    end = machine.broker.quorum.end_offset
    pass_time(machine, 2_100, lambda: beat(machine, client, 1, epoch))

    assert 3 <= machine.broker.quorum.end_offset - end <= 5


def test_unregistered_broker_is_gone(machine: InProcess, client: Client) -> None:
    join(machine, client)
    answer = client.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    again = client.ask(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)

    assert answer.error_code == ErrorCode.NONE
    assert 1 not in machine.broker.image.brokers
    assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_late_alter_partition_has_no_effect(machine: InProcess, client: Client) -> None:
    """Scenario 60."""
    epochs = {each: join(machine, client, each) for each in (1, 2)}
    create(client, "t", replicas=2)
    topic = machine.broker.image.topics["t"]
    before = topic.partitions[0]
    leader = before.leader
    other = 3 - leader

    def shrink(partition_epoch: int) -> AlterPartitionResponse:
        isr = [AlterPartitionNewIsrWithEpoch(leader, epochs[leader])]
        asked = AlterPartitionRequestPartition(
            partition_index=0,
            leader_epoch=before.leader_epoch,
            new_isr_with_epochs=isr,
            partition_epoch=partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=epochs[leader],
            topics=[AlterPartitionRequestTopic(topic.topic_id, [asked])],
        )
        return client.ask(request, AlterPartitionResponse)

    done = shrink(before.partition_epoch).topics[0].partitions[0]
    late = shrink(before.partition_epoch).topics[0].partitions[0]

    assert (done.error_code, done.isr, done.partition_epoch) == (0, [leader], 1)
    assert late.error_code == ErrorCode.INVALID_UPDATE_VERSION
    after = machine.broker.image.topics["t"].partitions[0]
    assert (after.isr, after.partition_epoch) == ((leader,), 1)
    assert other not in after.isr


def test_kraft_version_is_raised_through_the_quorum(machine: InProcess, client: Client) -> None:
    update = UpdateFeaturesFeatureUpdate(feature="kraft.version", max_version_level=1)
    update.upgrade_type = 1
    answer = client.ask(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse)

    assert (answer.error_code, answer.error_message) in ((0, None), (0, ""))
    assert machine.broker.quorum.node.kraft_version == 1
    versions = client.ask(
        ApiVersionsRequest(client_software_name="test", client_software_version="1.0"),
        ApiVersionsResponse,
    )
    finalized = {each.name: each.max_version_level for each in versions.finalized_features}
    assert finalized["kraft.version"] == 1


# -- envelopes ------------------------------------------------------------------------------------


def wrap(message: ApiMessage, version: int, correlation_id: int = 77) -> EnvelopeRequest:
    header = RequestHeader(message.api_key, version, correlation_id, "someone")
    (body,) = encode_request(message, version)
    assert isinstance(body, bytes)
    return EnvelopeRequest(
        request_data=encode_request_header(header) + body,
        request_principal=encode_principal(ANONYMOUS),
        client_host_address=bytes([10, 0, 0, 9]),
    )


def test_enveloped_request_is_served_and_its_answer_wrapped(
    machine: InProcess, client: Client
) -> None:
    join(machine, client)
    topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
    answer = client.ask(wrap(CreateTopicsRequest(topics=[topic]), 5), EnvelopeResponse)

    assert answer.error_code == ErrorCode.NONE
    data = answer.response_data
    assert data is not None
    assert peek_correlation_id(data) == 77
    inner = decode_response(19, 5, data, response_body_position(19, 5, data))
    assert isinstance(inner, CreateTopicsResponse)
    assert [each.error_code for each in inner.topics] == [ErrorCode.NONE]
    assert "t" in machine.broker.image.topics


def test_only_a_broker_itself_makes_the_journal_of_erasures(
    machine: InProcess, client: Client
) -> None:
    join(machine, client)
    topic = CreateTopicsRequestTopic(name=ERASURES, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic])

    answer = client.ask(wrap(request, 7), EnvelopeResponse)
    assert answer.response_data is not None
    assert ERASURES not in machine.broker.image.topics
    direct = client.ask(request, CreateTopicsResponse)

    assert [each.error_code for each in direct.topics] == [ErrorCode.NONE]
    assert ERASURES in machine.broker.image.topics


def _without_principal(envelope: EnvelopeRequest) -> None:
    envelope.request_principal = b""


def _with_a_strange_principal(envelope: EnvelopeRequest) -> None:
    envelope.request_principal = b"\x00\x09junk"


def _without_address(envelope: EnvelopeRequest) -> None:
    envelope.client_host_address = b"\x01"


def _with_half_a_request(envelope: EnvelopeRequest) -> None:
    envelope.request_data = envelope.request_data[:-3]


def _without_a_request(envelope: EnvelopeRequest) -> None:
    envelope.request_data = b""


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_without_principal, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_with_a_strange_principal, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_without_address, ErrorCode.INVALID_REQUEST),
        (_with_half_a_request, ErrorCode.INVALID_REQUEST),
        (_without_a_request, ErrorCode.INVALID_REQUEST),
    ],
)
def test_spoilt_envelope_is_refused_as_a_whole(
    client: Client, spoil: Callable[[EnvelopeRequest], None], code: ErrorCode
) -> None:
    envelope = wrap(CreateTopicsRequest(), 7)
    spoil(envelope)

    answer = client.ask(envelope, EnvelopeResponse)

    assert (answer.error_code, answer.response_data) == (code, None)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (BrokerHeartbeatRequest(), 1),
        (ApiVersionsRequest(), 4),
        (MetadataRequest(), 12),
        (wrap(CreateTopicsRequest(), 7), 0),
    ],
    ids=lambda each: each.name if isinstance(each, ApiMessage) else "",
)
def test_only_what_clients_ask_of_a_controller_comes_in_an_envelope(
    client: Client, message: ApiMessage, version: int
) -> None:
    answer = client.ask(wrap(message, version), EnvelopeResponse)

    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_envelope_to_a_node_that_does_not_lead_says_not_controller() -> None:
    voters = "3@127.0.0.1:9093,4@127.0.0.1:9094,5@127.0.0.1:9095"
    settings = {**SETTINGS, "controller.quorum.voters": voters}
    machine = InProcess(settings=settings, advertised=[CONTROLLER])
    client = machine.connect(listener=CONTROLLER.name)
    assert not machine.broker.controller_link.is_active

    topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
    answer = client.ask(wrap(CreateTopicsRequest(topics=[topic]), 7), EnvelopeResponse)
    plain = create(client, "t")
    heartbeat = beat(machine, client, 1, 5)

    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)
    assert plain.topics[0].error_code == ErrorCode.NOT_CONTROLLER, "not forwarded from here"
    assert heartbeat.error_code == ErrorCode.NOT_CONTROLLER
