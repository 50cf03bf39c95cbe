"""The cluster as its metadata has it: nodes, who leads what, what is not in sync, moves. Pure.

Counts are of all partitions; lists are cut, because a page and an answer have an end.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.metadata.image import BrokerImage, MetadataImage, PartitionImage

LISTED: Final = 200


class NodeFacts(NamedTuple):
    id: int
    state: str  # up, fenced, leaving; or unregistered for a voter that is no broker
    rack: str | None
    address: str | None
    is_controller: bool  # votes
    is_active: bool  # is the active controller
    leads: int
    replicas: int
    behind: int  # replicas here that are not in sync


class ListedPartition(NamedTuple):
    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Replicas that are not in sync."""
        return tuple(each for each in self.replicas if each not in self.isr)


class ClusterFacts(NamedTuple):
    cluster_id: str
    controller: int | None
    nodes: tuple[NodeFacts, ...]
    partitions: int
    offline: int
    under_replicated: int
    reassigning: int
    # The first of them, in order.
    troubled: tuple[ListedPartition, ...]
    moves: tuple[ListedPartition, ...]

    def to_json(self) -> dict[str, Any]:
        content = self._asdict()
        content["nodes"] = [each._asdict() for each in self.nodes]
        for name, rows in (("troubled", self.troubled), ("moves", self.moves)):
            content[name] = [{**each._asdict(), "missing": each.missing} for each in rows]
        return content


def cluster_facts(
    image: MetadataImage, controller: int | None, voters: Sequence[int]
) -> ClusterFacts:
    leads: dict[int, int] = {}
    hosts: dict[int, int] = {}
    behind: dict[int, int] = {}
    troubled: list[ListedPartition] = []
    moves: list[ListedPartition] = []
    partitions = offline = under_replicated = reassigning = 0
    for topic, number, state in _partitions(image):
        partitions += 1
        leads[state.leader] = leads.get(state.leader, 0) + 1
        for each in state.replicas:
            hosts[each] = hosts.get(each, 0) + 1
            if each not in state.isr:
                behind[each] = behind.get(each, 0) + 1
        is_whole = set(state.replicas) - set(state.adding_replicas) <= set(state.isr)
        offline += state.leader < 0
        under_replicated += not is_whole
        reassigning += state.is_reassigning
        if (state.leader < 0 or not is_whole) and len(troubled) < LISTED:
            troubled.append(_facts(topic, number, state))
        if state.is_reassigning and len(moves) < LISTED:
            moves.append(_facts(topic, number, state))
    nodes = tuple(
        NodeFacts(
            id=each,
            state=_state(image.brokers.get(each)),
            rack=image.brokers[each].rack if each in image.brokers else None,
            address=_address(image.brokers.get(each)),
            is_controller=each in voters,
            is_active=each == controller,
            leads=leads.get(each, 0),
            replicas=hosts.get(each, 0),
            behind=behind.get(each, 0),
        )
        for each in sorted({*image.brokers, *voters})
    )
    return ClusterFacts(
        cluster_id=image.cluster_id,
        controller=controller,
        nodes=nodes,
        partitions=partitions,
        offline=offline,
        under_replicated=under_replicated,
        reassigning=reassigning,
        troubled=tuple(troubled),
        moves=tuple(moves),
    )


def _partitions(image: MetadataImage) -> Iterator[tuple[str, int, PartitionImage]]:
    for name in sorted(image.topics):
        states = image.topics[name].partitions
        for number in sorted(states):
            yield name, number, states[number]


def _facts(topic: str, number: int, state: PartitionImage) -> ListedPartition:
    return ListedPartition(
        topic=topic,
        partition=number,
        leader=state.leader,
        replicas=state.replicas,
        isr=state.isr,
        adding=state.adding_replicas,
        removing=state.removing_replicas,
    )


def _state(broker: BrokerImage | None) -> str:
    if broker is None:
        return "unregistered"
    if broker.fenced:
        return "fenced"
    return "leaving" if broker.in_controlled_shutdown else "up"


def _address(broker: BrokerImage | None) -> str | None:
    if broker is None or not broker.endpoints:
        return None
    at = broker.endpoints[0]
    return f"{at.host}:{at.port}"
