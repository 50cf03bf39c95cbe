"""Committing, fetching, deleting and expiring offsets."""

import pytest

from ledgerstone.coordinator.group_state import GroupPhase
from ledgerstone.coordinator.turn import GroupConfig
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.unit.coordinator.desk import GROUP, REBALANCE_MS, SESSION_MS, T0, Desk, subscription

DAY_MS = 86_400_000
CHECK_MS = 600_000


# -- OffsetCommit ---------------------------------------------------------------------------------


def test_client_without_a_group_may_commit(desk: Desk) -> None:
    assert desk.commit(7) == ErrorCode.NONE
    assert desk.committed() == 7
    assert desk.group().protocol_type is None


def test_commit_is_not_visible_before_its_record_is_replayed(desk: Desk) -> None:
    partition = OffsetCommitRequestPartition(committed_offset=7)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP, topics=[topic])

    outcome = desk.outcome_of("offset_commit", request, 9)

    assert desk.committed() == -1
    for record in outcome.records:
        desk.shard.replay(*record)
    assert desk.committed() == 7


@pytest.mark.parametrize(
    ("version", "error_code"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_commit_of_a_generation_of_an_unknown_group_is_refused(
    desk: Desk, version: int, error_code: ErrorCode
) -> None:
    assert desk.commit(generation_id=3, member_id="m", version=version) == error_code
    assert not desk.shard.table.groups


def test_commit_is_checked_for_member_then_for_generation(desk: Desk) -> None:
    (member,) = desk.form(1)

    assert desk.commit(member_id="stranger", generation_id=9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.commit(member_id=member, generation_id=9) == ErrorCode.ILLEGAL_GENERATION
    assert desk.commit(member_id=member, generation_id=1) == ErrorCode.NONE


def test_commit_without_a_member_is_refused_while_there_are_members(desk: Desk) -> None:
    desk.form(1)

    assert desk.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.committed() == -1


def test_commit_while_the_assignment_is_awaited_is_refused(desk: Desk) -> None:
    member = desk.member_id()
    desk.await_answer(desk.join(member))

    assert desk.commit(member_id=member, generation_id=1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_may_commit_their_last_generation_during_the_join_phase(desk: Desk) -> None:
    leader, follower = desk.form(2)
    desk.join(leader)

    assert desk.commit(member_id=follower, generation_id=1) == ErrorCode.NONE


def test_commit_keeps_the_session_alive(desk: Desk) -> None:
    (member,) = desk.form(1)

    for _ in range(3):
        desk.pass_time(SESSION_MS - 1)
        assert desk.commit(member_id=member, generation_id=1) == ErrorCode.NONE


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone(desk: Desk) -> None:
    assert desk.commit(metadata="x" * 4096) == ErrorCode.NONE
    assert desk.commit(8, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert desk.committed() == 7


def test_empty_group_id_may_keep_offsets(desk: Desk) -> None:
    assert desk.commit(group="") == ErrorCode.NONE
    assert desk.committed(group="") == 7


# -- OffsetFetch ----------------------------------------------------------------------------------


def _fetch(desk: Desk, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
    return desk.answer(desk.ask("offset_fetch", request, version), OffsetFetchResponse)


def test_unknown_group_has_committed_nothing_and_that_is_no_error(desk: Desk) -> None:
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 3])]

    response = _fetch(desk, 7, OffsetFetchRequest(group_id="nowhere", topics=topics))

    assert response.error_code == ErrorCode.NONE
    found = [
        (each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for each in response.topics[0].partitions
    ]
    assert found == [(0, -1, "", 0), (3, -1, "", 0)]
    assert not desk.shard.table.groups


@pytest.mark.parametrize("require_stable", [False, True])
def test_fetch_of_one_group_gives_offset_epoch_and_metadata(
    desk: Desk, require_stable: bool
) -> None:
    desk.commit(7, metadata="note")
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]

    response = _fetch(
        desk, 7, OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=require_stable)
    )

    (partition,) = response.topics[0].partitions
    assert partition.committed_offset == 7
    assert partition.committed_leader_epoch == 4
    assert partition.metadata == "note"


def test_fetch_of_all_topics_gives_what_was_committed(desk: Desk) -> None:
    desk.commit(7, topic="orders")
    desk.commit(9, topic="returns")

    one = _fetch(desk, 7, OffsetFetchRequest(group_id=GROUP, topics=None))
    groups = [OffsetFetchRequestGroup(group_id=GROUP), OffsetFetchRequestGroup(group_id="nowhere")]
    many = _fetch(desk, 9, OffsetFetchRequest(groups=groups))

    expected = [("orders", 7), ("returns", 9)]
    assert [(each.name, each.partitions[0].committed_offset) for each in one.topics] == expected
    found, nothing = many.groups
    assert [(each.name, each.partitions[0].committed_offset) for each in found.topics] == expected
    assert (nothing.group_id, nothing.topics, nothing.error_code) == ("nowhere", [], ErrorCode.NONE)


# -- OffsetDelete ---------------------------------------------------------------------------------


def _delete(desk: Desk, *topics: str, group: str = GROUP) -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition()])
            for name in topics
        ],
    )
    return desk.answer(desk.ask("offset_delete", request, 0), OffsetDeleteResponse)


def _codes(response: OffsetDeleteResponse) -> list[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def test_deleted_offset_is_gone_after_a_restart_too(desk: Desk) -> None:
    desk.commit()

    assert _codes(_delete(desk, "orders", "never-committed")) == [ErrorCode.NONE, ErrorCode.NONE]

    assert desk.committed() == -1
    assert len(desk.log) == 2
    desk.restart()
    assert desk.committed() == -1


def test_offsets_of_a_subscribed_topic_are_kept(desk: Desk) -> None:
    (member,) = desk.form(1, metadata=subscription("orders"))
    for topic in ("orders", "returns"):
        desk.commit(topic=topic, member_id=member, generation_id=1)

    codes = _codes(_delete(desk, "orders", "returns"))

    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert (desk.committed("orders"), desk.committed("returns")) == (7, -1)


def test_subscription_that_cannot_be_read_protects_every_topic(desk: Desk) -> None:
    desk.form(1, metadata=b"\0\0\x7f\xff\xff\xff")

    assert _codes(_delete(desk, "orders")) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_delete_of_a_group_with_members_of_another_kind_is_refused(desk: Desk) -> None:
    desk.form(1, protocol_type="connect")

    assert _delete(desk, "orders").error_code == ErrorCode.NON_EMPTY_GROUP
    assert _delete(desk, "orders", group="nowhere").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert _delete(desk, "orders", group="").error_code == ErrorCode.INVALID_GROUP_ID


def test_deleted_topic_takes_its_offsets_with_it(desk: Desk) -> None:
    desk.commit(topic="orders")
    desk.commit(topic="returns")
    desk.commit(topic="orders", group="other")

    desk.perform(desk.shard.topic_deleted("orders", desk.now))

    assert desk.committed("orders") == desk.committed("orders", "other") == -1
    assert desk.committed("returns") == 7


# -- expiry ---------------------------------------------------------------------------------------


def test_offset_of_a_simple_group_expires_seven_days_after_its_commit(desk: Desk) -> None:
    desk.commit()

    desk.pass_time(7 * DAY_MS - 1)
    assert desk.committed() == 7
    desk.pass_time(CHECK_MS)

    assert desk.committed() == -1
    assert GROUP not in desk.shard.table.groups


def test_retention_of_a_group_with_members_starts_when_the_last_one_leaves(desk: Desk) -> None:
    (member,) = desk.form(1, session_timeout_ms=1_800_000, metadata=subscription("orders"))
    desk.commit(member_id=member, generation_id=1)
    for _ in range(8 * DAY_MS // 1_000_000):
        desk.pass_time(1_000_000)
        desk.heartbeat(member)
    desk.leave((member, None))

    desk.pass_time(7 * DAY_MS - 1)
    assert desk.committed() == 7
    desk.pass_time(CHECK_MS)
    assert desk.committed() == -1


def test_stable_group_loses_offsets_of_topics_it_no_longer_reads(desk: Desk) -> None:
    (member,) = desk.form(1, session_timeout_ms=1_800_000, metadata=subscription("orders"))
    for topic in ("orders", "returns"):
        desk.commit(topic=topic, member_id=member, generation_id=1)

    for _ in range(8 * DAY_MS // 1_000_000):
        desk.pass_time(1_000_000)
        desk.heartbeat(member)

    assert desk.committed("orders") == 7
    assert desk.committed("returns") == -1
    assert desk.group().state is GroupPhase.STABLE


def test_offset_that_was_set_after_the_group_became_empty_has_its_full_time(desk: Desk) -> None:
    (member,) = desk.form(1)
    desk.leave((member, None))
    desk.commit(topic="other")
    desk.pass_time(6 * DAY_MS)
    desk.commit(topic="orders")

    desk.pass_time(2 * DAY_MS)

    assert desk.committed("other") == -1
    assert desk.committed("orders") == 7


def test_retention_asked_for_by_an_old_client_counts_for_its_offset_alone(desk: Desk) -> None:
    desk.commit(topic="orders", version=4, retention_time_ms=DAY_MS)
    desk.commit(topic="returns", version=4)
    desk.restart()

    desk.pass_time(DAY_MS + CHECK_MS)

    assert desk.committed("orders") == -1
    assert desk.committed("returns") == 7


def test_time_to_expire_counts_through_restarts(desk: Desk) -> None:
    (member,) = desk.form(1)
    desk.commit(member_id=member, generation_id=1)
    desk.leave((member, None))
    for _ in range(7):
        desk.pass_time(DAY_MS)
        desk.restart()

    desk.pass_time(CHECK_MS)

    assert desk.wall_ms - T0 < 7 * DAY_MS + 2 * CHECK_MS + REBALANCE_MS
    assert desk.committed() == -1


def test_group_that_never_came_to_anything_is_forgotten(desk: Desk) -> None:
    desk.member_id()

    desk.pass_time(CHECK_MS)

    assert not desk.shard.table.groups


def test_expiry_leaves_a_group_alone_while_an_id_is_handed_out() -> None:
    desk = Desk(GroupConfig(offsets_retention_check_interval_ms=1_000))
    member_id = desk.member_id()
    desk.pass_time(5_000)

    assert desk.join(member_id) not in desk.answers
