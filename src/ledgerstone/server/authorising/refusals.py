"""Whole requests that are refused for want of a right on the cluster. Pure.

The code stands where each API has its place for it: for the whole, for each item, or for both.
"""

from typing import Final

from ledgerstone.metadata.not_controller import refusal
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReassignmentsPartitionResult,
    AlterReassignmentsTopicResult,
)
from ledgerstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsPartition,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResult,
)
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ledgerstone.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersReplicaElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from ledgerstone.protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsPartition,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseTopic,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersPartition,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponseTopic,
)

_CODE: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
REASON: Final = "Cluster authorization failed."
_FIRST_FETCH_WITH_TOPIC_IDS: Final = 13


def refused_by_cluster(request: ApiMessage, version: int) -> ApiMessage:
    match request:
        case ElectLeadersRequest():
            return _election_refused(request)
        case AlterPartitionReassignmentsRequest():
            return _reassignments_refused(request)
        case AlterReplicaLogDirsRequest():
            return _moves_refused(request)
        case WriteTxnMarkersRequest():
            return _markers_refused(request)
        case FetchRequest():
            return _fetch_refused(request, version)
        case DescribeClientQuotasRequest():
            return DescribeClientQuotasResponse(
                error_code=_CODE, error_message=REASON, entries=None
            )
        case ListPartitionReassignmentsRequest():
            return _list_refused(request)
        case DescribeUserScramCredentialsRequest():
            return DescribeUserScramCredentialsResponse(
                error_code=_CODE,
                error_message=REASON,
                # As Kafka does it: a result for each, without the name.
                results=[
                    DescribeUserScramCredentialsResult("", _CODE, REASON)
                    for _ in request.users or ()
                ],
            )
        case AlterUserScramCredentialsRequest():
            names = [each.name for each in request.deletions]
            names += [each.name for each in request.upsertions]
            return AlterUserScramCredentialsResponse(
                results=[
                    AlterUserScramCredentialsResult(name, _CODE, REASON)
                    for name in dict.fromkeys(names)
                ]
            )
        case _:
            return refusal(request, _CODE, REASON)


def _election_refused(request: ElectLeadersRequest) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=_CODE,
        replica_election_results=[
            ElectLeadersReplicaElectionResult(
                topic.topic,
                [ElectLeadersPartitionResult(each, _CODE, REASON) for each in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _reassignments_refused(
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=_CODE,
        error_message=REASON,
        responses=[
            AlterReassignmentsTopicResult(
                topic.name,
                [
                    AlterReassignmentsPartitionResult(each.partition_index, _CODE, REASON)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_refused(
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=_CODE,
        error_message=REASON,
        topics=[
            ListPartitionReassignmentsResponseTopic(
                topic.name,
                [ListPartitionReassignmentsPartition(each) for each in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )


def _moves_refused(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirsResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirsResult(topic.name))
            result.partitions += [
                AlterReplicaLogDirsPartition(each, _CODE) for each in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _markers_refused(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponseMarker(
                marker.producer_id,
                [
                    WriteTxnMarkersResponseTopic(
                        topic.name,
                        [WriteTxnMarkersPartition(each, _CODE) for each in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _fetch_refused(request: FetchRequest, version: int) -> FetchResponse:
    """Of a replica of the metadata quorum."""
    response = FetchResponse(error_code=_CODE)
    for topic in () if version >= _FIRST_FETCH_WITH_TOPIC_IDS else request.topics:
        answers = [
            FetchPartitionResponse(each.partition, _CODE, high_watermark=-1, records=b"")
            for each in topic.partitions
        ]
        response.responses.append(FetchTopicResponse(topic=topic.topic, partitions=answers))
    return response
