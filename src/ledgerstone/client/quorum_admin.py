"""The metadata quorum as operators see it: who leads, who votes, how far behind. Shell over a
`Client`.

A broker passes these requests on to the active controller. A controller answers them itself, and
only the leader can: `on_the_leader` asks one controller after the other.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.errors import BrokerUnreachable, CallTimedOut, check
from ledgerstone.client.routing import AnyBroker
from ledgerstone.client.session import SessionConfig
from ledgerstone.errors import LedgerstoneError, NotLeaderOrFollower
from ledgerstone.protocol.messages.add_raft_voter import (
    AddRaftVoterListener,
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumReplica,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from ledgerstone.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesFeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ledgerstone.types import NO_TIMESTAMP

_TOPIC: Final = "__cluster_metadata"
_CHANGE_TIMEOUT_MS: Final = 30_000
_UPGRADE: Final = 1

T = TypeVar("T")


class VoterEndpoint(NamedTuple):
    name: str
    host: str
    port: int


class QuorumReplica(NamedTuple):
    node_id: int
    directory_id: bytes
    log_end_offset: int
    # By the clock of the leader; None if it has never happened.
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    # Where voters take requests, as far as the leader knows.
    endpoints: dict[int, tuple[VoterEndpoint, ...]]

    def lag_of(self, replica: QuorumReplica) -> int:
        """Records that the leader has and this replica has not fetched."""
        ends = [each.log_end_offset for each in self.voters if each.node_id == self.leader_id]
        return max(max(ends, default=self.high_watermark) - replica.log_end_offset, 0)


def on_the_leader(
    controllers: Sequence[Endpoint], config: SessionConfig, ask: Callable[[Client], T]
) -> T:
    """Asks each controller until one of them leads. One that hangs is passed over like one
    that is away."""
    failure: LedgerstoneError | None = None
    for endpoint in controllers:
        with Client([endpoint], config) as client:
            try:
                return ask(client)
            except (NotLeaderOrFollower, BrokerUnreachable, CallTimedOut) as error:
                failure = error
    assert failure is not None, "no controllers"
    raise failure


def describe_quorum(client: Client) -> QuorumDescription:
    partition = DescribeQuorumRequestPartition(partition_index=0)
    topic = DescribeQuorumRequestTopic(topic_name=_TOPIC, partitions=[partition])
    response = client.call(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    check(response.error_code, "the quorum", response.error_message)
    found = response.topics[0].partitions[0]
    check(found.error_code, "the quorum", found.error_message)
    return QuorumDescription(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(_replica(each) for each in found.current_voters),
        observers=tuple(_replica(each) for each in found.observers),
        endpoints={
            node.node_id: tuple(VoterEndpoint(at.name, at.host, at.port) for at in node.listeners)
            for node in response.nodes
        },
    )


def _replica(each: DescribeQuorumReplica) -> QuorumReplica:
    return QuorumReplica(
        each.replica_id,
        each.replica_directory_id,
        each.log_end_offset,
        _time(each.last_fetch_timestamp),
        _time(each.last_caught_up_timestamp),
    )


def _time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms == NO_TIMESTAMP else timestamp_ms


def add_voter(
    client: Client,
    *,
    node_id: int,
    directory_id: bytes,
    endpoints: Sequence[VoterEndpoint],
    cluster_id: str | None = None,
) -> None:
    """Returns when the new voter set is committed."""
    response = client.call(
        AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=_CHANGE_TIMEOUT_MS,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[
                AddRaftVoterListener(name=at.name, host=at.host, port=at.port) for at in endpoints
            ],
        ),
        AddRaftVoterResponse,
        timeout_ms=_CHANGE_TIMEOUT_MS,
    )
    check(response.error_code, f"node {node_id} was not added", response.error_message)


def remove_voter(
    client: Client, *, node_id: int, directory_id: bytes, cluster_id: str | None = None
) -> None:
    response = client.call(
        RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id
        ),
        RemoveRaftVoterResponse,
        timeout_ms=_CHANGE_TIMEOUT_MS,
    )
    check(response.error_code, f"node {node_id} was not removed", response.error_message)


def upgrade_quorum(client: Client, kraft_version: int) -> None:
    """From a static quorum to one whose voters can change. There is no way back."""
    update = UpdateFeaturesFeatureUpdate(
        feature="kraft.version", max_version_level=kraft_version, upgrade_type=_UPGRADE
    )
    response = client.call(
        UpdateFeaturesRequest(timeout_ms=_CHANGE_TIMEOUT_MS, feature_updates=[update]),
        UpdateFeaturesResponse,
        # Every node passes it on; and a controller knows no Metadata to find it by.
        to=AnyBroker(),
        timeout_ms=_CHANGE_TIMEOUT_MS,
    )
    check(response.error_code, "kraft.version", response.error_message)
    for each in response.results:
        check(each.error_code, each.feature, each.error_message)
