"""What a client knows of the cluster: brokers, leaders, coordinators. Part of sim.

A client asks whatever broker it likes, and asks again after every answer that says otherwise.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ledgerstone.sim.clients.gate import ClientProcess
from ledgerstone.sim.clients.script import Asking, Resting, Script
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.history.operations import ClientHistory
from ledgerstone.sim.network import Network
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.world import World
from ledgerstone.types import TopicPartition

GROUP: Final = 0
TRANSACTION: Final = 1
TIMEOUT_MS: Final = 3_000
BACKOFF_MS: Final = 100
_METADATA_VERSION: Final = 12
_FIND_VERSION: Final = 4


class Reach:
    """Of one client process. Connections are its own."""

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        nodes: Mapping[int, ClusterNode],
        history: ClientHistory,
        excused: Collection[TopicPartition],
    ) -> None:
        self.world = world
        self.name = name
        self.history = history
        # Partitions that may have lost records with their last copy.
        self.excused = excused
        self.dice = world.dice(f"client/{name}")
        self.gate = ClientProcess(world, name)
        self.wires = {
            node_id: Wire(world, network, name, node, self.gate) for node_id, node in nodes.items()
        }
        self._leaders: dict[TopicPartition, int] = {}
        # The newest leader epoch it has heard of. As real clients do (KIP-320), it believes no
        # broker that tells of an older one: such a leader lacks what its successor acknowledged.
        self._epochs: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def any_wire(self) -> Wire:
        return self.wires[self.dice.pick(sorted(self.wires))]

    def rest(self) -> Resting:
        return Resting(BACKOFF_MS + self.dice.below(BACKOFF_MS))

    # -- leaders ------------------------------------------------------------------------------

    def leader_of(self, place: TopicPartition) -> Script[Wire]:
        """Comes back once some broker has named one."""
        while True:
            known = self._leaders.get(place)
            if known is not None:
                return self.wires[known]
            yield from self._ask_leaders(place.topic)
            if place not in self._leaders:
                yield self.rest()

    def forget_leader(self, place: TopicPartition) -> None:
        self._leaders.pop(place, None)

    def _ask_leaders(self, topic: str) -> Script[None]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        answer = yield Asking(self.any_wire(), request, _METADATA_VERSION, TIMEOUT_MS)
        if answer is None:
            return
        for each in answer.topics:
            for partition in each.partitions:
                place = TopicPartition(topic, partition.partition_index)
                if partition.leader_epoch < self._epochs.get(place, -1):
                    self.world.mark("a client heard of an old leader")
                elif partition.leader_id in self.wires:
                    self._leaders[place] = partition.leader_id
                    self._epochs[place] = partition.leader_epoch

    # -- coordinators -------------------------------------------------------------------------

    def coordinator_of(self, kind: int, key: str) -> Script[Wire]:
        while True:
            known = self._coordinators.get((kind, key))
            if known is not None:
                return self.wires[known]
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            answer = yield Asking(self.any_wire(), request, _FIND_VERSION, TIMEOUT_MS)
            found = None if answer is None else answer.coordinators[0]
            if found is not None and found.error_code == ErrorCode.NONE:
                self._coordinators[kind, key] = found.node_id
            else:
                yield self.rest()

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)
