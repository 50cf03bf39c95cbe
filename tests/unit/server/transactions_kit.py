"""A transactional producer as tests drive it: a request in a line, and its answer's code."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ledgerstone.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersPartition,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponseTopic,
)
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client

ID = "transfers"


def find_coordinator(client: Client, transactional_id: str = ID) -> int:
    """The error code; the topic is created by it."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    for _ in range(10):
        response = client.ask(request, FindCoordinatorResponse)
        code = response.coordinators[0].error_code
        if code != 15:
            return code
        client.machine.tick()
    return code


@dataclass(slots=True)
class TxnProducer:
    client: Client
    transactional_id: str = ID
    producer_id: int = -1
    producer_epoch: int = -1

    def init(self, *, expected: bool = False, timeout_ms: int = 60_000) -> int:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        if expected:
            request.producer_id, request.producer_epoch = self.producer_id, self.producer_epoch
        response = self.client.ask(request, InitProducerIdResponse)
        if not response.error_code:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        return response.error_code

    def add(self, *partitions: TopicPartition, version: int = 3) -> int:
        """The worst code of all partitions."""
        return max(self.add_all(*partitions, version=version).values())

    def add_all(self, *partitions: TopicPartition, version: int = 3) -> dict[TopicPartition, int]:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, number in partitions:
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=list(topics.values()),
        )
        response = self.client.ask(request, AddPartitionsToTxnResponse, version)
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    def add_offsets(self, group_id: str, version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(
            self.transactional_id, self.producer_id, self.producer_epoch, group_id
        )
        return self.client.ask(request, AddOffsetsToTxnResponse, version).error_code

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(self.transactional_id, self.producer_id, self.producer_epoch, commit)

    def end(self, *, commit: bool, version: int = 4) -> int:
        response = self.client.ask(self.end_request(commit=commit), EndTxnResponse, version)
        if version >= 5 and not response.error_code:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        return response.error_code

    def described(self) -> DescribeTransactionsTransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return self.client.ask(request, DescribeTransactionsResponse).transaction_states[0]


@dataclass(slots=True)
class MarkerWriter:
    """Stands in for the leaders of partitions: answers what it is told to, now or later."""

    codes: dict[TopicPartition, int] = field(default_factory=dict)
    is_slow: bool = False
    requests: list[WriteTxnMarkersRequest] = field(default_factory=list)
    _waiting: list[tuple[WriteTxnMarkersRequest, Callable[[WriteTxnMarkersResponse], None]]] = (
        field(default_factory=list)
    )

    def write_markers(
        self,
        request: WriteTxnMarkersRequest,
        on_answer: Callable[[WriteTxnMarkersResponse], None],
    ) -> None:
        self.requests.append(request)
        if self.is_slow:
            self._waiting.append((request, on_answer))
        else:
            on_answer(self._answer(request))

    def release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request, on_answer in waiting:
            on_answer(self._answer(request))

    @property
    def marked(self) -> list[list[TopicPartition]]:
        """The partitions of each request."""
        return [
            [
                TopicPartition(topic.name, number)
                for marker in request.markers
                for topic in marker.topics
                for number in topic.partition_indexes
            ]
            for request in self.requests
        ]

    def _answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WriteTxnMarkersResponseMarker(
                    producer_id=marker.producer_id,
                    topics=[
                        WriteTxnMarkersResponseTopic(
                            name=topic.name,
                            partitions=[
                                WriteTxnMarkersPartition(
                                    number,
                                    self.codes.get(TopicPartition(topic.name, number), 0),
                                )
                                for number in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )
