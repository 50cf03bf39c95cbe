"""Ways into a group, in the order of the rules in the package's README."""

import re
from typing import Any

import pytest

from ledgerstone.coordinator.turn import GroupConfig
from ledgerstone.protocol.error_codes import ErrorCode
from tests.unit.coordinator.desk import DELAY_MS, REBALANCE_MS, SESSION_MS, Desk


@pytest.mark.parametrize("session_timeout_ms", [0, 5_999, 1_800_001])
def test_session_timeout_out_of_bounds_is_refused(desk: Desk, session_timeout_ms: int) -> None:
    refused = desk.joined(desk.join(session_timeout_ms=session_timeout_ms))

    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert not desk.shard.table.groups


def test_empty_group_id_is_refused(desk: Desk) -> None:
    assert desk.joined(desk.join(group="")).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("fields", [{"protocols": ()}, {"protocol_type": ""}])
def test_join_without_a_protocol_is_refused_and_leaves_no_group(
    desk: Desk, fields: dict[str, Any]
) -> None:
    refused = desk.joined(desk.join(**fields))

    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not desk.shard.table.groups


@pytest.mark.parametrize(("version", "protocol_name"), [(6, ""), (7, None)])
def test_refusal_has_a_null_protocol_only_where_the_version_allows_it(
    desk: Desk, version: int, protocol_name: str | None
) -> None:
    refused = desk.joined(desk.join("stranger", version=version))

    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.protocol_name == protocol_name
    assert refused.member_id == "stranger"


def test_new_client_is_handed_an_id_first(desk: Desk) -> None:
    refused = desk.joined(desk.join(version=4, client="app"))

    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    uuid4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(f"app-{uuid4}", refused.member_id)
    assert not desk.group().roster.members


def test_old_client_becomes_a_member_at_once(desk: Desk) -> None:
    token = desk.join(version=3)
    desk.pass_time(DELAY_MS)

    assert desk.joined(token).error_code == ErrorCode.NONE
    assert desk.joined(token).member_id == desk.joined(token).leader


def test_handed_out_id_is_forgotten_after_the_session_timeout(desk: Desk) -> None:
    member_id = desk.member_id()
    desk.pass_time(SESSION_MS)

    refused = desk.joined(desk.join(member_id))

    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_first_generation_waits_for_the_initial_delay(desk: Desk) -> None:
    token = desk.join(version=3)

    desk.pass_time(DELAY_MS - 1)
    assert token not in desk.answers
    desk.pass_time(1)
    assert desk.joined(token).generation_id == 1


def test_initial_delay_is_extended_while_new_members_keep_coming(desk: Desk) -> None:
    first = desk.join(version=3)
    desk.pass_time(DELAY_MS - 1)
    second = desk.join(version=3)

    desk.pass_time(DELAY_MS)
    assert first not in desk.answers
    desk.pass_time(1)
    assert desk.joined(first).generation_id == desk.joined(second).generation_id == 1


def test_initial_delay_never_exceeds_the_rebalance_timeout(desk: Desk) -> None:
    first = desk.join(version=3, rebalance_timeout_ms=7_000)
    for _ in range(6):
        desk.join(version=3, rebalance_timeout_ms=7_000)
        desk.pass_time(1_000)

    assert first not in desk.answers
    desk.pass_time(1_000)
    assert desk.joined(first).generation_id == 1


def test_leader_is_the_first_joiner_and_learns_about_everybody(desk: Desk) -> None:
    ids = [desk.member_id() for _ in range(3)]
    tokens = [desk.join(each, metadata=each.encode()) for each in ids]
    desk.await_answer(tokens[0])

    leader, *followers = map(desk.joined, tokens)

    assert [(each.member_id, each.metadata) for each in leader.members] == [
        (each, each.encode()) for each in ids
    ]
    assert {answer.leader for answer in (leader, *followers)} == {ids[0]}
    assert [answer.members for answer in followers] == [[], []]


def test_protocol_with_most_votes_among_those_all_support_wins(desk: Desk) -> None:
    wishes = [("sticky", "range"), ("only-mine", "range", "sticky"), ("range", "sticky")]
    tokens = [desk.join(version=3, protocols=wish) for wish in wishes]
    desk.await_answer(tokens[0])

    assert {desk.joined(token).protocol_name for token in tokens} == {"range"}


def test_member_without_a_common_protocol_is_refused(desk: Desk) -> None:
    desk.form(1, protocols=("range",))

    strange: list[dict[str, Any]] = [{"protocols": ("sticky",)}, {"protocol_type": "connect"}]
    for fields in strange:
        refused = desk.joined(desk.join(version=3, **fields))
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_join_of_a_known_member_in_completing_repeats_the_current_generation(desk: Desk) -> None:
    member_id = desk.member_id()
    first = desk.join(member_id)
    desk.await_answer(first)

    again = desk.joined(desk.join(member_id))

    assert again == desk.joined(first)
    assert desk.group().state.value == "CompletingRebalance"


def test_follower_with_nothing_new_to_say_does_not_disturb_a_stable_group(desk: Desk) -> None:
    leader, follower = desk.form(2)

    answer = desk.joined(desk.join(follower))

    assert (answer.generation_id, answer.leader, answer.members) == (1, leader, [])
    assert desk.group().state.value == "Stable"


@pytest.mark.parametrize("who", [0, 1])
def test_leader_or_changed_metadata_starts_a_rebalance_in_stable(desk: Desk, who: int) -> None:
    members = desk.form(2)

    token = desk.join(members[who], metadata=b"changed" if who else b"")

    assert token not in desk.answers
    assert desk.group().state.value == "PreparingRebalance"
    other = desk.join(members[1 - who])
    assert desk.joined(token).generation_id == desk.joined(other).generation_id == 2


def test_members_that_do_not_rejoin_in_time_are_removed(desk: Desk) -> None:
    leader, follower = desk.form(2, session_timeout_ms=REBALANCE_MS + 1)
    token = desk.join(leader, session_timeout_ms=REBALANCE_MS + 1)

    desk.pass_time(REBALANCE_MS - 1)
    assert token not in desk.answers
    desk.pass_time(1)

    assert [each.member_id for each in desk.joined(token).members] == [leader]
    assert desk.heartbeat(follower, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_second_join_of_a_parked_member_releases_the_first(desk: Desk) -> None:
    leader, _ = desk.form(2)
    first = desk.join(leader)
    second = desk.join(leader)

    assert desk.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in desk.answers


def test_rebalance_waits_for_ids_that_were_handed_out(desk: Desk) -> None:
    (leader,) = desk.form(1)
    pending = desk.member_id()
    token = desk.join(leader)

    assert token not in desk.answers
    desk.leave((pending, None))

    assert desk.joined(token).generation_id == 2


def test_new_member_is_forgotten_after_five_minutes_of_waiting() -> None:
    desk = Desk()
    patient = desk.form(1, session_timeout_ms=600_000, rebalance_timeout_ms=1_000_000)[0]
    token = desk.join(version=3, rebalance_timeout_ms=1_000_000)

    desk.pass_time(300_000 - 1)
    assert token not in desk.answers
    desk.pass_time(1)

    assert desk.joined(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(desk.group().roster.members) == [patient]


def test_full_group_refuses_new_members_but_not_its_own() -> None:
    desk = Desk(GroupConfig(group_max_size=2))
    leader, follower = desk.form(2)

    refused = desk.joined(desk.join(version=3))

    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.joined(desk.join(follower)).error_code == ErrorCode.NONE
    assert desk.heartbeat(leader) == ErrorCode.NONE


def test_lowered_maximum_is_reached_by_turning_away_the_last_to_rejoin(desk: Desk) -> None:
    members = desk.form(3)
    desk.config = GroupConfig(group_max_size=2)
    desk.restart()

    tokens = [desk.join(each) for each in members]

    errors = [desk.joined(token).error_code for token in tokens]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert list(desk.group().roster.members) == members[:2]


def test_pending_client_that_finds_the_group_full_is_forgotten() -> None:
    desk = Desk(GroupConfig(group_max_size=1))
    pending = desk.member_id()
    token = desk.join(version=3)
    desk.await_answer(token)
    desk.sync(desk.joined(token).member_id)

    refused = desk.joined(desk.join(pending))

    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not desk.group().roster.pending_ids


def test_version_0_uses_the_session_timeout_for_rebalances(desk: Desk) -> None:
    desk.join(version=0, rebalance_timeout_ms=-1)

    assert desk.group().roster.rebalance_timeout_ms == SESSION_MS


def test_metadata_is_that_of_the_chosen_protocol(desk: Desk) -> None:
    first = desk.join(version=3, protocols={"range": b"one"})
    desk.join(version=3, protocols={"sticky": b"not this", "range": b"two"})
    desk.await_answer(first)

    assert [each.metadata for each in desk.joined(first).members] == [b"one", b"two"]


class _Name(str):
    """Counts how often names are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_work_for_protocols_grows_with_their_number_alone(desk: Desk) -> None:
    """A member may name tens of thousands, and one thread serves everybody."""
    protocols = [_Name(f"protocol-{number}") for number in range(500)]
    others = [_Name(f"other-{number}") for number in range(500)]

    first = desk.join(version=3, protocols=protocols)
    desk.await_answer(first)
    stranger = desk.join(version=3, protocols=others)

    assert desk.joined(first).protocol_name == protocols[0]
    assert desk.joined(stranger).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert _Name.compared <= 20 * len(protocols)
