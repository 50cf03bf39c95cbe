"""Elections, told step by step: sole voters, restarts, votes, pre-votes, resigning."""

import pytest

from ledgerstone.errors import NotLeaderOrFollower
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft.events import Resign
from ledgerstone.raft.hard_state import HardState, decode_hard_state, encode_hard_state
from ledgerstone.raft.leader import Leader
from ledgerstone.raft.messages import (
    BeginEpoch,
    EndEpoch,
    EndEpochAnswer,
    Fetch,
    Vote,
    VoteAnswer,
)
from ledgerstone.raft.replica import OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from ledgerstone.types import INT32_MAX
from tests.kit.quorum import CLUSTER, Desk, batch, key_of, listeners_of


def vote(
    desk: Desk,
    *,
    by: int,
    to: int,
    epoch: int,
    end: tuple[int, int] = (100, 0),
    is_pre_vote: bool = False,
    **other: object,
) -> VoteAnswer:
    fields = {
        "cluster_id": CLUSTER,
        "voter": key_of(to),
        "candidate": key_of(by),
        "epoch": epoch,
        "log_end": OffsetAndEpoch(*end),
        "is_pre_vote": is_pre_vote,
    }
    return desk.ask(to, Vote(**{**fields, **other}), VoteAnswer)  # type: ignore[arg-type]


def test_01_a_sole_voter_with_an_empty_disk_leads_epoch_1_and_commits_its_leader_change() -> None:
    desk = Desk(1)

    desk.start(0)

    assert isinstance(desk[0].role, Leader)
    assert desk[0].raft.epoch == 1
    assert desk[0].raft.high_watermark == desk[0].log.end_offset > 0
    assert desk[0].stored == HardState(1, 0, key_of(0))


def test_02_one_of_three_voters_elects_no_leader_and_two_elect_one_with_the_same_epoch() -> None:
    desk = Desk(3)

    desk.start(0)
    desk.run(15_000)
    assert desk.leader_id is None
    assert desk[0].stored.epoch == 0
    desk.start(1)
    leader = desk.wait_for_leader()
    desk.run(1_000)

    assert desk[0].stored.epoch == desk[1].stored.epoch == leader.raft.epoch
    assert desk[0].stored.leader_id == desk[1].stored.leader_id == leader.identity.key.id


def test_03_a_replica_whose_file_says_leader_starts_resigned_and_never_leads_that_epoch_again() -> (
    None
):
    desk = Desk(3)
    desk[0].stored = HardState(4, 0, key_of(0))

    desk.start(0)

    assert isinstance(desk[0].role, Resigned)
    assert not vote(desk, by=1, to=0, epoch=4).is_granted
    desk.run(2_500)
    assert desk[0].raft.epoch == 5
    assert desk[0].stored == HardState(5, None, None)


def test_04_a_replica_whose_file_says_it_voted_for_itself_starts_candidate_in_that_epoch() -> None:
    desk = Desk(3)
    desk[0].stored = HardState(4, None, key_of(0))

    desk.start(0)

    assert isinstance(desk[0].role, Candidate)
    assert desk[0].raft.epoch == 4
    asked = [(to, each.epoch) for by, to, each in desk.sent if isinstance(each, Vote)]
    assert asked == [(1, 4), (2, 4)]


def test_05_a_file_older_than_the_log_makes_unattached_at_the_epoch_of_the_log() -> None:
    desk = Desk(3)
    desk[0].stored = HardState(2, 1, None)
    desk[0].log.append(batch(0, 7))

    desk.start(0)

    assert isinstance(desk[0].role, Unattached)
    assert desk[0].raft.epoch == 7
    assert desk[0].stored == HardState(7, None, None)


def test_06_a_vote_survives_a_restart_others_are_refused_and_the_same_is_granted_again() -> None:
    desk = Desk(3)
    desk.start(0)
    assert vote(desk, by=1, to=0, epoch=3).is_granted

    desk.kill(0)
    desk.start(0)

    assert not vote(desk, by=2, to=0, epoch=3).is_granted
    assert vote(desk, by=1, to=0, epoch=3).is_granted
    assert desk[0].stored == HardState(3, None, key_of(1))


def test_07_a_longer_log_of_a_lower_epoch_is_refused_and_a_shorter_one_of_a_higher_granted() -> (
    None
):
    desk = Desk(3)
    desk[0].log.append(batch(0, 5))
    desk[0].log.append(batch(1, 5))
    desk.start(0)

    assert not vote(desk, by=1, to=0, epoch=9, end=(50, 4)).is_granted
    assert vote(desk, by=2, to=0, epoch=9, end=(1, 6)).is_granted


def test_08_a_request_of_a_lower_epoch_is_fenced_and_told_the_leader() -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(1)

    answer = vote(desk, by=2, to=0, epoch=leader.raft.epoch - 1, end=(100, 0), is_pre_vote=True)

    assert answer.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.leader_id, answer.epoch) == (1, leader.raft.epoch)
    assert answer.leader is not None
    assert answer.leader.host == "host1"


def test_09_another_cluster_id_is_refused_and_changes_nothing() -> None:
    desk = Desk(3)
    desk.start(0)
    before = desk[0].stored

    answer = vote(desk, by=1, to=0, epoch=9, cluster_id="other")

    assert answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert desk[0].stored == before
    assert desk[0].raft.epoch == 0


def test_10_a_vote_for_another_directory_is_refused_but_its_epoch_is_adopted() -> None:
    desk = Desk(3)
    desk.start(0)

    answer = vote(desk, by=1, to=0, epoch=9, voter=ReplicaKey(0, b"another-directry"))

    assert answer.error is ErrorCode.INVALID_VOTER_KEY
    assert not answer.is_granted
    assert desk[0].raft.epoch == 9
    assert desk[0].stored == HardState(9, None, None)


def test_11_a_follower_grants_pre_votes_only_until_its_first_fetch_and_never_writes_them() -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(1)
    epoch = leader.raft.epoch
    fetched = desk[0].stored

    refused = vote(desk, by=2, to=0, epoch=epoch, end=(100, epoch), is_pre_vote=True)
    desk.kill(0, 1)
    desk.start(0)
    granted = vote(desk, by=2, to=0, epoch=epoch, end=(100, epoch), is_pre_vote=True)

    assert not refused.is_granted
    assert granted.is_granted
    assert desk[0].stored == fetched


def test_12_a_follower_that_hears_nothing_asks_for_ever_and_the_leader_and_its_epoch_stay() -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    epoch = leader.raft.epoch

    desk.cut(0, 2)
    desk.run(30_000)

    assert desk.leader_id == 0
    assert desk[0].raft.epoch == desk[1].raft.epoch == desk[2].raft.epoch == epoch
    assert any(isinstance(each, Vote) for by, _, each in desk.sent if by == 2)


def test_13_a_graph_where_no_voter_sees_all_others_has_one_stable_leader() -> None:
    """KIP-996: the links are 0-2, 2-3, 3-1, and 4 with 2 and 3."""
    desk = Desk(5)
    links = {(0, 2), (2, 3), (3, 1), (4, 2), (4, 3)}
    for a in range(5):
        for b in range(5):
            if a != b and (a, b) not in links and (b, a) not in links:
                desk.cut(a, b)

    desk.start()
    desk.run(60_000)
    epoch = max(each.raft.epoch for each in desk.replicas)
    leader = desk.leader_id
    desk.run(60_000)

    assert leader is not None
    assert desk.leader_id == leader
    assert max(each.raft.epoch for each in desk.replicas) == epoch


def test_14_a_peer_without_pre_vote_makes_a_prospective_candidate_at_once() -> None:
    desk = Desk(3)
    desk.old = {1, 2}

    desk.start()
    desk.wait_for_leader()

    votes = [each for _, _, each in desk.sent if isinstance(each, Vote)]
    assert any(each.is_pre_vote for each in votes)
    assert any(not each.is_pre_vote for each in votes)


def test_15_a_split_vote_waits_goes_back_to_prospective_and_converges() -> None:
    desk = Desk(2, seed="split")
    for node_id in (0, 1):
        desk[node_id].stored = HardState(3, None, key_of(node_id))

    desk.start()
    assert isinstance(desk[0].role, Candidate)
    assert isinstance(desk[1].role, Candidate)
    desk.run(900)
    assert isinstance(desk[0].role, Candidate)
    leader = desk.wait_for_leader()

    assert leader.raft.epoch > 3


def test_16_a_candidate_follows_the_leader_of_its_epoch() -> None:
    desk = Desk(3)
    desk[0].stored = HardState(4, None, key_of(0))
    desk.start(0)

    desk.send(
        0,
        BeginEpoch(
            cluster_id=CLUSTER,
            voter=key_of(0),
            leader_id=2,
            epoch=4,
            leader_listeners=listeners_of(2),
        ),
    )

    assert isinstance(desk[0].role, Follower)
    assert desk[0].stored == HardState(4, 2, key_of(0))


def test_17_a_leader_that_sees_a_higher_epoch_steps_down_and_turns_everybody_away() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.isolate(0)
    epoch = desk[0].raft.epoch
    desk.propose(0)
    committed = desk[0].raft.high_watermark
    fetch = Fetch(
        cluster_id=CLUSTER,
        replica=ReplicaKey(9, b"9" * 16),
        epoch=epoch,
        log_end=OffsetAndEpoch(desk[0].log.end_offset, epoch),
        max_wait_ms=500,
    )
    parked = desk.send(0, fetch)
    assert parked not in desk.answers

    vote(desk, by=1, to=0, epoch=epoch + 3, end=(100, epoch + 2))

    assert desk.answers[parked].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not desk[0].leaderships[-1].is_me
    assert desk[0].raft.high_watermark == committed
    assert desk[0].raft.epoch == epoch + 3
    with pytest.raises(NotLeaderOrFollower):
        desk[0].raft.propose(desk.now, epoch, [(0, None, b"late", ())])


def test_18_a_leader_without_a_majority_for_three_seconds_resigns_and_says_so_until_heard() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(500)
    desk.cut(1, 0)
    desk.cut(2, 0)

    desk.run(3_600)

    assert isinstance(desk[0].role, Resigned)
    ends = [to for by, to, each in desk.sent if by == 0 and isinstance(each, EndEpoch)]
    assert set(ends) == {1, 2}


def test_19_the_first_successor_asks_for_votes_at_once_and_the_second_after_its_stagger() -> None:
    desk = Desk(4)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    desk.isolate(1)
    desk.isolate(2)
    epoch = leader.raft.epoch
    end = EndEpoch(
        cluster_id=CLUSTER,
        leader_id=0,
        epoch=epoch,
        successors=(key_of(1), key_of(2), key_of(3)),
        leader_listeners=listeners_of(0),
    )

    desk.ask(1, end, EndEpochAnswer)
    desk.ask(2, end, EndEpochAnswer)

    assert isinstance(desk[1].role, Prospective)
    assert isinstance(desk[2].role, Follower)
    assert desk[2].role.fetch_deadline_ms == desk.now_ms + 250


def test_20_an_observer_left_alone_never_runs() -> None:
    desk = Desk(3, observers=1)
    desk.start()
    desk.wait_for_leader()
    desk.run(1_000)

    desk.kill(0, 1, 2)
    desk.run(30_000)

    assert isinstance(desk[3].role, Follower | Unattached)
    assert not any(by == 3 for by, _, each in desk.sent if isinstance(each, Vote))


@pytest.mark.parametrize("how", ["stop", "resign"])
def test_a_graceful_leader_is_followed_within_a_second(how: str) -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    epoch = leader.raft.epoch

    if how == "stop":
        desk.stop(0)
    else:
        desk.step(0, Resign(epoch))
    desk.run(600)

    successors = [n for n in (1, 2) if isinstance(desk[n].role, Leader)]
    assert len(successors) == 1
    if how == "stop":
        assert desk[0].raft.is_stopped


def test_a_replica_that_knows_its_leaders_id_but_not_its_address_finds_it() -> None:
    """Found by the simulator: the answer named a leader that it knew already, so it did nothing."""
    desk = Desk(1, observers=1)
    desk.start(0)
    desk[1].stored = HardState(1, 0, None)

    desk.start(1)
    assert isinstance(desk[1].role, Unattached | Follower)
    desk.run(2_000)

    assert isinstance(desk[1].role, Follower)
    assert desk[1].log.end_offset == desk[0].log.end_offset


def test_a_vote_is_not_granted_again_for_a_log_that_power_loss_has_cut() -> None:
    """Otherwise a record is lost that a majority had synced: the leader before and this voter."""
    desk = Desk(3)
    for node_id in (1, 2):
        desk[node_id].log.append(batch(0, 1))
        desk[node_id].stored = HardState(2, None, key_of(2))
    desk[1].log.append(batch(1, 1, b"committed"))

    # When the vote was granted, the candidate had the record in its page cache.
    desk.start(1, 2)
    desk.run(10_000)

    assert desk.leader_id == 1
    assert desk[2].records[:2] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("voters", [1, 3])
@pytest.mark.parametrize("told", [INT32_MAX - 1, INT32_MAX])
def test_no_replica_goes_beyond_the_last_epoch_that_it_could_store(voters: int, told: int) -> None:
    desk = Desk(voters)
    desk.start(*range(voters))
    desk.wait_for_leader()

    for node_id in range(voters):
        vote(desk, by=7, to=node_id, epoch=told)
        desk.run(10_000)
    for node_id in range(voters):
        desk.resign(node_id)
    desk.run(30_000)
    desk.kill(*range(voters))
    desk.start(*range(voters))
    desk.run(30_000)

    for node_id in range(voters):
        state = desk[node_id].stored
        line = encode_hard_state(state, kraft_version=1, voter_ids=())
        assert decode_hard_state(line) == state
        assert state.epoch == desk[node_id].raft.epoch == INT32_MAX
