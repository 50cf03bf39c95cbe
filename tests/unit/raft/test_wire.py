"""The quorum's messages survive Kafka's: to bytes of every version, and back."""

from typing import Any

import pytest

from ledgerstone.errors import InvalidRequest
from ledgerstone.protocol.codec import decode_request, decode_response, encode
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.api_versions import ApiVersionsResponse, SupportedFeature
from ledgerstone.protocol.messages.vote import VoteRequest, VoteRequestPartition, VoteRequestTopic
from ledgerstone.raft import messages
from ledgerstone.raft.replica import Listener, OffsetAndEpoch, Peer, ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.raft.wire import translation
from ledgerstone.raft.wire.describe import refusal
from tests.kit.quorum import CLUSTER, batch, key_of, listeners_of, voter_of

LEADER = Peer(1, "host1", 9093)
KNOWN: dict[str, Any] = {"epoch": 7, "leader_id": 1, "leader": LEADER}
END = OffsetAndEpoch(42, 6)

# Each with the newest version of its API.
REQUESTS: list[tuple[int, messages.Request]] = [
    (2, messages.Vote(
        cluster_id=CLUSTER, voter=key_of(0), candidate=key_of(2), epoch=7, log_end=END,
        is_pre_vote=True,
    )),
    (1, messages.BeginEpoch(
        cluster_id=CLUSTER, voter=key_of(0), leader_id=1, epoch=7, leader_listeners=listeners_of(1),
    )),
    (1, messages.EndEpoch(
        cluster_id=CLUSTER, leader_id=1, epoch=7, successors=(key_of(2), key_of(0)),
        leader_listeners=listeners_of(1),
    )),
    (18, messages.Fetch(
        cluster_id=CLUSTER, replica=key_of(2), epoch=7, log_end=END, max_wait_ms=500,
        max_bytes=1 << 20, high_watermark=41,
    )),
    (1, messages.FetchSnapshot(
        cluster_id=CLUSTER, replica=key_of(2), epoch=7, snapshot_id=END, position=4096,
        max_bytes=1 << 20,
    )),
    (2, messages.DescribeQuorum()),
    (1, messages.AddVoter(
        cluster_id=CLUSTER, voter=voter_of(3), timeout_ms=900, waits_for_commit=False
    )),
    (0, messages.RemoveVoter(cluster_id=CLUSTER, key=key_of(2))),
    (0, messages.UpdateVoter(
        cluster_id=CLUSTER, epoch=7,
        voter=Voter(key=key_of(2), listeners=(Listener("X", "h", 1),)),
    )),
]  # fmt: skip
VOTE, BEGIN, EPOCH_END, FETCH, SNAPSHOT, DESCRIBE, ADD, REMOVE, UPDATE = (
    request for _, request in REQUESTS
)
PROGRESS = messages.ReplicaProgress(
    key=key_of(0), end_offset=42, last_fetch_ms=1, last_caught_up_ms=2
)
ANSWERS: list[tuple[int, messages.Request, messages.Answer]] = [
    (2, VOTE, messages.VoteAnswer(**KNOWN, is_granted=True)),
    (2, VOTE, messages.VoteAnswer(**KNOWN, error=ErrorCode.INVALID_VOTER_KEY)),
    (2, VOTE, messages.VoteAnswer(error=ErrorCode.INCONSISTENT_CLUSTER_ID)),
    (1, BEGIN, messages.BeginEpochAnswer(**KNOWN)),
    (1, BEGIN, messages.BeginEpochAnswer(**KNOWN, error=ErrorCode.FENCED_LEADER_EPOCH)),
    (1, EPOCH_END, messages.EndEpochAnswer(**KNOWN)),
    (18, FETCH, messages.FetchAnswer(
        **KNOWN, high_watermark=41, log_start_offset=0, records=batch(42, 7)
    )),
    (18, FETCH, messages.FetchAnswer(**KNOWN, high_watermark=41, diverging=OffsetAndEpoch(9, 5))),
    (18, FETCH, messages.FetchAnswer(**KNOWN, high_watermark=-1, snapshot_id=END)),
    (18, FETCH, messages.FetchAnswer(**KNOWN, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    (18, FETCH, messages.FetchAnswer(error=ErrorCode.INCONSISTENT_CLUSTER_ID)),
    (1, SNAPSHOT, messages.FetchSnapshotAnswer(
        **KNOWN, snapshot_id=END, size=100, position=10, chunk=b"chunk"
    )),
    (2, DESCRIBE, messages.QuorumAnswer(
        epoch=7, leader_id=1, high_watermark=41, voters=(PROGRESS,),
        observers=(messages.ReplicaProgress(key=key_of(4), end_offset=3),),
        voter_set=VoterSet([voter_of(0)]),
    )),
    (1, ADD, messages.VoterChangeAnswer(error=ErrorCode.DUPLICATE_VOTER, message="taken")),
    (0, REMOVE, messages.VoterChangeAnswer(error=ErrorCode.NONE, message=None)),
    (0, UPDATE, messages.VoterChangeAnswer(**KNOWN)),
]  # fmt: skip


def over_the_wire(message: ApiMessage, version: int, *, is_request: bool) -> ApiMessage:
    data = b"".join(bytes(piece) for piece in encode(message, version))  # type: ignore[arg-type]
    decode = decode_request if is_request else decode_response
    return decode(message.api_key, version, data)


@pytest.mark.parametrize(("version", "request_"), REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_survives_the_wire(version: int, request_: messages.Request) -> None:
    sent = translation.request_to_wire(request_)

    arrived = over_the_wire(sent, version, is_request=True)

    found = translation.request_from_wire(arrived)
    assert (type(found), found) == (type(request_), request_)


@pytest.mark.parametrize(("version", "asked", "answer"), ANSWERS)
def test_an_answer_survives_the_wire(
    version: int, asked: messages.Request, answer: messages.Answer
) -> None:
    response = translation.answer_to_wire(translation.request_to_wire(asked), answer)

    arrived = over_the_wire(response, version, is_request=False)

    found = translation.answer_from_wire(arrived)
    assert (type(found), found) == (type(answer), answer)


def test_older_versions_lose_directories_and_keep_the_rest() -> None:
    vote = messages.Vote(
        cluster_id=CLUSTER,
        voter=key_of(0),
        candidate=key_of(2),
        epoch=7,
        log_end=END,
        is_pre_vote=False,
    )
    arrived = over_the_wire(translation.request_to_wire(vote), 0, is_request=True)
    found = translation.request_from_wire(arrived)
    assert isinstance(found, messages.Vote)
    assert (found.candidate, found.voter) == (ReplicaKey(2), ReplicaKey(-1))
    assert (found.epoch, found.log_end) == (7, END)

    ended = over_the_wire(translation.request_to_wire(EPOCH_END), 0, is_request=True)
    successors = translation.request_from_wire(ended)
    assert isinstance(successors, messages.EndEpoch)
    assert [key.id for key in successors.successors] == [2, 0]

    for version in (12, 14, 17):
        fetched = over_the_wire(translation.request_to_wire(FETCH), version, is_request=True)
        fetch = translation.request_from_wire(fetched)
        assert isinstance(fetch, messages.Fetch)
        assert (fetch.replica.id, fetch.log_end, fetch.epoch) == (2, END, 7)


def test_a_vote_is_these_bytes() -> None:
    """Version 2, by the schema of Kafka 4.3: flexible, so strings and arrays are compact."""
    vote = messages.Vote(
        cluster_id="c",
        voter=ReplicaKey(1, b"A" * 16),
        candidate=ReplicaKey(2, b"B" * 16),
        epoch=5,
        log_end=OffsetAndEpoch(9, 4),
        is_pre_vote=True,
    )

    data = b"".join(bytes(p) for p in encode(translation.request_to_wire(vote), 2))  # type: ignore[arg-type]

    topic = b"\x02" + b"\x13__cluster_metadata"
    ids = (0).to_bytes(4, "big") + (5).to_bytes(4, "big") + (2).to_bytes(4, "big")
    ends = (4).to_bytes(4, "big") + (9).to_bytes(8, "big")
    partition = b"\x02" + ids + b"B" * 16 + b"A" * 16 + ends + b"\x01" + b"\x00"
    assert data == b"\x02c" + (1).to_bytes(4, "big") + topic + partition + b"\x00" + b"\x00"


def test_any_other_partition_is_refused() -> None:
    asked = VoteRequest(
        topics=[VoteRequestTopic(topic_name="orders", partitions=[VoteRequestPartition()])]
    )

    with pytest.raises(InvalidRequest, match="orders-0"):
        translation.request_from_wire(asked)


def test_describing_another_topic_says_that_it_is_not_known() -> None:
    asked = translation.request_to_wire(messages.DescribeQuorum())
    asked.topics[0].topic_name = "orders"  # type: ignore[attr-defined]

    response = refusal(asked)  # type: ignore[arg-type]

    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_node_that_names_no_kraft_version_supports_version_0() -> None:
    feature = SupportedFeature(name="kraft.version", min_version=0, max_version=1)

    old = translation.answer_from_wire(ApiVersionsResponse())
    new = translation.answer_from_wire(ApiVersionsResponse(supported_features=[feature]))

    assert old == messages.VersionsAnswer(min_version=0, max_version=0)
    assert new == messages.VersionsAnswer(min_version=0, max_version=1)


def test_a_pre_vote_needs_the_version_that_knows_it() -> None:
    assert translation.least_version(VOTE) == 2
    assert translation.least_version(FETCH) == 0
