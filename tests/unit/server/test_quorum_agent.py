"""The metadata quorum at work: real messages, simulated disks, a virtual clock."""

import errno
import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from ledgerstone.errors import InvalidRequest, LogStorageError, NotController, StorageError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_raft_voter import (
    AddRaftVoterListener,
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from ledgerstone.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartition,
    FetchSnapshotRequestTopic,
    FetchSnapshotResponse,
    FetchSnapshotSnapshotId,
)
from ledgerstone.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ledgerstone.raft.roles import Follower
from ledgerstone.raft.voters import VoterSet
from ledgerstone.server.effects import Effect, WriteSnapshot
from ledgerstone.server.results import Failed
from tests.kit.quorum_agents import (
    CLUSTER_ID,
    Net,
    Node,
    dynamic_settings,
    format_with,
    static_settings,
    voter_of,
)

SINGLE = {"node.id": "1", "log.dirs": "/data"}


def single(**settings: str) -> tuple[Net, Node]:
    net = Net()
    node = net.add(1, {**SINGLE, **{key.replace("_", "."): text for key, text in settings.items()}})
    node.start()
    return net, node


def three(**settings: str) -> Net:
    net = Net()
    for node_id in (1, 2, 3):
        net.add(node_id, static_settings(node_id, (1, 2, 3), **settings)).start()
    return net


def elected(net: Net) -> Node:
    net.run_until(lambda: net.leader is not None)
    leader = net.leader
    assert leader is not None
    return leader


# -- alone ----------------------------------------------------------------------------------------


def test_sole_voter_leads_and_commits_before_start_returns() -> None:
    _, node = single()
    assert [each.is_me for each in node.machine.leaderships] == [True]
    end = node.write("a", "b")
    assert node.machine.names == ["a", "b"]
    assert node.raft.high_watermark == end == node.raft.end_offset
    assert node.raft.log.log.recovery_point == end


def test_sole_voter_that_starts_again_has_everything_and_a_new_epoch() -> None:
    _, node = single()
    node.write("a")
    epoch = node.raft.epoch
    node.kill()
    node.start()
    assert node.machine.names == ["a"]
    assert node.machine.led_epoch == node.raft.epoch == epoch + 1
    assert node.raft.leader_id == 1


def test_idle_sole_voter_wakes_for_cleaning_only() -> None:
    net, node = single()
    node.write("a")
    due_ms = node.next_deadline_ms
    assert due_ms is not None
    assert due_ms - net.clock.monotonic_ms() >= 60_000


def test_proposal_of_another_epoch_is_refused() -> None:
    _, node = single()
    with pytest.raises(NotController):
        node.raft.propose(node.raft.epoch + 1, [(0, None, b"", ())])


def test_failed_sync_of_a_sole_voter_is_its_askers_error_and_nothing_is_built_on_it() -> None:
    _, node = single()
    node.write("a")
    node.fs.fail_matching("fsync", "*.log", errno.EIO)
    with pytest.raises(LogStorageError):
        node.write("b")
    assert node.machine.names == ["a"]
    node.raft.resign(node.raft.epoch)
    # Nobody else can lead. Every change is refused by the disk, until the next start.
    assert node.machine.leaderships[-1].is_me
    for _ in range(2):
        with pytest.raises(LogStorageError):
            node.write("c")
    assert node.machine.names == ["a"]
    assert node.halts == []
    node.kill()
    node.start()
    assert node.machine.names[0] == "a"


def test_full_disk_refuses_a_proposal_and_the_next_one_goes_through() -> None:
    _, node = single()
    node.fs.fail_matching("pwrite", "*.log", errno.ENOSPC)
    with pytest.raises(LogStorageError):
        node.write("a")
    node.write("b")
    assert node.machine.names == ["b"]


def test_sole_voter_that_resigns_leads_the_next_epoch_at_once() -> None:
    _, node = single()
    epoch = node.raft.epoch
    node.raft.resign(epoch)
    assert [(each.epoch, each.is_me) for each in node.machine.leaderships] == [
        (epoch, True),
        (epoch + 1, True),
    ]
    assert node.machine.led_epoch == epoch + 1


def test_state_machine_may_propose_while_it_consumes() -> None:
    _, node = single()
    left = ["b", "c"]

    def again(_: object) -> None:
        if left:
            node.write(left.pop(0))

    node.machine.on_committed = again
    node.write("a")
    assert node.machine.names == ["a", "b", "c"]


def test_snapshot_is_written_after_so_many_bytes_and_a_start_begins_with_it() -> None:
    net, node = single(metadata_log_max_record_bytes_between_snapshots="1000")
    for n in range(40):
        node.write(f"topic-{n:03d}")
        net.settle()
    assert len(node.raft.snapshots.ids()) >= 2
    newest = node.raft.snapshots.ids()[-1]
    node.kill()
    node.start()
    assert node.machine.loads == [newest]
    assert node.machine.names == [f"topic-{n:03d}" for n in range(40)]


def test_snapshot_is_written_after_an_hour_if_there_is_anything_new() -> None:
    net = Net()
    node = net.add(1, static_settings(1, [1]))
    node.start()
    node.write("a")
    net.run(3_600_000 + 60_000)
    assert [each.offset for each in node.raft.snapshots.ids()] == [node.raft.end_offset]
    net.run(3 * 3_600_000)
    assert len(node.raft.snapshots.ids()) == 1


class Held:
    """Keeps effects instead of performing them."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def act(self, effects: Iterable[Effect]) -> None:
        self.effects += effects


def snapshot_due() -> tuple[Net, Node, WriteSnapshot]:
    """An hour after the first record; nothing is written yet."""
    net = Net()
    node = net.add(1, static_settings(1, [1]))
    node.start()
    node.write("a")
    net.settle()
    net.clock.advance(ms=3_600_000)
    held = node.raft.turn = Held()
    node.raft.tick()
    node.raft.turn = node
    (effect,) = held.effects
    assert isinstance(effect, WriteSnapshot)
    return net, node, effect


def test_snapshot_is_written_of_what_came_while_the_one_before_was_written() -> None:
    net, node, effect = snapshot_due()
    node.write("b")
    net.settle()

    node.act([effect])
    net.run(3_600_000 + 60_000)

    assert [each.offset for each in node.raft.snapshots.ids()][-1] == node.raft.end_offset


def test_snapshot_that_was_not_written_is_tried_again_after_a_minute() -> None:
    net, node, effect = snapshot_due()

    node.act(node.raft.completed(effect, Failed(OSError("no room"))))
    net.run(59_000)
    assert node.raft.snapshots.ids() == ()
    net.run(2_000)

    assert [each.offset for each in node.raft.snapshots.ids()] == [node.raft.end_offset]


def test_no_snapshot_inside_a_metadata_transaction() -> None:
    net, node = single(metadata_log_max_record_bytes_between_snapshots="10")
    net.settle()
    before = node.raft.snapshots.ids()
    node.machine.in_transaction = True
    node.write("a")
    net.settle()
    assert node.raft.snapshots.ids() == before
    node.machine.in_transaction = False
    end = node.write("b")
    net.settle()
    assert node.raft.snapshots.ids()[-1].offset == end


def test_damaged_log_stops_the_start_and_says_where() -> None:
    _, node = single()
    node.write("a")
    node.write("b")
    node.kill()
    log = node.fs.open("/data/__cluster_metadata-0/00000000000000000000.log")
    log.pwrite(b"X", log.pread(log.size(), 0).index(b"a..............."))
    with pytest.raises(StorageError, match=r"the metadata log is damaged: .*00000\.log"):
        node.start()


def test_unreadable_vote_stops_the_start() -> None:
    _, node = single()
    node.kill()
    file = node.fs.open("/data/__cluster_metadata-0/quorum-state")
    file.truncate(3)
    with pytest.raises(StorageError, match="may vote twice"):
        node.start()


# -- three ----------------------------------------------------------------------------------------


def test_three_voters_elect_one_and_replicate() -> None:
    net = three()
    leader = elected(net)
    end = leader.write("a", "b")
    assert leader.machine.names == []
    net.run_until(lambda: all(each.raft.high_watermark >= end for each in net.nodes.values()))
    for node in net.nodes.values():
        assert node.machine.names == ["a", "b"]
        assert node.raft.leader_id == leader.id
    logs = [node.raft.log.read(0, 1 << 20) for node in net.nodes.values()]
    assert logs[0] == logs[1] == logs[2]


def committed(net: Net, leader: Node, name: str) -> None:
    end = leader.write(name)
    net.run_until(lambda: leader.raft.high_watermark >= end)


def come_back(net: Net, node: Node) -> None:
    node.start()
    net.run_until(lambda: isinstance(node.raft.node.role, Follower))


def test_leader_that_dies_is_replaced_and_what_was_committed_stays() -> None:
    net = three()
    for count in range(4):
        leader = elected(net)
        committed(net, leader, f"round-{count}")
        leader.kill()
        successor = elected(net)
        assert successor.machine.names == [f"round-{n}" for n in range(count + 1)]
        come_back(net, leader)


def test_leader_cut_off_loses_what_it_could_not_replicate() -> None:
    net = three()
    first = elected(net)
    first.is_cut = True
    lost = first.write("lost")
    second = elected(net)
    assert second is not first
    end = second.write("kept")
    net.run_until(lambda: second.raft.high_watermark >= end)
    net.run_until(lambda: first.machine.led_epoch is None)
    first.is_cut = False
    net.run_until(lambda: first.machine.names == ["kept"])
    assert first.raft.end_offset >= lost


def test_own_log_counts_after_its_sync_only() -> None:
    net = three()
    leader = elected(net)
    net.run(1_000)
    leader.held_syncs = []
    before = leader.raft.high_watermark
    others = [each for each in net.nodes.values() if each is not leader]
    others[0].is_cut = True
    end = leader.write("a")
    net.run(900)
    # One follower has it, the leader's own disk does not: that is no majority.
    assert others[1].raft.end_offset == end
    assert leader.raft.high_watermark == before
    held, leader.held_syncs = leader.held_syncs, None
    for each in held:
        leader.finish_sync(each)
    net.run_until(lambda: leader.raft.high_watermark == end)


def test_failed_sync_of_a_voter_of_several_ends_the_process() -> None:
    net = three()
    leader = elected(net)
    leader.fails_sync = True
    leader.write("a")
    net.run_until(lambda: bool(leader.halts))
    assert leader.agent is None
    assert "fsync failed" in leader.halts[0]
    assert elected(net) is not leader


def test_follower_with_a_full_disk_waits_and_goes_on() -> None:
    net = three()
    leader = elected(net)
    follower = next(each for each in net.nodes.values() if each is not leader)
    follower.fs.fail_matching("pwrite", "*.log", errno.ENOSPC, times=3)
    end = leader.write("a")
    net.run_until(lambda: follower.raft.high_watermark >= end)
    assert follower.machine.names == ["a"]
    assert follower.halts == []


def test_leader_with_a_full_disk_makes_room_for_another() -> None:
    net = three()
    leader = elected(net)
    leader.fs.fail_matching("pwrite", "*.log", errno.ENOSPC, times=100)

    with pytest.raises(NotController):
        leader.write("a")

    net.run_until(lambda: elected(net) is not leader)
    committed(net, elected(net), "b")
    assert elected(net).machine.names == ["b"]
    assert leader.halts == []


def test_wiped_observer_fetches_a_snapshot() -> None:
    net = three(metadata_log_max_record_bytes_between_snapshots="2000")
    leader = elected(net)
    for n in range(60):
        leader.write(f"topic-{n:03d}")
        net.run(50)
    assert leader.raft.snapshots.ids()
    observer = net.add(9, static_settings(9, (1, 2, 3)))
    observer.start()
    net.run_until(lambda: len(observer.machine.names) == 60)
    assert observer.machine.loads
    assert observer.machine.names == leader.machine.names
    assert observer.raft.log.start_offset == observer.machine.loads[-1].offset
    # And it finds all of it again.
    observer.kill()
    observer.start()
    net.run_until(lambda: len(observer.machine.names) == 60)
    assert observer.machine.loads == [observer.raft.snapshots.ids()[-1]]


def test_fetched_snapshot_that_is_damaged_leaves_the_log_as_it_is() -> None:
    net = three(metadata_log_max_record_bytes_between_snapshots="1500")
    leader = elected(net)
    while not leader.raft.snapshots.ids():
        leader.write(f"topic-{len(leader.machine.names):03d}")
        net.run(20)
    damaged = leader.raft.snapshots.ids()[-1]
    path = leader.raft.snapshots.path_of(damaged)
    file = leader.fs.open(path)
    middle = file.size() // 2
    file.pwrite(bytes([file.pread(1, middle)[0] ^ 0xFF]), middle)
    observer = net.add(9, static_settings(9, (1, 2, 3)))
    observer.start()
    net.run(10_000)
    assert observer.halts == []
    assert observer.raft.snapshots.ids() == ()
    assert observer.raft.leader_id == leader.id
    while leader.raft.snapshots.ids()[-1] == damaged:
        leader.write(f"topic-{len(leader.machine.names):03d}")
        net.run(20)
    net.run_until(lambda: observer.machine.names == leader.machine.names)


def test_snapshot_that_is_shorter_than_the_leader_says_is_not_asked_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = three(metadata_log_max_record_bytes_between_snapshots="1500")
    leader = elected(net)
    while not leader.raft.snapshots.ids():
        leader.write(f"topic-{len(leader.machine.names):03d}")
        net.run(20)
    path = leader.raft.snapshots.path_of(leader.raft.snapshots.ids()[-1])
    leader.fs.open(path).truncate(100)
    observer = net.add(9, static_settings(9, (1, 2, 3)))
    asked = itertools.count()
    read = leader.raft.snapshots.read

    def counted(*at: Any) -> bytes:
        assert next(asked) < 50
        return read(*at)

    monkeypatch.setattr(leader.raft.snapshots, "read", counted)
    observer.start()
    net.run(10_000)
    assert 4 < next(asked) < 50
    assert observer.halts == leader.halts == []


def test_request_for_a_negative_part_of_a_snapshot_ends_no_process() -> None:
    net = three(metadata_log_max_record_bytes_between_snapshots="1000")
    leader = elected(net)
    for n in range(30):
        leader.write(f"topic-{n:03d}")
        net.run(50)
    newest = leader.raft.snapshots.ids()[-1]
    answers: list[FetchSnapshotResponse] = []
    request = FetchSnapshotRequest(
        replica_id=9,
        max_bytes=-1,
        topics=[
            FetchSnapshotRequestTopic(
                name="__cluster_metadata",
                partitions=[
                    FetchSnapshotRequestPartition(
                        current_leader_epoch=leader.raft.epoch,
                        snapshot_id=FetchSnapshotSnapshotId(newest.offset, newest.epoch),
                        position=0,
                    )
                ],
            )
        ],
    )
    leader.raft.ask(request, answers.append)  # type: ignore[arg-type]
    assert answers[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert leader.halts == []
    assert net.leader is leader


def test_graceful_stop_hands_the_leadership_over_at_once() -> None:
    net = three()
    leader = elected(net)
    net.run(1_000)
    began_ms = net.clock.monotonic_ms()
    leader.raft.stop()
    net.run_until(lambda: net.leader not in (None, leader))
    assert net.clock.monotonic_ms() - began_ms < 500
    net.run_until(lambda: leader.raft.node.is_stopped)


def test_quorum_describes_itself() -> None:
    net = three()
    leader = elected(net)
    net.run(1_000)
    answers: list[DescribeQuorumResponse] = []
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopic(
                topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartition(0)]
            )
        ]
    )
    leader.raft.ask(request, answers.append)  # type: ignore[arg-type]
    (partition,) = answers[0].topics[0].partitions
    assert partition.leader_id == leader.id
    assert [each.replica_id for each in partition.current_voters] == [1, 2, 3]
    request.topics[0].topic_name = "other"
    with pytest.raises(InvalidRequest):
        leader.raft.ask(request, answers.append)  # type: ignore[arg-type]


# -- voters that change ---------------------------------------------------------------------------


def dynamic(*ids: int) -> Net:
    """Formatted with these voters."""
    net = Net()
    nodes = [net.add(node_id, dynamic_settings(node_id, ids)) for node_id in ids]
    format_with(nodes, VoterSet(voter_of(node) for node in nodes))
    for node in nodes:
        node.start()
    return net


def test_damaged_voters_of_a_format_stop_the_start() -> None:
    net = Net()
    node = net.add(1, dynamic_settings(1, (1, 2, 3)))
    others = [net.add(each, dynamic_settings(each, (1, 2, 3))) for each in (2, 3)]
    format_with([node], VoterSet(voter_of(each) for each in [node, *others]))
    file = node.fs.open("/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    content = file.pread(file.size(), 0)
    file.pwrite(b"host7", content.index(b"host2"))

    with pytest.raises(StorageError, match="crc"):
        node.start()


def add_voter(net: Net, leader: Node, newcomer: Node) -> int:
    answers: list[AddRaftVoterResponse] = []
    voter = newcomer.raft.node.quorum.identity.voter
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=5_000,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[AddRaftVoterListener(at.name, at.host, at.port) for at in voter.listeners],
    )
    leader.raft.ask(request, answers.append)  # type: ignore[arg-type]
    net.run_until(lambda: bool(answers))
    return answers[0].error_code


def test_controller_that_has_caught_up_becomes_a_voter_and_counts() -> None:
    net = dynamic(1, 2, 3)
    leader = elected(net)
    committed(net, leader, "a")
    newcomer = net.add(4, dynamic_settings(4, (1, 2, 3)))
    newcomer.start()
    net.run_until(lambda: newcomer.machine.names == ["a"])

    assert add_voter(net, leader, newcomer) == ErrorCode.NONE
    assert leader.raft.node.voters.ids == (1, 2, 3, 4)
    # A quorum of four lives with three.
    leader.kill()
    successor = elected(net)
    committed(net, successor, "b")
    assert add_voter(net, successor, newcomer) == ErrorCode.DUPLICATE_VOTER


def test_controller_that_lags_does_not_become_a_voter() -> None:
    net = dynamic(1, 2, 3)
    leader = elected(net)
    newcomer = net.add(4, dynamic_settings(4, (1, 2, 3)))
    newcomer.start()
    assert add_voter(net, leader, newcomer) == ErrorCode.REQUEST_TIMED_OUT
    assert leader.raft.node.voters.ids == (1, 2, 3)


def test_leader_that_is_removed_answers_and_then_resigns() -> None:
    net = dynamic(1, 2, 3)
    leader = elected(net)
    committed(net, leader, "a")
    key = leader.raft.node.quorum.key
    answers: list[RemoveRaftVoterResponse] = []
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.directory_id
    )
    leader.raft.ask(request, answers.append)  # type: ignore[arg-type]
    net.run_until(lambda: bool(answers))
    assert answers[0].error_code == ErrorCode.NONE
    net.run_until(lambda: net.leader not in (None, leader))
    assert elected(net).raft.node.voters.ids == tuple(each for each in (1, 2, 3) if each != key.id)


def test_node_that_is_alone_grows_into_a_quorum() -> None:
    net = dynamic(1)
    leader = net.nodes[1]
    assert leader.write("a") == leader.raft.high_watermark
    newcomer = net.add(2, dynamic_settings(2, [1]))
    newcomer.start()
    net.run_until(lambda: newcomer.machine.names == ["a"])
    assert add_voter(net, leader, newcomer) == ErrorCode.NONE
    # From now on a change needs both.
    newcomer.is_cut = True
    end = leader.write("b")
    net.run(500)
    assert leader.raft.high_watermark < end
    newcomer.is_cut = False
    net.run_until(lambda: "b" in newcomer.machine.names or net.leader is newcomer)
