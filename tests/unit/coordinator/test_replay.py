"""Records: what is written when, what comes back from them, and what if they cannot be written."""

import pytest

from ledgerstone.coordinator.group_records import (
    GroupEntry,
    OffsetEntry,
    group_tombstone,
    offset_record,
    offset_tombstone,
    read_record,
    subscribed_topics,
)
from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.errors import CorruptRecord
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.group_records import GroupMetadataValue
from ledgerstone.protocol.messages.join_group import JoinGroupResponse
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ledgerstone.types import TopicPartition
from tests.unit.coordinator.desk import GROUP, SESSION_MS, Desk, subscription

TP = TopicPartition("t", 3)


def _generations(desk: Desk) -> list[GroupMetadataValue]:
    entries = (read_record(*record) for record in desk.log)
    return [
        entry.value
        for entry in entries
        if isinstance(entry, GroupEntry) and entry.value is not None
    ]


# -- bytes ----------------------------------------------------------------------------------------


def test_offset_record_has_the_bytes_kafka_writes() -> None:
    record = offset_record("g", TP, CommittedOffset(5, 2, "m", 1000), bytes(range(16)))

    assert record.key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert record.value == bytes.fromhex(
        "0004 0000000000000005 00000002 02 6d 00000000000003e8 01 00 10"
        "000102030405060708090a0b0c0d0e0f"
    )


def test_offset_record_with_an_expiry_of_its_own_is_of_version_1() -> None:
    record = offset_record("g", TP, CommittedOffset(5, 2, "", 1000, 2000))

    assert record.value == bytes.fromhex(
        "0001 0000000000000005 0000 00000000000003e8 00000000000007d0"
    )


def test_tombstones_are_keys_without_a_value() -> None:
    assert offset_tombstone("g", TP) == (bytes.fromhex("0001 0001 67 0001 74 00000003"), None)
    assert group_tombstone("g") == (bytes.fromhex("0002 0001 67"), None)


def test_offset_record_comes_back_as_it_was() -> None:
    for committed in (CommittedOffset(5, 2, "m", 1000), CommittedOffset(5, -1, "m", 1000, 2000)):
        assert read_record(*offset_record("g", TP, committed)) == OffsetEntry("g", TP, committed)
    assert read_record(*offset_tombstone("g", TP)) == OffsetEntry("g", TP, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\0", None),
        (bytes.fromhex("0001 7fff 67"), None),
        (bytes.fromhex("0002 0001 67"), b"\0"),
        (bytes.fromhex("0002 0001 67"), bytes.fromhex("0063 00")),
        (bytes.fromhex("0002 0001 67"), bytes.fromhex("0003 0000 00000001 ffff ffff")),
        (bytes.fromhex("0001 0001 67 0001 74 00000003"), bytes.fromhex("0003 0000")),
    ],
)
def test_broken_record_is_said_to_be_corrupt(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        read_record(key, value)


def test_records_of_other_types_are_skipped_and_counted(desk: Desk) -> None:
    for key_type in (3, 8, 16, 99):
        desk.shard.replay(key_type.to_bytes(2, "big") + b"whatever", b"\0\0whatever")

    assert desk.shard.skipped_record_count == 4
    assert not desk.shard.table.groups


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1"]
)
def test_subscription_that_is_none_is_not_believed(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


def test_subscription_of_a_later_version_is_read_by_its_first_fields() -> None:
    later = b"\0\x03" + subscription("orders", "returns")[2:] + b"more to come"

    assert subscribed_topics(later) == ["orders", "returns"]


# -- when -----------------------------------------------------------------------------------------


def test_generation_is_written_when_its_assignment_is_known(desk: Desk) -> None:
    leader, follower = desk.form(2, metadata=b"said")

    (value,) = _generations(desk)
    assert (value.generation, value.leader, value.protocol) == (1, leader, "range")
    assert [(each.member_id, each.subscription, each.assignment) for each in value.members] == [
        (leader, b"said", b"0"),
        (follower, b"said", b"1"),
    ]


def test_group_that_became_empty_is_written_with_its_next_generation(desk: Desk) -> None:
    (member,) = desk.form(1)
    desk.leave((member, None))

    value = _generations(desk)[-1]
    assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
    assert value.protocol_type == "consumer"
    assert value.current_state_timestamp == desk.wall_ms


def test_own_record_does_not_undo_what_happened_since(desk: Desk) -> None:
    leader, follower = desk.form(2)
    record = desk.log[-1]
    desk.leave((follower, None))

    desk.shard.replay(*record)

    assert list(desk.group().roster.members) == [leader]


def test_tombstone_of_a_group_that_has_members_again_does_not_remove_them(desk: Desk) -> None:
    (member,) = desk.form(1)

    desk.shard.replay(*group_tombstone(GROUP))

    assert desk.heartbeat(member) == ErrorCode.NONE


# -- recovery -------------------------------------------------------------------------------------


def test_restored_group_goes_on_where_it_was(desk: Desk) -> None:
    leader, follower = desk.form(2)
    desk.commit(member_id=leader, generation_id=1)

    desk.restart()

    assert desk.heartbeat(leader) == desk.heartbeat(follower) == ErrorCode.NONE
    assert desk.synced(desk.sync(follower)).assignment == b"1"
    assert desk.committed() == 7
    assert desk.group().roster.leader_id == leader


def test_restored_members_get_a_whole_session_before_they_count_as_silent(desk: Desk) -> None:
    (member,) = desk.form(1)
    desk.restart()

    desk.pass_time(SESSION_MS - 1)
    assert member in desk.group().roster.members
    desk.pass_time(1)
    assert desk.group().state is GroupPhase.EMPTY


def test_restored_follower_may_join_again_without_a_rebalance(desk: Desk) -> None:
    _, follower = desk.form(2, metadata=b"said")
    desk.restart()

    assert desk.joined(desk.join(follower, metadata=b"said")).generation_id == 1


def test_group_that_was_still_joining_is_forgotten_with_the_broker(desk: Desk) -> None:
    member = desk.member_id()
    desk.join(member)

    desk.restart()

    assert desk.joined(desk.join(member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_bring_their_group_back_even_after_its_tombstone(desk: Desk) -> None:
    desk.commit()
    desk.log.append(group_tombstone(GROUP))
    desk.restart()

    assert desk.committed() == 7
    assert desk.group().state is GroupPhase.EMPTY


# -- records that could not be appended -----------------------------------------------------------


def _fail(desk: Desk, api: str, request: object, version: int, error: ErrorCode) -> None:
    desk.asked += 1
    outcome = desk.outcome_of(api, request, version)  # type: ignore[arg-type]  # any request
    assert outcome.records
    desk.perform(desk.shard.append_failed(outcome, error, desk.now))


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_assignment_that_was_not_written_is_given_to_nobody(
    desk: Desk, append_error: ErrorCode, told: ErrorCode
) -> None:
    leader, follower = (desk.member_id() for _ in range(2))
    token = desk.join(leader)
    desk.join(follower)
    desk.await_answer(token)
    waiting = desk.sync(follower)

    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=leader)
    _fail(desk, "sync_group", request, 5, append_error)

    assert desk.synced(waiting).error_code == told
    assert desk.answer(desk.asked, SyncGroupResponse).error_code == told
    assert desk.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    again = [desk.join(each) for each in (leader, follower)]
    assert [desk.joined(each).generation_id for each in again] == [2, 2]


def test_commit_that_was_too_large_for_the_log_says_so(desk: Desk) -> None:
    partition = OffsetCommitRequestPartition(committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    _fail(
        desk,
        "offset_commit",
        OffsetCommitRequest(group_id=GROUP, topics=[topic]),
        9,
        ErrorCode.MESSAGE_TOO_LARGE,
    )

    response = desk.answer(desk.asked, OffsetCommitResponse)
    error_code = response.topics[0].partitions[0].error_code
    assert error_code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert desk.committed("t") == -1


def test_group_whose_deletion_was_not_written_lives_on(desk: Desk) -> None:
    desk.commit()
    _fail(
        desk,
        "delete_groups",
        DeleteGroupsRequest(groups_names=[GROUP, "nowhere"]),
        2,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )

    results = desk.answer(desk.asked, DeleteGroupsResponse).results
    assert [each.error_code for each in results] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert desk.group().state is GroupPhase.EMPTY
    assert desk.commit(8) == ErrorCode.NONE


# -- losing the partition -------------------------------------------------------------------------


def test_resigning_shard_sends_everybody_who_waits_elsewhere(desk: Desk) -> None:
    leader, _ = desk.form(2)
    joining = desk.join(leader)
    other = desk.join(group="other", version=3)

    desk.perform(desk.shard.resign(desk.now))

    for token in (joining, other):
        refused = desk.answer(token, JoinGroupResponse)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert desk.shard.next_deadline_ms is None
