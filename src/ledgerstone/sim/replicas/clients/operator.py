"""An operator: creates the topics, then reassigns, elects and deletes records. Part of sim."""

from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartition,
)
from ledgerstone.sim.clients.script import Asking, Resting, Script
from ledgerstone.sim.replicas.clients.reach import TIMEOUT_MS, Reach
from ledgerstone.types import TopicPartition

_CREATE_VERSION: Final = 7
_REASSIGN_VERSION: Final = 0
_ELECT_VERSION: Final = 2
_UNCLEAN: Final = 1


@dataclass(slots=True, kw_only=True)
class ClusterOperator:
    """`topics` are the settings of each topic, by its name."""

    reach: Reach
    topics: Mapping[str, Mapping[str, str]]
    partitions: int
    replicas: int
    operations: int
    pace_ms: int

    def script(self) -> Script[None]:
        dice = self.reach.dice
        yield from self._create()
        for _ in range(self.operations):
            yield Resting(self.pace_ms + dice.below(self.pace_ms))
            if dice.chance(60):
                yield from self._reassign()
            else:
                yield from self._ask(ElectLeadersRequest(timeout_ms=TIMEOUT_MS), _ELECT_VERSION)

    def _create(self) -> Script[None]:
        left = dict(self.topics)
        while left:
            request = CreateTopicsRequest(
                topics=[
                    CreateTopicsRequestTopic(
                        name=name,
                        num_partitions=self.partitions,
                        replication_factor=self.replicas,
                        configs=[CreateTopicsRequestConfig(*each) for each in settings.items()],
                    )
                    for name, settings in left.items()
                ],
                timeout_ms=TIMEOUT_MS,
            )
            answer = yield from self._ask(request, _CREATE_VERSION)
            for each in () if answer is None else answer.topics:
                if each.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    left.pop(each.name, None)
            if left:
                yield self.reach.rest()

    def _reassign(self) -> Script[None]:
        dice = self.reach.dice
        place = TopicPartition(dice.pick(sorted(self.topics)), dice.below(self.partitions))
        ids = sorted(self.reach.wires)
        chosen: list[int] = []
        while len(chosen) < min(self.replicas, len(ids)):
            node_id = dice.pick(ids)
            if node_id not in chosen:
                chosen.append(node_id)
        yield from reassign(self.reach, place, chosen)

    def _ask(self, request: Any, version: int) -> Script[Any]:  # noqa: ANN401 - any API
        return (yield Asking(self.reach.any_wire(), request, version, 2 * TIMEOUT_MS))


def reassign(reach: Reach, place: TopicPartition, replicas: list[int]) -> Script[bool]:
    part = AlterReassignmentsPartition(partition_index=place.partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[AlterReassignmentsTopic(name=place.topic, partitions=[part])],
    )
    answer = yield Asking(reach.any_wire(), request, _REASSIGN_VERSION, 2 * TIMEOUT_MS)
    is_taken = answer is not None and answer.error_code == ErrorCode.NONE
    if is_taken:
        reach.world.mark("a reassignment was asked for")
    return is_taken


def unclean_election(reach: Reach, place: TopicPartition) -> Script[None]:
    """Until it is done, or needless."""
    done = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    while True:
        which = ElectLeadersTopicPartition(topic=place.topic, partitions=[place.partition])
        request = ElectLeadersRequest(
            election_type=_UNCLEAN, topic_partitions=[which], timeout_ms=TIMEOUT_MS
        )
        answer = yield Asking(reach.any_wire(), request, _ELECT_VERSION, 2 * TIMEOUT_MS)
        results = [] if answer is None else answer.replica_election_results
        if any(part.error_code in done for each in results for part in each.partition_result):
            return
        yield reach.rest()
