"""Replication, told step by step: what is committed, what is truncated, what is not believed."""

import pytest

from ledgerstone.errors import CorruptFile, InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.raft import serving
from ledgerstone.raft.events import Answered, Applied
from ledgerstone.raft.following import truncate
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.leader import Leader, Progress
from ledgerstone.raft.messages import Fetch, FetchAnswer
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import OffsetAndEpoch, ReplicaKey
from ledgerstone.raft.roles import Follower
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from tests.kit.quorum import CLUSTER, Desk, batch, key_of


def follower_of_epoch(desk: Desk, node_id: int, leader_id: int, epoch: int) -> int:
    """A lone follower whose one Fetch is on its way; returns the fetch's correlation id."""
    desk[node_id].stored = HardState(epoch, leader_id, None)
    desk.isolate(node_id)
    desk.start(node_id)
    assert isinstance(desk[node_id].role, Follower)
    # Its very first request.
    return 0


def answer(desk: Desk, node_id: int, correlation: int, found: FetchAnswer) -> None:
    role = desk[node_id].role
    assert isinstance(role, Follower)
    desk.step(node_id, Answered(role.leader.id, correlation, found))


def logs_are_equal(desk: Desk) -> bool:
    return len({tuple(each.records) for each in desk.replicas if each.node is not None}) == 1


def test_21_a_record_that_only_a_dead_leader_had_is_gone_and_was_never_called_committed() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk.isolate(0)

    end = desk.propose(0)
    desk.kill(0)
    desk.run(8_000)
    desk.wait_for_leader()
    desk.heal()
    desk.start(0)
    desk.run(3_000)

    assert desk[0].raft.high_watermark >= end
    assert desk[0].log.epoch_of(end - 1) != 1
    assert logs_are_equal(desk)


def test_22_a_record_on_a_majority_survives_its_leader_even_if_its_commit_was_not_known() -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    # Node 1 gets the record and acknowledges it; the leader dies before its next answer.
    desk.cut(0, 2)
    desk.cut(2, 0)
    end = desk.propose(0)
    epoch = leader.raft.epoch
    assert desk[1].log.end_offset == end
    desk.kill(0)
    desk.heal()

    desk.run(10_000)

    assert desk[2].log.epoch_of(end - 1) == epoch
    assert desk[1].raft.high_watermark > end
    assert desk.leader_id == 1


def test_23_an_old_record_on_a_majority_is_committed_only_with_one_of_the_leaders_own_epoch() -> (
    None
):
    """Figure 8 of the Raft paper."""
    desk = Desk(3)
    for node_id in (0, 1):
        desk[node_id].log.append(batch(0, 1))
        desk[node_id].stored = HardState(1, None, None)
    desk[1].holds_sync = True
    desk[0].holds_sync = True
    desk.start(0, 1)
    leader = desk.wait_for_leader()
    role = leader.role
    assert isinstance(role, Leader)

    # Both have the record of epoch 1, and the leader's log is synced that far.
    assert role.epoch_start_offset == 1
    assert role.high_watermark is None
    for each in (0, 1):
        desk.release_syncs(each)
    desk.run(1_000)

    assert leader.raft.high_watermark > role.epoch_start_offset


def test_24_a_follower_with_an_extra_tail_is_told_to_truncate_and_becomes_equal() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk.isolate(0)
    for _ in range(3):
        desk.propose(0, b"never replicated")
    desk.run(6_000)
    desk.wait_for_leader()

    desk.heal()
    desk.run(4_000)

    assert desk[0].raft.quorum.truncations > 0
    assert logs_are_equal(desk)


def test_25_a_follower_with_unknown_epochs_converges_in_no_more_rounds_than_epochs() -> None:
    desk = Desk(3)
    for offset, epoch in enumerate((1, 1, 4, 4, 5, 6)):
        desk[2].log.append(batch(offset, epoch, b"lost"))
    for node_id in (0, 1):
        for offset, epoch in enumerate((1, 2, 3, 3, 7, 7)):
            desk[node_id].log.append(batch(offset, epoch))
        desk[node_id].stored = HardState(7, None, None)
    desk.start(0, 1)
    desk.wait_for_leader()
    desk.start(2)

    desk.run(4_000)

    assert logs_are_equal(desk)
    assert desk[2].raft.quorum.truncations <= 6


def test_26_divergence_below_the_high_watermark_stops_the_process() -> None:
    desk = Desk(3)
    for offset in range(5):
        desk[0].log.append(batch(offset, 1))
    correlation = follower_of_epoch(desk, 0, 1, 2)
    found = FetchAnswer(epoch=2, leader_id=1, high_watermark=5)
    answer(desk, 0, correlation, found)
    assert desk[0].raft.high_watermark == 5

    diverging = FetchAnswer(epoch=2, leader_id=1, diverging=OffsetAndEpoch(3, 1))
    with pytest.raises(InvariantViolation, match="below the high watermark"):
        answer(desk, 0, correlation + 1, diverging)


def test_27_batches_of_a_newer_epoch_than_the_followers_are_not_appended() -> None:
    desk = Desk(3)
    correlation = follower_of_epoch(desk, 0, 1, 2)
    records = batch(0, 1) + batch(1, 2) + batch(2, 3)

    answer(desk, 0, correlation, FetchAnswer(epoch=2, leader_id=1, records=records))

    assert desk[0].records == [(0, 1), (1, 2)]


def test_28_a_corrupt_batch_is_not_appended_not_acknowledged_and_asked_for_again() -> None:
    desk = Desk(3)
    correlation = follower_of_epoch(desk, 0, 1, 2)
    deadline_ms = desk[0].role.fetch_deadline_ms  # type: ignore[union-attr]
    broken = bytearray(batch(0, 2))
    broken[-1] ^= 1

    desk.now_ms += 10
    answer(desk, 0, correlation, FetchAnswer(epoch=2, leader_id=1, records=bytes(broken)))
    desk.run(50)

    assert desk[0].records == []
    assert desk[0].role.fetch_deadline_ms == deadline_ms  # type: ignore[union-attr]
    fetches = [each for _, _, each in desk.sent if isinstance(each, Fetch)]
    assert [each.log_end.offset for each in fetches] == [0, 0]


def test_29_a_voter_whose_sync_does_not_end_fetches_nothing_more() -> None:
    """A failed fsync is fatal to the process; until then nothing may be acknowledged."""
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk[1].holds_sync = True
    count = sum(by == 1 for by, _, each in desk.sent if isinstance(each, Fetch))

    desk.propose(0)
    desk.run(1_500)

    assert desk[1].log.end_offset == desk[0].log.end_offset
    assert sum(by == 1 for by, _, each in desk.sent if isinstance(each, Fetch)) == count


def test_30_a_crash_between_append_and_sync_comes_back_shorter_and_fetches_again() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    desk.run(600)
    desk[1].holds_sync = True
    before = desk[1].log.end_offset
    end = desk.propose(0)
    committed = desk[0].raft.high_watermark

    desk.lose_power(1)
    assert desk[1].log.end_offset == before
    desk[1].holds_sync = False
    desk.start(1)
    desk.run(2_000)

    assert committed == end
    assert desk[1].log.end_offset == end
    assert desk[0].raft.high_watermark >= committed


def test_31_a_torn_temporary_file_leaves_the_old_state_in_force() -> None:
    for operation in range(1, 7):
        fs = SimFilesystem(dice=SeededDice(str(operation)))
        fs.make_dir("/meta")
        fs.fsync_dir("/")
        file = QuorumStateFile(fs, "/meta")
        old, new = HardState(3, None, key_of(1)), HardState(4, 2, None)
        file.store(old, kraft_version=1, voter_ids=(0, 1, 2))
        fs.crash_at(fs.operation_count + operation, torn=True)

        with pytest.raises(SimulatedCrash):
            file.store(new, kraft_version=1, voter_ids=(0, 1, 2))
        fs.power_loss("random")

        assert QuorumStateFile(fs, "/meta").load() in (old, new)


def test_an_unreadable_file_stops_the_start() -> None:
    fs = SimFilesystem(dice=SeededDice("x"))
    fs.make_dir("/meta")
    handle = fs.open("/meta/quorum-state", create=True)
    handle.pwrite(b'{"leaderId":1,"leaderEpoch":2', 0)

    with pytest.raises(CorruptFile, match="may vote twice"):
        QuorumStateFile(fs, "/meta").load()


def test_a_leader_counts_its_own_log_only_as_far_as_it_is_synced() -> None:
    desk = Desk(1)
    desk.start(0)
    desk[0].holds_sync = True
    before = desk[0].raft.high_watermark

    end = desk.propose(0)
    assert desk[0].raft.high_watermark == before
    desk.release_syncs(0)

    assert desk[0].raft.high_watermark == end


def test_a_state_machine_is_told_that_it_leads_after_it_consumed_the_epochs_before() -> None:
    desk = Desk(3)
    desk.start()
    desk.elect(0)
    for _ in range(5):
        desk.propose(0)
    desk.run(600)
    desk.kill(0)
    for node_id in (1, 2):
        desk[node_id].consumes = False
        desk.kill(node_id)
        desk.start(node_id)
    leader = desk.wait_for_leader()
    desk.run(200)

    assert not any(each.is_me for each in leader.leaderships)
    desk.step(leader.identity.key.id, Applied(leader.raft.high_watermark))
    assert leader.leaderships[-1].is_me


def test_a_fetch_with_an_old_high_watermark_is_answered_at_once() -> None:
    """KIP-1166: followers learn what is committed without waiting for the next record."""
    desk = Desk(3)
    desk.start()
    desk.elect(0)

    end = desk.propose(0)

    assert desk[1].raft.high_watermark == desk[2].raft.high_watermark == end


def test_a_diverging_fetch_counts_as_no_progress() -> None:
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    desk.isolate(0)
    desk.propose(0)
    role = leader.role
    assert isinstance(role, Leader)
    before = role.high_watermark

    for node_id in (1, 2):
        fetch = Fetch(
            cluster_id=CLUSTER,
            replica=key_of(node_id),
            epoch=role.epoch,
            log_end=OffsetAndEpoch(desk[0].log.end_offset, 0),
        )
        assert desk.ask(0, fetch, FetchAnswer).diverging is not None

    assert role.high_watermark == before


def test_a_sync_asked_for_before_a_truncation_vouches_for_nothing_written_after_it() -> None:
    desk = Desk(3)
    for offset in range(3):
        desk[0].log.append(batch(offset, 1))
    desk[0].holds_sync = True
    follower_of_epoch(desk, 0, 1, 2)
    quorum = desk[0].raft.quorum
    assert not quorum.is_synced

    truncate(quorum, 1)
    for offset in (1, 2):
        quorum.log.append(batch(offset, 2))
    old, _ = desk[0].syncs.pop(0)
    quorum.synced(old)

    assert quorum.synced_end <= 1
    assert not quorum.is_synced


def test_a_start_fetches_only_after_it_synced_what_it_found() -> None:
    desk = Desk(3)
    desk[0].log.append(batch(0, 1))
    desk[0].holds_sync = True
    follower_of_epoch(desk, 0, 1, 2)

    assert not any(isinstance(each, Fetch) for _, _, each in desk.sent)
    desk.release_syncs(0)

    assert any(isinstance(each, Fetch) for _, _, each in desk.sent)


def test_strangers_cannot_make_a_leader_remember_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MAX_REPLICAS", 5)
    desk = Desk(3)
    desk.start()
    leader = desk.elect(0)
    desk.run(600)
    end = OffsetAndEpoch(leader.log.end_offset, leader.log.last_epoch)
    for stranger in range(100, 120):
        fetch = Fetch(
            cluster_id=CLUSTER, replica=ReplicaKey(stranger), epoch=leader.raft.epoch, log_end=end
        )
        assert desk.ask(0, fetch, FetchAnswer).error is ErrorCode.NONE
    role = leader.role
    assert isinstance(role, Leader)
    assert len(role.progress) == 5
    # Voters count, whoever came before them.
    role.progress.pop(key_of(1))
    role.progress[ReplicaKey(999)] = Progress()
    desk.run(600)
    assert key_of(1) in role.progress
