"""Small parts of the quorum: files, control records, voter sets, stagger, ballots."""

import json

import pytest

from ledgerstone.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ledgerstone.raft.ballots import Ballots
from ledgerstone.raft.control_batches import (
    bootstrap_snapshot,
    control_batch,
    control_records,
    leader_change,
    voters_of,
    voters_record,
)
from ledgerstone.raft.following import stagger_ms
from ledgerstone.raft.hard_state import (
    HardState,
    UnreadableHardState,
    decode_hard_state,
    encode_hard_state,
)
from ledgerstone.raft.quorum_state_file import QuorumStateFile
from ledgerstone.raft.replica import ReplicaKey
from ledgerstone.raft.voter_history import VoterHistory
from ledgerstone.raft.voters import VoterSet
from ledgerstone.records.batch import read_header
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.uuid_text import uuid_from_text
from tests.kit.quorum import key_of, voter_of

DIRECTORY = "J8aAPcfLQt2bqs1JT_rMgQ"


def test_quorum_state_of_kraft_version_0_is_kafkas_line() -> None:
    line = encode_hard_state(HardState(2, 1, None), kraft_version=0, voter_ids=(1,))

    assert line == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )


def test_quorum_state_of_kraft_version_1_is_kafkas_line() -> None:
    voted = ReplicaKey(1, uuid_from_text(DIRECTORY))

    line = encode_hard_state(HardState(2, None, voted), kraft_version=1, voter_ids=())

    assert line.decode() == (
        '{"leaderId":-1,"leaderEpoch":2,"votedId":1,'
        f'"votedDirectoryId":"{DIRECTORY}","data_version":1}}'
    )
    assert decode_hard_state(line) == HardState(2, None, voted)


@pytest.mark.parametrize(
    "change",
    [
        {"data_version": 2},
        {"data_version": None},
        {"leaderEpoch": -1},
        {"leaderEpoch": "2"},
        {"votedId": True},
        {"votedDirectoryId": "short"},
        {"leaderId": 1 << 40},
    ],
)
def test_quorum_state_with_a_wrong_field_is_refused(change: dict[str, object]) -> None:
    good = json.loads(encode_hard_state(HardState(2, 1, key_of(1)), kraft_version=1, voter_ids=()))

    with pytest.raises(UnreadableHardState):
        decode_hard_state(json.dumps({**good, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff\xfe", b'{"leaderId":1'])
def test_quorum_state_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableHardState):
        decode_hard_state(data)


def test_a_state_that_was_loaded_survives_power_loss_though_its_writer_died_too_early() -> None:
    fs = SimFilesystem(dice=SeededDice("x"))
    fs.make_dir("/meta")
    fs.fsync_dir("/")
    file = QuorumStateFile(fs, "/meta")
    file.store(HardState(1), kraft_version=1, voter_ids=())
    fs.rename("/meta/quorum-state", "/meta/other")
    fs.rename("/meta/other", "/meta/quorum-state")
    handle = fs.open("/meta/quorum-state")
    handle.truncate(0)
    handle.pwrite(encode_hard_state(HardState(9), kraft_version=1, voter_ids=()), 0)

    assert file.load() == HardState(9)
    fs.power_loss("none")

    assert QuorumStateFile(fs, "/meta").load() == HardState(9)


def test_control_records_are_read_back_from_their_batch() -> None:
    voters = VoterSet(voter_of(each) for each in range(3))
    change = leader_change(1, voters.keys, (key_of(1), key_of(2)))

    found = list(
        control_records(
            control_batch([change, voters_record(voters)], base_offset=7, epoch=3, wall_ms=1)
        )
    )

    assert [each.offset for each in found] == [7, 8]
    leader, kept = found[0].record, found[1].record
    assert isinstance(leader, LeaderChangeMessage)
    assert [each.voter_id for each in leader.granting_voters] == [1, 2]
    assert isinstance(kept, VotersRecord)
    assert voters_of(kept) == voters


def test_a_bootstrap_snapshot_has_header_version_voters_and_footer() -> None:
    voters = VoterSet([voter_of(0)])

    content = bootstrap_snapshot(voters, wall_ms=5)

    kinds = [type(each.record) for each in control_records(content)]
    assert kinds == [SnapshotHeaderRecord, KRaftVersionRecord, VotersRecord, SnapshotFooterRecord]
    assert read_header(content).base_offset == 0


def test_voter_sets_change_by_one() -> None:
    three = VoterSet(voter_of(each) for each in range(3))

    more = three.added(voter_of(3))
    less = three.removed(key_of(1))

    assert more is not None
    assert less is not None
    assert more.ids == (0, 1, 2, 3)
    assert less.ids == (0, 2)
    assert three.added(voter_of(2)) is None
    assert three.removed(ReplicaKey(1, b"another-directry")) is None
    assert VoterSet([voter_of(0)]).removed(key_of(0)) is None
    assert three.differs_by_at_most_one(more)
    assert not more.differs_by_at_most_one(less)
    assert (three.majority, more.majority, less.majority) == (2, 3, 2)


def test_a_key_without_a_directory_covers_every_directory_of_its_node() -> None:
    assert ReplicaKey(1).covers(key_of(1))
    assert key_of(1).covers(key_of(1))
    assert not key_of(1).covers(ReplicaKey(1, b"another-directry"))
    assert not ReplicaKey(1).covers(key_of(2))


def test_a_history_knows_what_held_at_each_offset_and_forgets_what_is_truncated() -> None:
    static, one, two = (VoterSet(voter_of(each) for each in range(n)) for n in (1, 2, 3))
    history = VoterHistory(static)
    assert history.current is static
    assert history.voters_before(100) is None

    history.add_version(4, 1)
    history.add_voters(5, one)
    history.add_voters(9, two)

    assert history.current is two
    assert history.voters_before(9) is one
    assert history.voters_before(10) is two
    assert history.version_before(4) == 0
    history.truncate_to(9)
    assert history.current is one
    history.truncate_to(4)
    assert (history.current, history.version) == (static, 0)


def test_ballots_count_each_voter_once_and_the_first_answer() -> None:
    ballots = Ballots(VoterSet(voter_of(each) for each in range(5)), key_of(0))

    ballots.record(1, False)
    ballots.record(1, True)
    ballots.record(9, True)
    assert ballots.is_open(2)
    ballots.record(2, True)
    ballots.record(3, True)

    assert ballots.is_won
    assert not ballots.is_lost
    assert ballots.granting == (key_of(0), key_of(2), key_of(3))


def test_ballots_are_lost_when_open_ones_cannot_help() -> None:
    ballots = Ballots(VoterSet(voter_of(each) for each in range(3)), key_of(0))

    before = ballots.is_lost
    ballots.record(1, False)
    ballots.record(2, False)

    assert (before, ballots.is_lost) == (False, True)


def test_successors_wait_longer_the_later_they_stand() -> None:
    waits = [stagger_ms(place, 4, 1_000) for place in range(4)]

    assert waits == [0, 125, 250, 500]
    assert stagger_ms(None, 4, 1_000) == 1_000
    assert stagger_ms(1, 1, 1_000) == 1_000
