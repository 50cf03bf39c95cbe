"""The blocking shell: calls and rounds over wires made of our own codec."""

import socket
import threading

import pytest

from ledgerstone.client.blocking import Client, dial_tcp
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.errors import BrokerUnreachable
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets, offsets_at
from ledgerstone.client.routing import ToBroker
from ledgerstone.client.session import SessionConfig
from ledgerstone.errors import KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages import ApiKey
from ledgerstone.protocol.messages.list_groups import (
    ListGroupsGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.types import TopicPartition
from tests.unit.client.fake_cluster import FakeCluster, FakeWire


def listed(topic: str, partition: int, offset: int, code: int = 0) -> ListOffsetsResponse:
    answer = ListOffsetsResponsePartition(partition_index=partition, error_code=code, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(name=topic, partitions=[answer])])


def test_connection_is_made_once_and_used_again() -> None:
    cluster = FakeCluster()
    cluster.once(ListGroupsRequest, ListGroupsResponse(), ListGroupsResponse())

    with cluster.client() as client:
        client.call(ListGroupsRequest(), ListGroupsResponse)
        client.call(ListGroupsRequest(), ListGroupsResponse)

    assert cluster.dialed == [cluster.nodes[1]]


def test_leaving_the_block_closes_every_connection() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1])
    wires: list[FakeWire] = []

    def dial(endpoint: Endpoint, timeout_s: float) -> FakeWire:
        wires.append(cluster.dial(endpoint, timeout_s))
        return wires[-1]

    with Client([cluster.nodes[1]], clock=cluster.clock, dial=dial) as client:
        client.topic("t")

    assert [wire.is_closed for wire in wires] == [True]


def test_broken_connection_is_replaced() -> None:
    cluster = FakeCluster()
    cluster.once(ListGroupsRequest, ConnectionResetError("reset"), ListGroupsResponse())

    with cluster.client() as client:
        client.call(ListGroupsRequest(), ListGroupsResponse)

    assert cluster.dialed == [cluster.nodes[1]] * 2


def test_second_broker_is_asked_when_the_first_is_down() -> None:
    cluster = FakeCluster([1, 2])
    cluster.down.append(cluster.nodes[1])
    cluster.once(ListGroupsRequest, ListGroupsResponse())

    with cluster.client() as client:
        client.call(ListGroupsRequest(), ListGroupsResponse)

    assert cluster.asked(ListGroupsRequest) == [2]


def test_unreachable_cluster_is_reported_without_waiting_when_asked_so() -> None:
    cluster = FakeCluster([1, 2])
    cluster.down += cluster.nodes.values()

    with (
        cluster.client(SessionConfig(reach_timeout_ms=0)) as client,
        pytest.raises(BrokerUnreachable, match="Connection refused"),
    ):
        client.call(ListGroupsRequest(), ListGroupsResponse)

    assert cluster.sleeps_ms == []


def test_api_the_broker_does_not_offer_is_named() -> None:
    cluster = FakeCluster()
    cluster.offered.remove(ApiKey.LIST_GROUPS)

    with cluster.client() as client, pytest.raises(UnsupportedVersion, match="ListGroups"):
        client.call(ListGroupsRequest(), ListGroupsResponse)


def test_unknown_topic_is_said_at_once() -> None:
    cluster = FakeCluster()

    with cluster.client() as client, pytest.raises(UnknownTopicOrPartition, match="topic nope"):
        client.topic("nope")

    assert cluster.sleeps_ms == []


def test_looking_at_a_topic_never_creates_it() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1])

    with cluster.client() as client:
        client.topic("t")
        client.all_topics()

    asked = [each for _, each in cluster.requests if isinstance(each, MetadataRequest)]
    assert [each.allow_auto_topic_creation for each in asked] == [False, False]


def test_each_leader_is_asked_for_its_own_partitions() -> None:
    cluster = FakeCluster([1, 2])
    cluster.topic("t", [1, 2, 1])
    cluster.logs[TopicPartition("t", 2)].end_offset = 9

    with cluster.client() as client:
        partitions = [TopicPartition("t", number) for number in range(3)]
        found = list_offsets(client, dict.fromkeys(partitions, LATEST))

    assert cluster.asked(ListOffsetsRequest) == [1, 2]
    assert [found[each].offset for each in partitions] == [0, 0, 9]


def test_moved_leader_is_found_with_fresh_metadata() -> None:
    cluster = FakeCluster([1, 2])
    cluster.topic("t", [1])
    partition = TopicPartition("t", 0)

    def move(_: object) -> ListOffsetsResponse:
        cluster.logs[partition].leader_id = 2
        return listed("t", 0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    cluster.once(ListOffsetsRequest, move, listed("t", 0, 5))
    with cluster.client() as client:
        found = list_offsets(client, {partition: LATEST})

    assert cluster.asked(ListOffsetsRequest) == [1, 2]
    assert found[partition].offset == 5


def test_dead_leader_is_left_for_the_new_one() -> None:
    cluster = FakeCluster([1, 2])
    cluster.topic("t", [1])
    partition = TopicPartition("t", 0)

    def die(_: object) -> Exception:
        cluster.logs[partition].leader_id = 2
        cluster.down.append(cluster.nodes[1])
        return ConnectionResetError("reset")

    cluster.once(ListOffsetsRequest, die)
    with cluster.client() as client:
        found = list_offsets(client, {partition: EARLIEST})

    assert cluster.asked(ListOffsetsRequest) == [1, 2]
    assert found[partition].offset == 0


def test_partition_without_a_leader_is_waited_for() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [-1])
    partition = TopicPartition("t", 0)

    with (
        cluster.client(SessionConfig(call_timeout_ms=2000)) as client,
        pytest.raises(KafkaError, match=r"ListOffsets t-0: LEADER_NOT_AVAILABLE"),
    ):
        list_offsets(client, {partition: LATEST})

    assert sum(cluster.sleeps_ms) == 2000


def test_partition_without_a_leader_does_not_stand_in_the_way_of_others() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [-1, 1])
    led, leaderless = TopicPartition("t", 1), TopicPartition("t", 0)

    with (
        cluster.client(SessionConfig(call_timeout_ms=2000)) as client,
        pytest.raises(KafkaError, match=r"ListOffsets t-0: LEADER_NOT_AVAILABLE"),
    ):
        list_offsets(client, {leaderless: LATEST, led: LATEST})

    assert cluster.asked(ListOffsetsRequest) == [1]
    assert sum(cluster.sleeps_ms) == 2000


def test_unknown_partition_is_given_up_on_early() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1])
    config = SessionConfig(call_timeout_ms=60_000, unknown_topic_patience_ms=500)

    with cluster.client(config) as client, pytest.raises(UnknownTopicOrPartition, match="t-7"):
        list_offsets(client, {TopicPartition("t", 7): LATEST})

    assert 500 <= sum(cluster.sleeps_ms) < 2000


def test_partition_the_answer_leaves_out_is_not_waited_for() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1])
    cluster.once(ListOffsetsRequest, ListOffsetsResponse())

    with cluster.client() as client, pytest.raises(KafkaError, match="missing from the response"):
        list_offsets(client, {TopicPartition("t", 0): LATEST})


def test_time_after_the_last_record_is_the_end_of_the_log() -> None:
    cluster = FakeCluster()
    cluster.topic("t", [1])
    partition = TopicPartition("t", 0)
    cluster.logs[partition].end_offset = 4

    with cluster.client() as client:
        found = offsets_at(client, [partition], 1_700_000_000_000)

    assert found == {partition: 4}


def test_one_broker_can_be_asked_by_its_id() -> None:
    cluster = FakeCluster([1, 2])
    cluster.once(ListGroupsRequest, ListGroupsResponse())

    with cluster.client() as client:
        client.call(ListGroupsRequest(), ListGroupsResponse, to=ToBroker(2))

    assert cluster.asked(ListGroupsRequest) == [2]


def test_real_sockets_carry_the_same_bytes() -> None:
    cluster = FakeCluster()
    cluster.once(ListGroupsRequest, ListGroupsResponse(error_code=ErrorCode.NONE))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_serve_one, args=(listener, cluster))
        server.start()
        endpoint = Endpoint(*listener.getsockname())

        with Client([endpoint], dial=dial_tcp) as client:
            response = client.call(ListGroupsRequest(), ListGroupsResponse)
        server.join(timeout=10)

    assert response == ListGroupsResponse()
    assert not server.is_alive()


def test_large_response_is_received_in_place_and_whole() -> None:
    cluster = FakeCluster()
    groups = [ListGroupsGroup(group_id=f"{number:0200d}") for number in range(1000)]
    cluster.once(ListGroupsRequest, ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))
    in_place: list[int] = []

    class Watching(FakeWire):
        def recv_into(self, buffer: memoryview, /) -> int:
            in_place.append(len(buffer))
            return super().recv_into(buffer)

    with Client([cluster.nodes[1]], dial=lambda *_: Watching(cluster, 1)) as client:
        response = client.call(ListGroupsRequest(), ListGroupsResponse)

    assert [each.group_id for each in response.groups] == [each.group_id for each in groups]
    assert in_place


def _serve_one(listener: socket.socket, cluster: FakeCluster) -> None:
    """Passes bytes between a socket and a fake wire until the client hangs up."""
    sock, _ = listener.accept()
    wire = cluster.dial(cluster.nodes[1], 1.0)
    with sock:
        while data := sock.recv(5):
            wire.sendall(data)
            while wire.readable:
                sock.sendall(wire.recv(100))
