"""Requests of the quorum as bytes on the wire: right ones, and wrong in every way we know of.

A scene is a controller in a state that stays: a leader without followers, or a voter whose timers
are too long to fire. Its questions are asked in order. `SCENES` says what Apache Kafka runs there;
the same is put together from our parts in `quorum_paper`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_raft_voter import AddRaftVoterListener, AddRaftVoterRequest
from ledgerstone.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochLeaderEndpoint,
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartition,
    BeginQuorumEpochRequestTopic,
)
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from ledgerstone.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochLeaderEndpoint,
    EndQuorumEpochPreferredCandidate,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartition,
    EndQuorumEpochRequestTopic,
)
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
)
from ledgerstone.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartition,
    FetchSnapshotRequestTopic,
    FetchSnapshotSnapshotId,
)
from ledgerstone.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ledgerstone.protocol.messages.update_raft_voter import (
    UpdateRaftVoterKraftVersionFeature,
    UpdateRaftVoterListener,
    UpdateRaftVoterRequest,
)
from ledgerstone.protocol.messages.vote import (
    VoteRequest,
    VoteRequestPartition,
    VoteRequestTopic,
)
from ledgerstone.raft.wire.partition import TOPIC, TOPIC_ID

NO_DIRECTORY: Final = bytes(16)
OTHER_DIRECTORY: Final = b"\x77" * 16
NODE: Final = 1
STRANGER: Final = 9
LISTENER: Final = "CONTROLLER"
# Nothing listens there.
CLOSED_PORT: Final = 1
# Fetch knows the epoch of the last record since 12, topics by id since 13, the leader's address
# since 17, the high watermark since 18.
FETCH_VERSIONS: Final = (12, 13, 17, 18)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What an asker has to know of the node it asks."""

    cluster_id: str
    epoch: int
    end_offset: int

    @staticmethod
    def directory_of(node_id: int) -> bytes:
        return bytes([0x10 + node_id]) * 16


Make = Callable[[Known], ApiMessage]


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    make: Make
    # None: the newest only, since asking changes the node.
    versions: Sequence[int] | None = None


# -- making requests ------------------------------------------------------------------------------


def vote(known: Known, /, **given: Any) -> VoteRequest:
    """A pre-vote of a stranger whose log is long enough, in the node's epoch."""
    partition = VoteRequestPartition(
        partition_index=given.get("partition", 0),
        replica_epoch=given.get("epoch", known.epoch),
        replica_id=given.get("replica", STRANGER),
        replica_directory_id=given.get("replica_directory", OTHER_DIRECTORY),
        voter_directory_id=given.get("voter_directory", known.directory_of(NODE)),
        last_offset_epoch=given.get("last_epoch", known.epoch),
        last_offset=given.get("last_offset", known.end_offset),
        pre_vote=given.get("pre_vote", False),
    )
    topic = VoteRequestTopic(
        topic_name=given.get("topic", TOPIC), partitions=[partition] * given.get("times", 1)
    )
    return VoteRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        voter_id=given.get("voter", NODE),
        topics=[topic] * given.get("topics", 1),
    )


def begin(known: Known, /, **given: Any) -> BeginQuorumEpochRequest:
    leader = given.get("leader", 2)
    partition = BeginQuorumEpochRequestPartition(
        partition_index=given.get("partition", 0),
        voter_directory_id=given.get("voter_directory", known.directory_of(NODE)),
        leader_id=leader,
        leader_epoch=given.get("epoch", known.epoch),
    )
    endpoints = [BeginQuorumEpochLeaderEndpoint(name=LISTENER, host="127.0.0.1", port=CLOSED_PORT)]
    return BeginQuorumEpochRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        voter_id=given.get("voter", NODE),
        topics=[
            BeginQuorumEpochRequestTopic(
                topic_name=given.get("topic", TOPIC), partitions=[partition]
            )
        ],
        leader_endpoints=endpoints,
    )


def end(known: Known, /, **given: Any) -> EndQuorumEpochRequest:
    successors = given.get("successors", (NODE, 3))
    partition = EndQuorumEpochRequestPartition(
        partition_index=given.get("partition", 0),
        leader_id=given.get("leader", 2),
        leader_epoch=given.get("epoch", known.epoch),
        preferred_successors=list(successors),
        preferred_candidates=[
            EndQuorumEpochPreferredCandidate(
                candidate_id=each, candidate_directory_id=known.directory_of(each)
            )
            for each in successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        topics=[
            EndQuorumEpochRequestTopic(topic_name=given.get("topic", TOPIC), partitions=[partition])
        ],
        leader_endpoints=[
            EndQuorumEpochLeaderEndpoint(name=LISTENER, host="127.0.0.1", port=CLOSED_PORT)
        ],
    )


def fetch(known: Known, /, **given: Any) -> FetchRequest:
    replica = given.get("replica", STRANGER)
    partition = FetchPartition(
        partition=given.get("partition", 0),
        current_leader_epoch=given.get("epoch", known.epoch),
        fetch_offset=given.get("offset", known.end_offset),
        last_fetched_epoch=given.get("last_epoch", known.epoch),
        replica_directory_id=given.get("directory", OTHER_DIRECTORY),
        high_watermark=given.get("high_watermark", 2**63 - 1),
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        replica_id=replica,
        replica_state=FetchReplicaState(replica_id=replica),
        max_wait_ms=0,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic=given.get("topic", TOPIC),
                topic_id=given.get("topic_id", TOPIC_ID),
                partitions=[partition],
            )
        ],
    )


def fetch_snapshot(known: Known, /, **given: Any) -> FetchSnapshotRequest:
    offset, epoch = given.get("snapshot", (known.end_offset, known.epoch))
    partition = FetchSnapshotRequestPartition(
        partition=given.get("partition", 0),
        current_leader_epoch=given.get("epoch", known.epoch),
        snapshot_id=FetchSnapshotSnapshotId(end_offset=offset, epoch=epoch),
        position=given.get("position", 0),
        replica_directory_id=OTHER_DIRECTORY,
    )
    return FetchSnapshotRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        replica_id=STRANGER,
        max_bytes=1 << 20,
        topics=[FetchSnapshotRequestTopic(name=given.get("topic", TOPIC), partitions=[partition])],
    )


def describe(_: Known, /, topic: str = TOPIC, partition: int = 0) -> DescribeQuorumRequest:
    asked = DescribeQuorumRequestPartition(partition_index=partition)
    return DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopic(topic_name=topic, partitions=[asked])]
    )


def add(known: Known, /, **given: Any) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        timeout_ms=given.get("timeout_ms", 1_000),
        voter_id=given.get("voter", STRANGER),
        voter_directory_id=given.get("directory", OTHER_DIRECTORY),
        listeners=[
            AddRaftVoterListener(name=name, host="127.0.0.1", port=CLOSED_PORT)
            for name in given.get("listeners", (LISTENER,))
        ],
    )


def remove(known: Known, /, **given: Any) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        voter_id=given.get("voter", STRANGER),
        voter_directory_id=given.get("directory", OTHER_DIRECTORY),
    )


def update(known: Known, /, **given: Any) -> UpdateRaftVoterRequest:
    least, most = given.get("versions", (0, 1))
    return UpdateRaftVoterRequest(
        cluster_id=given.get("cluster_id", known.cluster_id),
        current_leader_epoch=given.get("epoch", known.epoch),
        voter_id=given.get("voter", STRANGER),
        voter_directory_id=given.get("directory", OTHER_DIRECTORY),
        listeners=[
            UpdateRaftVoterListener(name=name, host="127.0.0.1", port=CLOSED_PORT)
            for name in given.get("listeners", (LISTENER,))
        ],
        kraft_version_feature=UpdateRaftVoterKraftVersionFeature(
            min_supported_version=least, max_supported_version=most
        ),
    )


Given = Callable[[Known], dict[str, Any]]


def _asks(
    api: Callable[..., ApiMessage], versions: Sequence[int] | None, **cases: dict[str, Any] | Given
) -> list[Question]:
    """`a_b=...` becomes the question "Api: a b"."""
    title = api.__name__.replace("_", " ")

    def question(name: str, given: dict[str, Any] | Given) -> Question:
        def make(known: Known) -> ApiMessage:
            return api(known, **(given if isinstance(given, dict) else given(known)))

        return Question(f"{title}: {name.replace('_', ' ')}", make, versions)

    return [question(name, given) for name, given in cases.items()]


# -- scenes ---------------------------------------------------------------------------------------

# Wrong whatever the state: asked of everyone.
_ANYWHERE: Final = [
    *_asks(
        vote,
        (0, 1, 2),
        wrong_cluster={"cluster_id": "another"},
        wrong_topic={"topic": "other"},
        wrong_partition={"partition": 1},
        no_topic={"topics": 0},
        two_partitions={"times": 2},
        negative_last_epoch={"last_epoch": -1},
        negative_last_offset={"last_offset": -1},
        last_epoch_of_the_future=lambda k: {"last_epoch": k.epoch + 1},
        asker_without_id={"replica": -1},
        epoch_of_the_past=lambda k: {"epoch": k.epoch - 1, "last_epoch": 0},
        null_cluster=lambda k: {"cluster_id": None, "epoch": k.epoch - 1, "last_epoch": 0},
    ),
    *_asks(
        begin,
        (0, 1),
        wrong_cluster={"cluster_id": "another"},
        wrong_topic={"topic": "other"},
        wrong_partition={"partition": 1},
        epoch_of_the_past=lambda k: {"epoch": k.epoch - 1},
        leader_without_id={"leader": -1},
    ),
    *_asks(
        end,
        (0, 1),
        wrong_cluster={"cluster_id": "another"},
        wrong_topic={"topic": "other"},
        wrong_partition={"partition": 1},
        epoch_of_the_past=lambda k: {"epoch": k.epoch - 1},
        leader_without_id={"leader": -1},
    ),
    *_asks(
        fetch,
        FETCH_VERSIONS,
        wrong_cluster={"cluster_id": "another"},
        wrong_topic={"topic": "other", "topic_id": OTHER_DIRECTORY},
        wrong_partition={"partition": 1},
        epoch_of_the_past=lambda k: {"epoch": k.epoch - 1, "offset": 0, "last_epoch": 0},
        epoch_of_the_future=lambda k: {"epoch": k.epoch + 1},
        no_epoch={"epoch": -1},
        negative_offset={"offset": -1},
        negative_last_epoch={"last_epoch": -1},
        last_epoch_of_the_future=lambda k: {"last_epoch": k.epoch + 1},
    ),
    *_asks(
        fetch_snapshot,
        (0, 1),
        wrong_cluster={"cluster_id": "another"},
        wrong_topic={"topic": "other"},
        wrong_partition={"partition": 1},
        epoch_of_the_past=lambda k: {"epoch": k.epoch - 1},
        epoch_of_the_future=lambda k: {"epoch": k.epoch + 1},
        unknown_snapshot={},
        the_first_snapshot={"snapshot": (0, 0)},
        negative_position={"position": -1},
    ),
    *_asks(
        describe,
        (0, 1, 2),
        quorum={},
        wrong_topic={"topic": "other"},
        wrong_partition={"partition": 1},
    ),
    *_asks(
        add,
        (0, 1),
        wrong_cluster={"cluster_id": "another"},
        no_listener={"listeners": ()},
        wrong_listener={"listeners": ("OTHER",)},
        no_directory={"directory": NO_DIRECTORY},
        no_id={"voter": -1},
        id_of_a_voter={"voter": NODE},
    ),
    *_asks(
        remove,
        (0,),
        wrong_cluster={"cluster_id": "another"},
        unknown={},
        no_directory={"directory": NO_DIRECTORY},
        no_id={"voter": -1},
        other_directory={"voter": NODE},
    ),
    *_asks(
        update,
        (0,),
        wrong_cluster={"cluster_id": "another"},
        epoch_of_the_past=lambda k: {"epoch": k.epoch - 1},
        epoch_of_the_future=lambda k: {"epoch": k.epoch + 1},
        no_listener={"listeners": ()},
        wrong_listener={"listeners": ("OTHER",)},
        no_directory={"directory": NO_DIRECTORY},
        no_id={"voter": -1},
        versions_of_the_future={"versions": (5, 6)},
    ),
]
_OF_A_LEADER: Final = [
    *_asks(
        vote,
        (0, 1, 2),
        of_its_epoch=lambda k: {"last_epoch": k.epoch - 1},
        for_another_voter=lambda k: {"voter": 5, "last_epoch": k.epoch - 1},
        for_another_directory=lambda k: {
            "voter_directory": OTHER_DIRECTORY,
            "last_epoch": k.epoch - 1,
        },
    ),
    *_asks(
        vote,
        (2,),
        before_the_vote={"pre_vote": True},
        epoch_of_the_past_before_the_vote=lambda k: {
            "pre_vote": True,
            "epoch": k.epoch - 1,
            "last_epoch": k.epoch - 1,
        },
    ),
    # Not asked: the same epoch under another leader. It ends Kafka's process; we answer 42.
    *_asks(begin, (1,), by_itself={"leader": NODE}, to_another={"voter": 5, "leader": NODE}),
    *_asks(end, (0, 1), by_itself={"leader": NODE}),
    *_asks(
        fetch,
        FETCH_VERSIONS,
        at_the_end={},
        from_the_start={"offset": 0, "last_epoch": 0},
        inside_a_batch={"offset": 1},
        behind_the_end=lambda k: {"offset": k.end_offset + 5},
        of_an_older_epoch={"offset": 1, "last_epoch": 0},
        without_an_id={"replica": -1},
        with_an_old_high_watermark={"high_watermark": 0},
    ),
]
LEADER: Final = [
    *_ANYWHERE,
    *_OF_A_LEADER,
    *_asks(
        remove, (0,), the_last_voter=lambda k: {"voter": NODE, "directory": k.directory_of(NODE)}
    ),
    *_asks(update, (0,), unknown={}, other_directory={"voter": NODE}),
    *_asks(add, (0, 1), unreachable={}),
]
STATIC_LEADER: Final = [
    *_ANYWHERE,
    *_OF_A_LEADER,
    *_asks(remove, (0,), the_last_voter={"voter": NODE}),
    *_asks(update, (0,), unknown={}),
    *_asks(add, (0, 1), unreachable={}),
]
VOTER: Final = [
    *_asks(vote, (2,), before_the_vote={"pre_vote": True, "replica": 2}),
    *_asks(fetch, (18,), without_a_leader={}),
    *_asks(
        vote,
        None,
        epoch_5_of_voter_2={"replica": 2, "epoch": 5},
        epoch_5_of_voter_2_again={"replica": 2, "epoch": 5},
        epoch_5_of_voter_2_with_another_directory={
            "replica": 2,
            "epoch": 5,
            "replica_directory": NO_DIRECTORY,
        },
        epoch_5_of_voter_3={"replica": 3, "epoch": 5},
        epoch_5_of_voter_3_before_the_vote={"replica": 3, "epoch": 5, "pre_vote": True},
        epoch_6_to_another_directory={
            "replica": 2,
            "epoch": 6,
            "voter_directory": OTHER_DIRECTORY,
        },
        epoch_6_of_voter_3={"replica": 3, "epoch": 6},
        epoch_8_of_a_stranger_before_the_vote={"epoch": 8, "pre_vote": True},
        epoch_7_is_over={"replica": 2, "epoch": 7},
    ),
    *_asks(
        begin,
        None,
        epoch_7_is_over={"epoch": 7},
        epoch_8_to_another_directory={"epoch": 8, "voter_directory": OTHER_DIRECTORY},
        epoch_8={"epoch": 8},
        epoch_8_again={"epoch": 8},
    ),
    *_asks(
        vote,
        None,
        epoch_8_of_voter_3_of_a_follower={"replica": 3, "epoch": 8},
        epoch_8_of_voter_3_before_the_vote={"replica": 3, "epoch": 8, "pre_vote": True},
    ),
    *_asks(fetch, None, from_a_follower={"epoch": 8}, from_a_follower_later={"epoch": 9}),
    *_asks(fetch_snapshot, None, from_a_follower={"epoch": 8}),
    *_asks(describe, (0, 1, 2), of_a_follower={}),
    *_asks(add, (0, 1), of_a_follower={}),
    *_asks(remove, (0,), of_a_follower={}),
    *_asks(update, (0,), of_a_follower={"epoch": 8}),
    *_asks(end, None, epoch_7={"epoch": 7}),
]
SCENES: Final[dict[str, list[Question]]] = {
    "leader": LEADER,
    "static leader": STATIC_LEADER,
    "voter": VOTER,
}
