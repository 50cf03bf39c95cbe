"""TxnOffsetCommit for one group, and the markers that decide about it. Pure. Rules in README.md.

Offsets are written at once, in a batch of the producer's transaction, and pending until its marker.
"""

from ledgerstone.coordinator.group_records import offset_record
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.coordinator.partitioning import java_length
from ledgerstone.coordinator.pending_offsets import PendingGrowth, PendingOffsets
from ledgerstone.coordinator.turn import Turn
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ledgerstone.protocol.messages.write_txn_markers import (
    WriteTxnMarkersPartition,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponseTopic,
)
from ledgerstone.types import TopicPartition


def commit_txn_offsets(
    request: TxnOffsetCommitRequest, metadata_max_length: int, pending: PendingOffsets, turn: Turn
) -> TxnOffsetCommitResponse:
    now_ms = turn.now.wall_ms
    growth = PendingGrowth(pending, request.producer_id, request.group_id)

    def commit_one(topic: str, wanted: TxnOffsetCommitRequestPartition) -> int:
        metadata = wanted.committed_metadata or ""
        if java_length(metadata) > metadata_max_length:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        committed = CommittedOffset(
            wanted.committed_offset, wanted.committed_leader_epoch, metadata, now_ms
        )
        topic_partition = TopicPartition(topic, wanted.partition_index)
        if not growth.has_room_for(topic_partition, committed):
            # Not a code that makes clients try again: there may be no room for days.
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        turn.write(offset_record(request.group_id, topic_partition, committed))
        return ErrorCode.NONE

    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        wanted.partition_index, commit_one(topic.name, wanted)
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_commit_refused(request: TxnOffsetCommitRequest, error_code: int) -> TxnOffsetCommitResponse:
    """TxnOffsetCommit has no error of its own: every partition carries it."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(each.partition_index, error_code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def marker_written(producer_id: int, error_code: int = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    """About the one partition that the shard lives in, whose name the asker knows."""
    partition = WriteTxnMarkersPartition(error_code=error_code)
    topic = WriteTxnMarkersResponseTopic(partitions=[partition])
    return WriteTxnMarkersResponse(markers=[WriteTxnMarkersResponseMarker(producer_id, [topic])])


def error_of_marker(response: WriteTxnMarkersResponse) -> int:
    return response.markers[0].topics[0].partitions[0].error_code
