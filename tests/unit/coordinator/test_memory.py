"""What strangers can make groups hold is counted, is what it costs, and ends at the limits."""

import gc
import tracemalloc
from dataclasses import dataclass, field

import pytest

from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import GroupConfig, Now, RequestContext
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.join_group import JoinGroupProtocol, JoinGroupRequest
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.sim.dice import SeededDice
from tests.unit.coordinator.desk import SESSION_MS, Desk, subscription

MIB = 1 << 20
HALF_AN_HOUR_MS = 1_800_000


def desk_of(**limits: int) -> Desk:
    return Desk(GroupConfig(**limits))


def commit(desk: Desk, group: str, topics: dict[str, int], metadata: str = "") -> list[int]:
    """Commits offsets for so many partitions of each topic; their error codes."""
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=1, committed_metadata=metadata
                    )
                    for number in range(count)
                ],
            )
            for topic, count in topics.items()
        ],
    )
    answer = desk.answer(desk.ask("offset_commit", request, 8), OffsetCommitResponse)
    return [each.error_code for topic in answer.topics for each in topic.partitions]


# -- members --------------------------------------------------------------------------------------


def test_a_thousand_large_members_stay_within_the_bytes_of_all_groups() -> None:
    # 800 JoinGroup of 1 MB with sessions of half an hour once held 815 MB.
    config = GroupConfig()
    shard = GroupShard(config, SeededDice(1))
    shard.loaded(Now(0, 0))
    codes = []
    for number in range(800):
        request = JoinGroupRequest(
            group_id=f"g{number}",
            session_timeout_ms=HALF_AN_HOUR_MS,
            rebalance_timeout_ms=HALF_AN_HOUR_MS,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol("range", bytes(MIB))],
        )
        context = RequestContext(token=number, api_version=3, connection=number)
        answers = shard.handle_join_group(request, context, Now(0, 0)).answers
        codes += [getattr(each.response, "error_code", 0) for each in answers] or [0]
    limit, held = config.ledgerstone_groups_max_bytes, shard.table.memory.members_bytes
    assert limit - 2 * MIB < held <= limit
    assert codes[:100] == [0] * 100
    assert codes[-1] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(shard.table.groups) == codes.count(0), "a refused join left a group"
    shard.check_invariants()


def test_a_full_broker_still_serves_who_is_in_and_lets_others_in_once_there_is_room() -> None:
    desk = desk_of(ledgerstone_groups_max_bytes=40_000)
    first = desk.join(group="a", version=3, metadata=bytes(30_000))
    refused = desk.join(group="b", version=3, metadata=bytes(30_000))
    assert desk.joined(refused).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    desk.await_answer(first)
    member = desk.joined(first)
    again = desk.join(member.member_id, group="a", version=3, metadata=bytes(30_000))
    assert desk.joined(again).error_code == ErrorCode.NONE
    larger = desk.join(member.member_id, group="a", version=3, metadata=bytes(60_000))
    assert desk.joined(larger).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.group("a").roster.members.keys() == {member.member_id}
    desk.pass_time(60_000 + 2 * SESSION_MS)
    let_in = desk.join(group="b", version=3, metadata=bytes(30_000))
    assert let_in not in desk.answers, "parked until the join phase ends"


def test_a_group_that_is_full_by_bytes_says_so() -> None:
    desk = desk_of(ledgerstone_group_max_bytes=100_000)
    for _ in range(3):
        assert desk.join(version=3, metadata=bytes(30_000)) not in desk.answers
    refused = desk.joined(desk.join(version=3, metadata=bytes(30_000)))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join(group="another", version=3, metadata=bytes(30_000)) not in desk.answers
    assert "readers" in (desk.shard.table.memory.refusal or "")


def test_one_connection_cannot_fill_many_groups() -> None:
    desk = desk_of(ledgerstone_group_connection_max_bytes=100_000)

    def join(group: str, connection: int) -> int:
        desk.asked += 1
        desk.versions[desk.asked] = 3
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupProtocol("range", bytes(30_000))],
        )
        context = RequestContext(token=desk.asked, api_version=3, connection=connection)
        desk.perform(desk.shard.handle_join_group(request, context, desk.now))
        return desk.asked

    for number in range(2):
        assert join(f"g{number}", 7) not in desk.answers
    assert join("g2", 7) not in desk.answers
    assert desk.joined(join("g3", 7)).error_code == ErrorCode.POLICY_VIOLATION
    assert join("g3", 8) not in desk.answers
    desk.pass_time(1_000_000)
    memory = desk.shard.table.memory
    assert (memory.held_by(7), memory.held_by(8)) == (0, 0), "their sessions have ended"


def test_ids_that_are_handed_out_are_counted_until_they_are_forgotten() -> None:
    desk = desk_of(ledgerstone_group_max_bytes=20_000)
    answers = [desk.joined(desk.join(client="c" * 500)) for _ in range(100)]
    codes = [each.error_code for each in answers]
    assert codes[0] == ErrorCode.MEMBER_ID_REQUIRED
    assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(desk.group().roster.pending_ids) < 20
    desk.pass_time(SESSION_MS)
    assert not desk.group().roster.pending_ids
    desk.shard.check_invariants()


def test_assignments_count_for_the_group_and_are_refused_before_they_are_kept() -> None:
    desk = desk_of(ledgerstone_group_max_bytes=50_000)
    token = desk.join(version=3)
    desk.await_answer(token)
    leader = desk.joined(token).member_id
    refused = desk.sync(leader, assignments={leader: bytes(60_000), "nobody": bytes(10)})
    assert desk.synced(refused).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    small = desk.sync(leader, assignments={leader: bytes(6_000), "nobody": bytes(60_000)})
    assert desk.synced(small).assignment == bytes(6_000)
    assert desk.group().roster.held_bytes < 20_000, "what is for nobody is not kept"


def test_a_full_broker_tells_a_leader_to_come_back_with_its_assignment() -> None:
    # Consumers take no other code for `later` here; any unknown one ends them.
    desk = desk_of(ledgerstone_groups_max_bytes=20_000)
    token = desk.join(version=3)
    desk.await_answer(token)
    leader = desk.joined(token).member_id
    refused = desk.sync(leader, assignments={leader: bytes(60_000)})
    assert desk.synced(refused).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_empty_groups_that_nobody_left_anything_in_are_counted_until_they_go() -> None:
    desk = desk_of(ledgerstone_groups_max_bytes=200_000)
    refused = 0
    for number in range(200):
        answer = desk.joined(desk.join(group=f"g{number}"))
        if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            refused += 1
    assert refused > 50
    desk.pass_time(desk.config.offsets_retention_check_interval_ms + SESSION_MS)
    assert not desk.shard.table.groups
    assert desk.shard.table.memory.members_bytes == 0


def test_a_client_id_as_long_as_a_string_may_be_makes_a_member_id_that_can_be_written() -> None:
    desk = Desk()
    member_id = desk.member_id(client="é" * 16_000)
    token = desk.join(member_id, client="é" * 16_000)
    desk.await_answer(token)
    desk.synced(desk.sync(member_id, assignments={member_id: b"all"}))
    desk.restart()
    assert list(desk.group().roster.members) == [member_id]


# -- offsets --------------------------------------------------------------------------------------


def test_offsets_end_at_their_limit_and_those_that_are_there_move_on() -> None:
    desk = desk_of(ledgerstone_offsets_max_bytes=300_000, offset_metadata_max_bytes=4096)
    codes = commit(desk, "a", {"t": 100}, "m" * 4096)
    kept = codes.count(0)
    assert 0 < kept < 100
    assert codes == [ErrorCode.NONE] * kept + [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * (100 - kept)
    memory = desk.shard.table.memory
    assert 290_000 < memory.offsets_bytes <= 300_000
    assert commit(desk, "a", {"t": kept}, "m" * 4096) == [ErrorCode.NONE] * kept
    assert commit(desk, "b", {"t": 1}, "m" * 4096) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    assert "b" not in desk.shard.table.groups
    assert desk.join(group="b", version=3) not in desk.answers, "there is room for members"


def test_many_groups_with_an_offset_each_end_at_the_same_limit() -> None:
    desk = desk_of(ledgerstone_offsets_max_bytes=100_000)
    codes = [commit(desk, "g" * 1000 + str(n), {"t": 1})[0] for n in range(200)]
    assert codes[0] == ErrorCode.NONE
    assert codes[-1] == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert desk.shard.table.memory.offsets_bytes <= 100_000


def test_what_is_in_the_log_is_counted_and_not_refused() -> None:
    desk = Desk()
    assert set(commit(desk, "a", {"t": 100, "u": 3})) == {ErrorCode.NONE}
    before = desk.shard.table.memory.offsets_bytes
    desk.config = GroupConfig(ledgerstone_offsets_max_bytes=1)
    desk.restart()
    assert desk.shard.table.memory.offsets_bytes == before
    assert commit(desk, "a", {"v": 1}) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    desk.perform(desk.shard.topic_deleted("t", desk.now))
    desk.perform(desk.shard.topic_deleted("u", desk.now))
    assert desk.shard.table.memory.offsets_bytes == 0


def test_a_shard_that_resigns_gives_everything_back() -> None:
    config = GroupConfig()
    memory = GroupMemory(config)
    desk = Desk(config)
    desk.shard = GroupShard(config, SeededDice(1), memory)
    desk.perform(desk.shard.loaded(desk.now))
    commit(desk, "a", {"t": 10})
    desk.join(version=3)
    desk.member_id(group="other")
    assert memory.members_bytes > 0 < memory.offsets_bytes
    desk.perform(desk.shard.resign(desk.now))
    assert (memory.members_bytes, memory.offsets_bytes) == (0, 0)


# -- the price ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Crowd:
    """A shard without a desk, whose books would be measured too."""

    shard: GroupShard = field(
        default_factory=lambda: GroupShard(GroupConfig(), SeededDice(1)), init=False
    )

    def join(self, group: str, number: int, version: int) -> None:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[
                JoinGroupProtocol("range", subscription("orders")),
                JoinGroupProtocol("cooperative-sticky", subscription("orders")),
            ],
        )
        context = RequestContext(
            token=object(), api_version=version, client_id=f"client-{number}", connection=number
        )
        self.shard.handle_join_group(request, context, Now(0, 0))

    def commit(self, group: str, partitions: range) -> None:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number, committed_offset=10**12 + number
                        )
                        for number in partitions
                    ],
                )
            ],
        )
        context = RequestContext(token=object(), api_version=8)
        for record in self.shard.handle_offset_commit(request, context, Now(10**12, 0)).records:
            self.shard.replay(*record)


@pytest.mark.parametrize(
    "what", ["members", "groups", "handed out ids", "offsets", "offset groups"]
)
def test_what_is_counted_is_at_least_what_it_costs(what: str) -> None:
    crowd = Crowd()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(500):
            match what:
                case "members":
                    crowd.join("one", number, 3)
                case "groups":
                    crowd.join(f"group-{number}", number, 3)
                case "handed out ids":
                    crowd.join("one", number, 9)
                case "offsets":
                    crowd.commit("one", range(number * 10, number * 10 + 10))
                case _:
                    crowd.commit(f"group-{number}", range(1))
        gc.collect()
        cost = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    memory = crowd.shard.table.memory
    counted = memory.members_bytes + memory.offsets_bytes
    assert counted >= cost, f"{what}: {counted} counted, {cost} in use"
    assert counted < 2 * cost, f"{what}: {counted} counted, {cost} in use"
