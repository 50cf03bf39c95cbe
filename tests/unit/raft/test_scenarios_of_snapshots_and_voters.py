"""Snapshots and changes of voters, told step by step."""

from dataclasses import replace

import pytest

from ledgerstone.errors import StorageError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import messages
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.messages import (
    AddVoter,
    Fetch,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RemoveVoter,
    UpgradeVersion,
    VoterChangeAnswer,
)
from ledgerstone.raft.replica import OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.roles import Download, Follower, Resigned, Unattached
from ledgerstone.raft.settings import Settings
from ledgerstone.raft.snapshotting import IllegalSnapshot
from ledgerstone.records.builder import build_batch
from tests.kit.quorum import CLUSTER, WALL_MS, Desk, Replica, batch, key_of, voter_of, with_key

# Chunks far smaller than a snapshot, so that fetching one takes several rounds.
SMALL = Settings(fetch_snapshot_max_bytes=100, retention_bytes=1)


def snapshot(desk: Desk, replica: Replica, end_offset: int | None = None) -> OffsetAndEpoch:
    """Head, a batch of state, foot: as a state machine would write it."""
    raft = replica.raft
    at = raft.high_watermark if end_offset is None else end_offset
    plan = raft.plan_snapshot(desk.now, at, WALL_MS)
    assert plan is not None
    state = build_batch(
        [(WALL_MS, None, b"state" * 40, ())],
        base_offset=plan.first_offset,
        leader_epoch=plan.snapshot_id.epoch,
    )
    content = plan.head + bytes(state) + raft.snapshot_foot(plan, plan.first_offset + 1)
    replica.snapshots.finish(plan.snapshot_id, content)
    return plan.snapshot_id


def leader_with_snapshot(desk: Desk) -> tuple[Replica, OffsetAndEpoch]:
    """Node 0 leads and no longer has its first records; node 2 has nothing yet."""
    desk.start(0, 1)
    leader = desk.elect(0)
    for _ in range(5):
        desk.propose(0)
    snapshot(desk, leader, 3)
    latest = snapshot(desk, leader)
    leader.raft._snapshotting.clean()
    assert leader.log.start_offset == latest.offset
    return leader, latest


def change(desk: Desk, node_id: int, request: messages.Request) -> VoterChangeAnswer | None:
    """The answer; None while it waits."""
    found = desk.answers.get(desk.send(node_id, request))
    assert found is None or isinstance(found, VoterChangeAnswer)
    return found


def add(node_id: int) -> AddVoter:
    return AddVoter(cluster_id=CLUSTER, voter=voter_of(node_id), timeout_ms=2_000)


def remove(node_id: int) -> RemoveVoter:
    return RemoveVoter(cluster_id=CLUSTER, key=key_of(node_id))


def is_downloading(replica: Replica) -> bool:
    role = replica.raft.role
    return isinstance(role, Follower) and role.download is not None


def test_a_snapshot_is_given_up_too_when_kafka_cannot_say_what_is_wrong_with_it() -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR, without an epoch, for every refusal."""
    desk = Desk(3, settings=SMALL)
    leader, latest = leader_with_snapshot(desk)
    desk.start(2)
    desk.run(3_000)
    follower = desk[2].raft.role
    assert isinstance(follower, Follower)
    follower.download = Download(latest)

    refused = FetchSnapshotAnswer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    desk[2].raft._downloads.on_answer(0, refused)

    assert not is_downloading(desk[2])
    desk.propose(0)
    desk.run(1_000)
    assert desk[2].log.end_offset == leader.log.end_offset


def test_32_a_fetch_at_zero_gets_the_snapshot_and_the_follower_starts_over_from_it() -> None:
    desk = Desk(3, settings=SMALL)
    leader, latest = leader_with_snapshot(desk)

    desk.start(2)
    desk.run(3_000)

    assert desk[2].loaded == [latest]
    assert desk[2].log.start_offset == latest.offset
    assert desk[2].log.end_offset == leader.log.end_offset
    assert desk[2].raft.high_watermark == leader.raft.high_watermark
    assert desk[2].raft.voters == leader.raft.voters
    assert latest in desk[2].snapshots.ids()


def test_33_a_snapshot_deleted_while_it_is_fetched_is_given_up_and_another_one_taken() -> None:
    desk = Desk(3, settings=SMALL)
    leader, latest = leader_with_snapshot(desk)
    epoch = leader.raft.epoch
    desk.start(2)
    desk.propose(0)
    newer = snapshot(desk, leader)

    leader.raft._snapshotting.clean()
    fetch = FetchSnapshot(
        cluster_id=CLUSTER, replica=key_of(2), epoch=epoch, snapshot_id=latest, position=100
    )
    gone = desk.ask(0, fetch, FetchSnapshotAnswer)
    desk.run(3_000)

    assert gone.error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert desk[2].log.start_offset in (latest.offset, newer.offset)
    assert desk[2].log.end_offset == leader.log.end_offset


def test_34_a_crash_after_a_fetched_snapshot_got_its_name_is_finished_by_the_next_start() -> None:
    desk = Desk(3, settings=SMALL)
    leader, latest = leader_with_snapshot(desk)
    content = leader.snapshots.read(latest, 0, leader.snapshots.size_of(latest))
    for offset in range(4):
        desk[2].log.append(batch(offset, 0))
    desk[2].snapshots.finish(latest, content)

    desk.start(2)

    assert desk[2].log.start_offset == latest.offset
    assert desk[2].raft.high_watermark >= latest.offset
    assert desk[2].loaded == [latest]


def test_35_a_snapshot_inside_a_batch_or_beyond_the_high_watermark_is_refused() -> None:
    desk = Desk(1)
    desk.start(0)
    raft = desk[0].raft
    parts = [(WALL_MS, None, b"a", ()), (WALL_MS, None, b"b", ())]
    raft.propose(desk.now, raft.epoch, parts)
    desk._perform(0)
    desk.deliver()
    inside = raft.high_watermark - 1

    with pytest.raises(IllegalSnapshot, match="inside the batch"):
        raft.plan_snapshot(desk.now, inside, WALL_MS)
    desk[0].holds_sync = True
    beyond = desk.propose(0)
    with pytest.raises(IllegalSnapshot, match="not within"):
        raft.plan_snapshot(desk.now, beyond, WALL_MS)


def test_36_a_log_that_begins_after_zero_without_a_snapshot_stops_the_start() -> None:
    desk = Desk(1)
    desk[0].log.append(batch(0, 1))
    desk[0].log.append(batch(1, 1))
    desk[0].log.raise_start_offset(1)

    with pytest.raises(StorageError, match="no snapshot reaches it"):
        desk.start(0)


def test_37_a_voter_that_lags_a_pending_change_a_taken_id_and_kraft_version_0_are_refused() -> None:
    desk = Desk(3, observers=2)
    desk.start(0, 1, 2, 4)
    desk.elect(0)
    desk.run(1_000)

    lagging = change(desk, 0, add(3))
    desk.start(3)
    desk.cut(1, 0)
    desk.cut(2, 0)
    pending = change(desk, 0, remove(2))
    second = change(desk, 0, add(4))
    taken = Desk(3)
    taken.start()
    taken.elect(0)
    duplicate = change(taken, 0, add(1))
    old = Desk(3, observers=1, dynamic=False)
    old.start()
    old.elect(0)
    static = change(old, 0, add(3))

    assert lagging is not None
    assert lagging.error is ErrorCode.REQUEST_TIMED_OUT
    assert pending is None
    assert second is not None
    assert second.error is ErrorCode.REQUEST_TIMED_OUT
    assert duplicate is not None
    assert duplicate.error is ErrorCode.DUPLICATE_VOTER
    assert static is not None
    assert static.error is ErrorCode.UNSUPPORTED_VERSION


def test_an_observer_that_caught_up_becomes_a_voter_everywhere() -> None:
    desk = Desk(3, observers=1)
    desk.start()
    desk.elect(0)
    desk.run(1_000)

    token = desk.send(0, add(3))
    desk.run(200)

    assert desk.answers[token].error is ErrorCode.NONE
    assert {each.raft.voters.ids for each in desk.replicas} == {(0, 1, 2, 3)}
    assert desk[3].raft.quorum.is_voter


def test_38_a_leader_that_removes_itself_commits_with_the_others_resigns_and_is_followed() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)

    token = desk.send(0, remove(0))
    desk.run(50)
    assert desk.answers[token].error is ErrorCode.NONE
    assert isinstance(desk[0].role, Resigned | Follower | Unattached)
    desk.run(5_000)

    assert desk.leader_id in (1, 2)
    assert desk[1].raft.voters.ids == desk[2].raft.voters.ids == (1, 2)


def test_39_a_truncated_voter_set_brings_the_one_before_it_back() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk.isolate(0)
    desk.send(0, remove(2))
    assert len(desk[0].raft.voters) == 2
    desk.run(8_000)
    desk.wait_for_leader()

    desk.heal()
    desk.run(5_000)

    assert desk[0].raft.voters.ids == (0, 1, 2)
    assert desk[0].raft.quorum.truncations > 0


def test_40_a_voter_with_a_new_disk_is_an_observer_until_it_is_added() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    new = ReplicaKey(2, b"a-new-directory!")

    desk.kill(2)
    desk.replicas[2] = with_key(desk[2], new)
    desk.start(2)
    desk.run(5_000)
    assert not desk[2].raft.quorum.is_voter
    assert desk[2].log.end_offset == desk[0].log.end_offset
    change(desk, 0, remove(2))
    desk.run(100)
    voter = desk[2].identity.voter
    added = desk.send(0, AddVoter(cluster_id=CLUSTER, voter=voter, timeout_ms=2_000))
    desk.run(100)

    assert desk.answers[added].error is ErrorCode.NONE
    assert desk[2].raft.quorum.is_voter


def test_41_a_leader_that_slept_ten_seconds_commits_nothing_when_it_wakes() -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    epoch = leader.raft.epoch
    asleep, leader.node = leader.node, None
    desk.run(10_000)
    assert desk.leader_id in (1, 2)

    leader.node = asleep
    end = desk.propose(0)

    assert not isinstance(leader.role, Leader)
    assert not leader.leaderships[-1].is_me
    desk.run(5_000)
    assert leader.raft.epoch > epoch
    assert leader.log.epoch_of(end - 1) != epoch


def test_a_leader_that_slept_does_not_take_an_old_fetch_for_a_sign_of_its_voters() -> None:
    """Found by the simulator: the request had waited in the socket as long as the leader slept."""
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    late = Fetch(
        cluster_id=CLUSTER,
        replica=key_of(1),
        epoch=leader.raft.epoch,
        log_end=OffsetAndEpoch(leader.log.end_offset, leader.log.last_epoch),
    )
    asleep, leader.node = leader.node, None
    desk.run(10_000)

    desk.isolate(0)
    leader.node = asleep
    token = desk.send(0, late)

    assert isinstance(leader.role, Resigned)
    assert desk.answers[token].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_kraft_version_1_waits_until_every_voter_has_introduced_itself() -> None:
    desk = Desk(3, dynamic=False)
    desk.start()
    desk.elect(0)

    early = change(desk, 0, UpgradeVersion(version=1))
    desk.run(5_000)
    token = desk.send(0, UpgradeVersion(version=1))
    desk.run(200)

    assert early is not None
    assert early.error is ErrorCode.REQUEST_TIMED_OUT
    assert desk.answers[token].error is ErrorCode.NONE
    assert {each.raft.kraft_version for each in desk.replicas} == {1}
    assert desk[1].raft.voters.keys == (key_of(0), key_of(1), key_of(2))


def test_a_voter_that_moved_tells_its_new_address() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk.kill(2)
    moved = (desk[2].identity.listeners[0]._replace(port=19_093),)
    desk[2].identity = replace(desk[2].identity, listeners=moved)
    desk.start(2)

    desk.run(6_000)

    found = desk[0].raft.voters.get(2)
    assert found is not None
    assert found.listeners == moved


def test_adding_a_voter_to_a_sole_one_does_not_end_its_leadership() -> None:
    """Found by the simulator: the check-quorum timer of a sole voter had long run out."""
    desk = Desk(1, observers=1)
    desk.start()
    desk.run(20_000)
    epoch = desk[0].raft.epoch

    token = desk.send(0, add(1))
    desk.run(2_000)

    assert desk.answers[token].error is ErrorCode.NONE
    assert desk.leader_id == 0
    assert desk[0].raft.epoch == epoch


def test_a_lost_disk_joins_again_by_itself_where_auto_join_is_on() -> None:
    desk = Desk(3, settings=Settings(auto_join=True))
    desk.start()
    desk.elect(0)
    desk.run(600)

    desk.kill(2)
    desk.replicas[2] = with_key(desk[2], ReplicaKey(2, b"a-new-directory!"))
    desk.start(2)
    desk.run(12_000)

    assert desk[2].raft.quorum.is_voter
    assert len(desk[0].raft.voters) == 3


def test_a_leader_whose_own_removal_is_not_committed_can_be_elected_to_commit_it() -> None:
    """Found by the simulator: it has the longest log, so the other voter cannot win."""
    desk = Desk(2)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk.isolate(0)
    desk.send(0, remove(0))
    assert desk[0].raft.voters.ids == (1,)
    desk.kill(0)

    desk.heal()
    desk.start(0)
    desk.run(15_000)

    assert desk.leader_id == 1
    assert desk[1].raft.voters.ids == (1,)


def test_an_observer_of_a_silent_leader_grants_pre_votes_again() -> None:
    """Found by the simulator: it may be a voter by now, and its vote be needed."""
    desk = Desk(3, observers=1)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    epoch = leader.raft.epoch
    ask = messages.Vote(
        cluster_id=CLUSTER,
        voter=key_of(3),
        candidate=key_of(1),
        epoch=epoch,
        log_end=OffsetAndEpoch(100, epoch),
        is_pre_vote=True,
    )
    assert not desk.ask(3, ask, messages.VoteAnswer).is_granted

    desk.kill(0, 1, 2)
    desk.run(2_500)

    assert desk.ask(3, ask, messages.VoteAnswer).is_granted


def test_an_observer_gives_up_the_snapshot_of_a_silent_leader_and_looks_elsewhere() -> None:
    """Found by the simulator: it went on asking a dead leader for the next chunk."""
    desk = Desk(3, observers=1, settings=SMALL)
    leader_with_snapshot(desk)
    desk.start(2)
    desk.run(1_000)
    desk.cut(0, 3)
    desk.start(3)
    desk.run(100)
    role = desk[3].role
    assert isinstance(role, Follower)
    role.download = Download(OffsetAndEpoch(5, 1))

    desk.kill(0)
    desk.run(12_000)

    assert desk[3].raft.quorum.role.leader_id == desk.leader_id
    assert desk.leader_id is not None
    assert desk[3].log.end_offset == desk[desk.leader_id].log.end_offset


def test_without_limits_every_snapshot_stays() -> None:
    """metadata.max.retention.bytes and .ms may be -1."""
    desk = Desk(3, settings=Settings(retention_bytes=-1, retention_ms=-1))
    desk.start(0, 1)
    leader = desk.elect(0)
    for _ in range(5):
        desk.propose(0)
    made = [snapshot(desk, leader, 3), snapshot(desk, leader)]

    leader.raft._snapshotting.clean()

    assert [each for each in leader.snapshots.ids() if each in made] == made
    assert leader.log.start_offset == 0
