"""A cluster in memory that a client talks to in bytes: no sockets, no threads, no time of its own.

`FakeCluster.dial` stands in for a TCP connection. What is sent is answered before `sendall`
returns. A test scripts an answer with `once`, or takes a node away with `down`.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.session import SessionConfig
from ledgerstone.protocol.api import OFFERED, advertised
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsConfig,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ledgerstone.protocol.messages.fetch import (
    FetchAbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchGroupPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from ledgerstone.protocol.server_connection import ConnectionLimits, ServerConnection
from ledgerstone.records.batch import read_header, stamp_offset_and_epoch
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.types import AbortedTxn, Buffer, TopicPartition

Answer = ApiMessage | Exception
Script = Callable[[ApiMessage], Answer]


@dataclass(slots=True)
class FakeLog:
    leader_id: int = 1
    start_offset: int = 0
    end_offset: int = 0
    batches: list[bytes] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)

    def append(self, batch: Buffer) -> int:
        """Takes a batch as a leader does; returns its base offset."""
        stored = bytearray(batch)
        base_offset = self.end_offset
        stamp_offset_and_epoch(stored, 0, base_offset=base_offset, leader_epoch=0)
        self.batches.append(bytes(stored))
        self.end_offset = read_header(stored).next_offset
        return base_offset


class FakeCluster:
    def __init__(self, node_ids: Iterable[int] = (1,)) -> None:
        self.clock = VirtualClock()
        self.nodes = {node_id: Endpoint(f"node{node_id}", 9092) for node_id in node_ids}
        self.down: list[Endpoint] = []
        self.controller_id = min(self.nodes)
        self.coordinator_id = min(self.nodes)
        self.offered = list(OFFERED)
        self._last_versions: dict[int, int] = {}
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.internal: list[str] = []  # topics
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.notes: dict[tuple[str, TopicPartition], str | None] = {}  # of what is committed
        self.requests: list[tuple[int, ApiMessage]] = []  # node id and what it was asked
        self.dialed: list[Endpoint] = []
        self.sleeps_ms: list[int] = []
        self._scripts: dict[type[ApiMessage], deque[Script]] = {}

    # -- what a test does ----------------------------------------------------------------------

    def client(self, config: SessionConfig | None = None) -> Client:
        return Client(
            list(self.nodes.values()),
            config,
            clock=self.clock,
            dice=SeededDice(0),
            dial=self.dial,
            sleep=self._sleep,
        )

    def topic(self, name: str, leaders: Iterable[int]) -> None:
        for number, leader_id in enumerate(leaders):
            self.logs[TopicPartition(name, number)] = FakeLog(leader_id)

    def describes_once(self, settings: Mapping[str, str]) -> None:
        """Of whatever the next DescribeConfigs asks for."""
        configs = [DescribeConfigsConfig(name=name, value=text) for name, text in settings.items()]
        answer = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=configs)])
        self.once(DescribeConfigsRequest, answer)

    def once(self, request_class: type[ApiMessage], *answers: Answer | Script) -> None:
        """The next requests of this class get these answers; an exception breaks the line."""
        queue = self._scripts.setdefault(request_class, deque())
        for answer in answers:
            if isinstance(answer, ApiMessage | Exception):
                queue.append(lambda _, answer=answer: answer)  # type: ignore[misc]
            else:
                queue.append(answer)

    def limit_version(self, api_key: int, last_version: int) -> None:
        """This cluster is older than we are."""
        self._last_versions[api_key] = last_version

    def asked(self, request_class: type[ApiMessage]) -> list[int]:
        """The nodes that got a request of this class, in order."""
        return [node_id for node_id, each in self.requests if type(each) is request_class]

    # -- the world ------------------------------------------------------------------------------

    def _sleep(self, seconds: float) -> None:
        self.sleeps_ms.append(math.ceil(seconds * 1000))
        self.clock.advance(ms=math.ceil(seconds * 1000))

    def dial(self, endpoint: Endpoint, timeout_s: float) -> "FakeWire":
        self.dialed.append(endpoint)
        if endpoint in self.down or endpoint not in self.nodes.values():
            raise ConnectionRefusedError(111, "Connection refused")
        (node_id,) = (n for n, each in self.nodes.items() if each == endpoint)
        return FakeWire(self, node_id)

    def answer(self, node_id: int, request: ApiMessage) -> ApiMessage:
        if not isinstance(request, ApiVersionsRequest):
            self.requests.append((node_id, request))
        if self.nodes[node_id] in self.down:
            raise ConnectionResetError(104, "Connection reset by peer")
        scripts = self._scripts.get(type(request))
        answer = scripts.popleft()(request) if scripts else self._default(node_id, request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _default(self, node_id: int, request: ApiMessage) -> ApiMessage:
        match request:
            case ApiVersionsRequest():
                return self._versions()
            case MetadataRequest():
                return self._metadata(request)
            case FindCoordinatorRequest():
                return self._coordinator(request)
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=4000, producer_epoch=0)
            case ProduceRequest():
                return self._produce(node_id, request)
            case FetchRequest():
                return self._fetch(node_id, request)
            case ListOffsetsRequest():
                return self._list_offsets(request)
            case OffsetCommitRequest():
                return self._commit(request)
            case OffsetFetchRequest():
                return self._committed(request)
            case _:
                raise AssertionError(f"nobody scripted an answer to {request}")

    def _versions(self) -> ApiVersionsResponse:
        offered = advertised(self.offered)
        for each in offered:
            each.max_version = self._last_versions.get(each.api_key, each.max_version)
        return ApiVersionsResponse(api_keys=offered)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        known = dict.fromkeys(partition.topic for partition in self.logs)
        wanted = list(known) if request.topics is None else [t.name for t in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataBroker(node_id=node_id, host=each.host, port=each.port)
                for node_id, each in self.nodes.items()
                if each not in self.down
            ],
            cluster_id="fake",
            controller_id=self.controller_id,
            topics=[self._topic_metadata(name or "") for name in wanted],
        )

    def _topic_metadata(self, name: str) -> MetadataResponseTopic:
        found = [
            MetadataPartition(
                partition_index=partition.partition,
                leader_id=log.leader_id,
                leader_epoch=0,
                replica_nodes=[log.leader_id],
                isr_nodes=[log.leader_id],
            )
            for partition, log in self.logs.items()
            if partition.topic == name
        ]
        code = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(
            error_code=code,
            name=name,
            topic_id=topic_id_of(name),
            is_internal=name in self.internal,
            partitions=found,
        )

    def _coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        endpoint = self.nodes[self.coordinator_id]
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorCoordinator(
                    key=key, node_id=self.coordinator_id, host=endpoint.host, port=endpoint.port
                )
                for key in request.coordinator_keys
            ]
        )

    def _produce(self, node_id: int, request: ProduceRequest) -> ProduceResponse:
        response = ProduceResponse()
        for topic in request.topic_data:
            results = []
            for data in topic.partition_data:
                log = self.logs[TopicPartition(topic.name, data.index)]
                if log.leader_id != node_id:
                    code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    results.append(ProducePartitionResponse(index=data.index, error_code=code))
                    continue
                assert isinstance(data.records, memoryview)
                base_offset = log.append(data.records)
                results.append(ProducePartitionResponse(index=data.index, base_offset=base_offset))
            answer = ProduceTopicResponse(name=topic.name, partition_responses=results)
            response.responses.append(answer)
        return response

    def _fetch(self, node_id: int, request: FetchRequest) -> FetchResponse:
        # A fetch without data waits for its full max wait.
        self.clock.advance(ms=request.max_wait_ms)
        names = {topic_id_of(each.topic): each.topic for each in self.logs}
        response = FetchResponse()
        for topic in request.topics:
            name = names.get(topic.topic_id)
            partitions = [
                self._fetch_partition(self.logs[TopicPartition(name, p.partition)], p)
                if name is not None
                else FetchPartitionResponse(
                    partition_index=p.partition,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    high_watermark=-1,
                )
                for p in topic.partitions
            ]
            response.responses.append(
                FetchTopicResponse(topic_id=topic.topic_id, partitions=partitions)
            )
        return response

    def _fetch_partition(self, log: FakeLog, asked: FetchPartition) -> FetchPartitionResponse:
        in_range = log.start_offset <= asked.fetch_offset <= log.end_offset
        there = [b for b in log.batches if read_header(b).next_offset > asked.fetch_offset]
        # One batch at a time, so that every reader has to go on by itself.
        return FetchPartitionResponse(
            partition_index=asked.partition,
            error_code=ErrorCode.NONE if in_range else ErrorCode.OFFSET_OUT_OF_RANGE,
            high_watermark=log.end_offset,
            last_stable_offset=log.end_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=[FetchAbortedTransaction(*each) for each in log.aborted],
            records=there[0] if in_range and there else None,
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    name=topic.name,
                    partitions=[
                        ListOffsetsResponsePartition(
                            partition_index=each.partition_index,
                            offset=self._offset_at(
                                TopicPartition(topic.name, each.partition_index), each.timestamp
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _offset_at(self, partition: TopicPartition, timestamp: int) -> int:
        log = self.logs[partition]
        if timestamp < 0:
            return log.end_offset if timestamp == -1 else log.start_offset
        headers = map(read_header, log.batches)
        return next((h.base_offset for h in headers if h.max_timestamp >= timestamp), -1)

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        response = OffsetCommitResponse()
        for topic in request.topics:
            results = []
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                self.committed[request.group_id, partition] = each.committed_offset
                self.notes[request.group_id, partition] = each.committed_metadata
                results.append(OffsetCommitResponsePartition(partition_index=each.partition_index))
            response.topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
        return response

    def _committed(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (group,) = request.groups
        found: dict[str, list[OffsetFetchGroupPartition]] = {}
        for (group_id, partition), offset in self.committed.items():
            if group_id == group.group_id:
                found.setdefault(partition.topic, []).append(
                    OffsetFetchGroupPartition(
                        partition_index=partition.partition,
                        committed_offset=offset,
                        metadata=self.notes.get((group_id, partition)),
                    )
                )
        topics = [OffsetFetchResponseGroupTopic(name=n, partitions=p) for n, p in found.items()]
        answer = OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
        return OffsetFetchResponse(groups=[answer])


def topic_id_of(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"\xff")


class FakeWire:
    """One connection; bytes in the order a socket would give them."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._protocol = ServerConnection(ConnectionLimits())
        self.readable = bytearray()
        self.is_closed = False

    def sendall(self, data: Buffer, /) -> None:
        assert not self.is_closed
        self._protocol.receive_data(bytes(data))
        while (request := self._protocol.next_request()) is not None:
            answer = self._cluster.answer(self._node_id, request.message)
            if isinstance(request.message, ProduceRequest) and request.message.acks == 0:
                self._protocol.skip_response()
            else:
                self._protocol.respond(answer)
            for piece in self._protocol.data_to_send():
                assert isinstance(piece, Buffer)
                self.readable += piece

    def recv(self, size: int, /) -> bytes:
        # Small pieces: nothing may depend on a response coming whole.
        count = min(size, 37)
        taken = bytes(self.readable[:count])
        # A bytearray forgets its front without moving the rest.
        del self.readable[:count]
        if not taken:
            raise TimeoutError("timed out")
        return taken

    def recv_into(self, buffer: memoryview, /) -> int:
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def settimeout(self, timeout_s: float, /) -> None:
        assert timeout_s > 0

    def close(self) -> None:
        self.is_closed = True
