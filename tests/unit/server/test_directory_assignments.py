"""AssignReplicasToDirs, request by request: one in flight, repeated until it is taken."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectory,
    AssignReplicasToDirsResponsePartition,
    AssignReplicasToDirsResponseTopic,
)
from ledgerstone.replication.directory_assignment import DirectoryAssignment
from ledgerstone.server.directories.assignments import MAX_ASSIGNMENTS, Assignments
from ledgerstone.types import TopicPartition

ID = bytes(15) + b"\x07"
FIRST, SECOND = bytes(15) + b"\xc8", bytes(15) + b"\xc9"


def tp(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def wanted(*numbers: int, directory: bytes = FIRST) -> dict[TopicPartition, DirectoryAssignment]:
    return {tp(number): DirectoryAssignment(ID, directory) for number in numbers}


def take(
    assignments: Assignments, now_ms: int = 0, gone: tuple[int, ...] = ()
) -> AssignReplicasToDirsRequest | None:
    return assignments.take_request(
        now_ms,
        broker_id=1,
        broker_epoch=5,
        is_true=lambda each, _: each.partition not in gone,
    )


def said(request: AssignReplicasToDirsRequest | None) -> dict[bytes, list[int]]:
    assert request is not None
    return {
        directory.id: [
            each.partition_index for topic in directory.topics for each in topic.partitions
        ]
        for directory in request.directories
    }


def answer(
    request: AssignReplicasToDirsRequest | None, codes: dict[int, int] | None = None
) -> AssignReplicasToDirsResponse:
    assert request is not None
    return AssignReplicasToDirsResponse(
        directories=[
            AssignReplicasToDirsResponseDirectory(
                directory.id,
                [
                    AssignReplicasToDirsResponseTopic(
                        topic.topic_id,
                        [
                            AssignReplicasToDirsResponsePartition(
                                each.partition_index, (codes or {}).get(each.partition_index, 0)
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def test_assignments_go_together_by_directory_and_later_ones_wait() -> None:
    assignments = Assignments()
    assignments.add(wanted(0, 1) | wanted(2, directory=SECOND))
    first = take(assignments)
    assignments.add(wanted(3))

    assert said(first) == {FIRST: [0, 1], SECOND: [2]}
    assert first is not None
    assert (first.broker_id, first.broker_epoch) == (1, 5)
    assert take(assignments) is None
    assert assignments.next_deadline_ms() is None
    assert assignments.answered(10, answer(first)) == [tp(0), tp(1), tp(2)]
    assert said(take(assignments, 10)) == {FIRST: [3]}


def test_what_fails_is_sent_again_ever_more_slowly_and_what_is_gone_is_not() -> None:
    assignments = Assignments()
    assignments.add(wanted(0, 1, 2))
    codes = {
        1: int(ErrorCode.NOT_CONTROLLER),
        2: int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    }
    assignments.answered(0, answer(take(assignments), codes))

    assert assignments.next_deadline_ms() == 100
    assert take(assignments, 99) is None
    assert said(take(assignments, 100)) == {FIRST: [1]}
    assignments.failed(100)
    assert assignments.next_deadline_ms() == 300
    assignments.answered(300, answer(take(assignments, 300)))
    assert len(assignments) == 0


def test_a_newer_assignment_replaces_one_that_was_refused() -> None:
    assignments = Assignments()
    assignments.add(wanted(0))
    take(assignments)
    assignments.add(wanted(0, directory=SECOND))
    assignments.answered(0, AssignReplicasToDirsResponse(error_code=int(ErrorCode.NOT_CONTROLLER)))

    assert said(take(assignments, 100)) == {SECOND: [0]}


def test_replicas_that_are_no_longer_there_are_dropped() -> None:
    assignments = Assignments()
    assignments.add(wanted(0, 1))

    assert said(take(assignments, gone=(0,))) == {FIRST: [1]}


def test_a_request_has_as_many_as_kafkas() -> None:
    assignments = Assignments()
    assignments.add(wanted(*range(MAX_ASSIGNMENTS + 5)))
    first = take(assignments)

    assert len(said(first)[FIRST]) == MAX_ASSIGNMENTS
    assignments.answered(0, answer(first))
    assert len(said(take(assignments))[FIRST]) == 5
