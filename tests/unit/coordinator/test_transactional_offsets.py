"""Offsets committed inside transactions: pending until the marker, and unstable meanwhile."""

import pytest

from ledgerstone.coordinator.group_records import offset_record, offset_tombstone
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import GroupConfig, Now, RequestContext
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ledgerstone.sim.dice import SeededDice
from ledgerstone.types import TopicPartition

GROUP = "g"
TP = TopicPartition("t", 0)
NOW = Now(1_700_000_000_000, 0)
DAY_MS = 86_400_000
PLAIN = -1


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(GroupConfig(), SeededDice(0))


def replay(shard: GroupShard, offset: int | None, producer_id: int, group_id: str = GROUP) -> None:
    if offset is None:
        key, value = offset_tombstone(group_id, TP)
    else:
        committed = CommittedOffset(offset, commit_timestamp_ms=NOW.wall_ms)
        key, value = offset_record(group_id, TP, committed)
    shard.replay(key, value, producer_id)
    shard.check_invariants()


def end(shard: GroupShard, producer_id: int, *, commit: bool) -> None:
    shard.replay_marker(producer_id, commit=commit)
    shard.check_invariants()


def fetched(
    shard: GroupShard, *, require_stable: bool = False, version: int = 8
) -> tuple[int, int]:
    """Offset and error code."""
    if version >= 8:
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
    else:
        topic = OffsetFetchRequestTopic(name=TP.topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=require_stable)
    context = RequestContext(token=None, api_version=version)
    outcome = shard.handle_offset_fetch(request, context, NOW)
    answers = [answer for _, answer in outcome.answers]
    (answer,) = answers + [respond() for _, respond in outcome.late]
    assert isinstance(answer, OffsetFetchResponse)
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    if not topics:
        return -1, 0
    found = topics[0].partitions[0]
    return found.committed_offset, found.error_code


def test_pending_offset_is_not_committed(shard: GroupShard) -> None:
    replay(shard, 5, 7)

    assert fetched(shard) == (-1, 0)


def test_commit_marker_makes_it_so_and_abort_drops_it(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    replay(shard, 6, 8, group_id="other")

    end(shard, 8, commit=False)
    end(shard, 7, commit=True)

    assert fetched(shard) == (5, 0)
    assert shard.table.offsets.get("other", TP) is None


@pytest.mark.parametrize("version", [7, 8])
def test_unstable_offset_is_told_to_readers_that_want_stable_ones(
    shard: GroupShard, version: int
) -> None:
    replay(shard, 4, PLAIN)
    replay(shard, 5, 7)

    assert fetched(shard, version=version) == (4, 0)
    unstable = fetched(shard, require_stable=True, version=version)
    assert unstable == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(shard, 7, commit=False)
    assert fetched(shard, require_stable=True, version=version) == (4, 0)


def test_later_record_wins_whichever_transaction_ends_first(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    replay(shard, 6, 8)

    end(shard, 8, commit=True)
    end(shard, 7, commit=True)

    assert fetched(shard) == (6, 0)


def test_earlier_transaction_counts_until_the_later_one_is_committed(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    replay(shard, 6, 8)

    end(shard, 7, commit=True)
    assert fetched(shard) == (5, 0)
    assert fetched(shard, require_stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    end(shard, 8, commit=True)

    assert fetched(shard, require_stable=True) == (6, 0)


def test_plain_commit_after_a_pending_one_wins_over_it(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    replay(shard, 6, PLAIN)

    still_open = fetched(shard, require_stable=True)[1]
    end(shard, 7, commit=True)

    assert still_open == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched(shard, require_stable=True) == (6, 0)


def test_tombstone_removes_what_is_pending_too(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    replay(shard, None, PLAIN)

    end(shard, 7, commit=True)

    assert fetched(shard) == (-1, 0)


def test_marker_of_an_unknown_producer_says_nothing(shard: GroupShard) -> None:
    replay(shard, 5, PLAIN)

    end(shard, 99, commit=True)
    end(shard, 99, commit=False)

    assert fetched(shard) == (5, 0)


def test_pending_offset_keeps_itself_and_its_group_from_expiring(shard: GroupShard) -> None:
    replay(shard, 4, PLAIN)
    replay(shard, 5, 7)
    shard.loaded(NOW)

    late = Now(NOW.wall_ms + 30 * DAY_MS, NOW.monotonic_ms + 30 * DAY_MS)

    assert shard.tick(late).records == []
    end(shard, 7, commit=False)
    later = Now(late.wall_ms + DAY_MS, late.monotonic_ms + DAY_MS)
    assert [record.value for record in shard.tick(later).records] == [None, None]


def test_deleted_group_and_topic_take_pending_offsets_with_them(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    shard.loaded(NOW)
    tombstone = offset_tombstone(GROUP, TP)

    context = RequestContext(token=None, api_version=2)
    deleted = shard.handle_delete_groups(DeleteGroupsRequest(groups_names=[GROUP]), context, NOW)

    assert tombstone in deleted.records
    assert shard.topic_deleted(TP.topic, NOW).records == [tombstone]


def test_what_is_pending_is_counted_and_given_back(shard: GroupShard) -> None:
    replay(shard, 5, 7)
    held = shard.table.memory.offsets_bytes
    replay(shard, 5, 7)

    assert 0 < held == shard.table.memory.offsets_bytes
    end(shard, 7, commit=False)
    assert shard.table.memory.offsets_bytes == 0
