"""`ledgerstone quorum` against an answer of the leader."""

from typing import TypeVar

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.errors import CallTimedOut
from ledgerstone.client.quorum_admin import on_the_leader
from ledgerstone.client.session import SessionConfig
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumReplica,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
)
from ledgerstone.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ledgerstone.uuid_text import uuid_to_text
from tests.unit.cli.test_broker_commands import Run, cluster, run
from tests.unit.client.fake_cluster import FakeCluster

__all__ = ["cluster", "run"]

A, B = b"a" * 16, b"b" * 16
T = 1_700_000_000_000
R = TypeVar("R", bound=ApiMessage)


def _status() -> DescribeQuorumResponse:
    partition = DescribeQuorumResponsePartition(
        leader_id=1,
        leader_epoch=7,
        high_watermark=40,
        current_voters=[
            DescribeQuorumReplica(1, A, 42, T, T),
            DescribeQuorumReplica(2, B, 40, T - 300, T - 900),
        ],
        observers=[DescribeQuorumReplica(4, log_end_offset=10)],
    )
    topic = DescribeQuorumResponseTopic("__cluster_metadata", [partition])
    at = DescribeQuorumListener("CONTROLLER", "10.0.0.2", 9094)
    return DescribeQuorumResponse(topics=[topic], nodes=[DescribeQuorumNode(2, [at])])


def _asked(cluster: FakeCluster, request_class: type[R]) -> list[R]:
    return [each for _, each in cluster.requests if isinstance(each, request_class)]


def test_status_shows_leader_voters_and_observers(run: Run, cluster: FakeCluster) -> None:
    cluster.once(DescribeQuorumRequest, _status())

    result = run("quorum", "status")

    assert result.exit_code == 0, result.err
    assert result.lines[0] == "leader 1  epoch 7  high watermark 40  voters 2"
    rows = [line.split() for line in result.lines[2:]]
    assert [row[:2] for row in rows] == [["1", "leader"], ["2", "voter"], ["4", "observer"]]
    assert rows[1][2:6] == [uuid_to_text(B), "10.0.0.2:9094", "40", "2"]


def test_status_as_json_has_the_leader_in_every_row(run: Run, cluster: FakeCluster) -> None:
    cluster.once(DescribeQuorumRequest, _status())

    rows = run("quorum", "status", "--json").objects

    assert [(row["node"], row["lag"]) for row in rows] == [(1, 0), (2, 2), (4, 32)]
    assert {(row["leader"], row["epoch"], row["high_watermark"]) for row in rows} == {(1, 7, 40)}
    assert rows[2]["directory"] is None
    assert rows[2]["last_fetch"] is None


def test_a_voter_is_added_by_its_ids(run: Run, cluster: FakeCluster) -> None:
    cluster.once(AddRaftVoterRequest, AddRaftVoterResponse())

    ids = ("--node-id", "3", "--directory-id", uuid_to_text(A))
    result = run("quorum", "add", *ids, "--endpoint", "CONTROLLER://10.0.0.3:9094")

    assert result.out == f"added voter 3, directory {uuid_to_text(A)}\n"
    (request,) = _asked(cluster, AddRaftVoterRequest)
    assert (request.voter_id, request.voter_directory_id) == (3, A)
    assert [(at.name, at.host, at.port) for at in request.listeners] == [
        ("CONTROLLER", "10.0.0.3", 9094)
    ]


def test_a_refusal_of_the_leader_is_shown(run: Run, cluster: FakeCluster) -> None:
    refused = AddRaftVoterResponse(
        error_code=ErrorCode.DUPLICATE_VOTER, error_message="node 3 is a voter"
    )
    cluster.once(AddRaftVoterRequest, refused)

    ids = ("--node-id", "3", "--directory-id", uuid_to_text(A))
    result = run("quorum", "add", *ids, "--endpoint", "CONTROLLER://10.0.0.3:9094")

    assert result.exit_code == 1
    assert "node 3 was not added" in result.err
    assert "node 3 is a voter" in result.err


def test_a_voter_is_removed_with_the_directory_it_has(run: Run, cluster: FakeCluster) -> None:
    cluster.once(DescribeQuorumRequest, _status())
    cluster.once(RemoveRaftVoterRequest, RemoveRaftVoterResponse())

    assert run("quorum", "remove", "2").exit_code == 0
    asked = _asked(cluster, RemoveRaftVoterRequest)
    assert [(each.voter_id, each.voter_directory_id) for each in asked] == [(2, B)]


def test_only_voters_are_removed(run: Run, cluster: FakeCluster) -> None:
    cluster.once(DescribeQuorumRequest, _status())

    result = run("quorum", "remove", "4")

    assert result.exit_code == 2
    assert "node 4 is not a voter; voters are 1, 2" in result.err


def test_a_voter_needs_all_its_ids_or_its_settings(run: Run) -> None:
    assert run("quorum", "add", "--node-id", "3").exit_code == 2
    assert run("quorum", "add").exit_code == 2


def test_upgrade_says_what_comes_next(run: Run, cluster: FakeCluster) -> None:
    cluster.once(UpdateFeaturesRequest, UpdateFeaturesResponse())

    result = run("quorum", "upgrade")

    assert "remove controller.quorum.voters" in result.out
    (request,) = _asked(cluster, UpdateFeaturesRequest)
    (update,) = request.feature_updates
    assert (update.feature, update.max_version_level) == ("kraft.version", 1)


def test_a_voter_has_one_address(run: Run) -> None:
    ids = ("--node-id", "3", "--directory-id", uuid_to_text(A))
    result = run("quorum", "add", *ids, "--endpoint", "CONTROLLER://10.0.0.3:9094,10.0.0.4:9094")

    assert result.exit_code == 2
    assert "more than one address" in result.err


def test_a_controller_that_hangs_is_passed_over() -> None:
    asked: list[Client] = []

    def hangs_first(client: Client) -> str:
        asked.append(client)
        if len(asked) == 1:
            raise CallTimedOut("no answer in 30000 ms")
        return "the leader"

    controllers = [Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2)]

    assert on_the_leader(controllers, SessionConfig(), hangs_first) == "the leader"
    assert len(asked) == 2
