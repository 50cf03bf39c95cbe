"""Clients that change the cluster's metadata through any broker, with retries. Part of sim."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledgerstone.metadata.image import MetadataImage, ResourceType, TopicImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsTopic
from ledgerstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartition,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.sim.controller.stage import SimStage
from ledgerstone.sim.dice import SeededDice

if TYPE_CHECKING:
    from ledgerstone.sim.controller.process import SimProcess

_PATIENCE_MS = (400, 3_000, 15_000)
_ATTEMPTS = 3
# Clients stand outside: no cut between nodes reaches them.
_OUTSIDE = 100
_SET = 0


class AdminClient:
    def __init__(
        self, stage: SimStage, number: int, processes: Callable[[], list["SimProcess"]]
    ) -> None:
        self._stage = stage
        self._world = stage.world
        self._number = number
        self._processes = processes
        self._dice: SeededDice = stage.world.dice(f"client{number}")
        self._serial = 0
        self.is_over = False
        self.is_waiting = False
        self.answers = 0

    def begin(self) -> None:
        self._world.after(self._pause_ms(), f"client {self._number}", self._next)

    def _pause_ms(self) -> int:
        pace_ms = self._stage.config.op_ms
        return self._dice.between(pace_ms // 2, pace_ms * 2)

    def _next(self) -> None:
        if self.is_over:
            return
        process = self._pick()
        request = None if process is None else self._draw(process)
        if process is None or request is None:
            self.begin()
            return
        self._serial += 1
        self.is_waiting = True
        self._try(process, request, self._dice.pick(_PATIENCE_MS), _ATTEMPTS)

    def _pick(self) -> "SimProcess | None":
        """Any broker that is up."""
        up = [each for each in self._processes() if each.broker is not None]
        return self._dice.pick(up) if up else None

    # -- attempts -----------------------------------------------------------------------------

    def _try(self, process: "SimProcess", request: ApiMessage, patience_ms: int, left: int) -> None:
        source, target = _OUTSIDE + self._number, process.number
        is_over = False

        def end(answer: ApiMessage | None) -> None:
            nonlocal is_over
            if is_over:
                return
            is_over = True
            self._answered(request, answer, patience_ms, left)

        def answered(answer: ApiMessage) -> None:
            label = f"n{target}>c{self._number} {request.name} answer"
            self._stage.network.carry_answer(target, source, label, lambda: end(answer))

        def arrive() -> None:
            if process.is_alive:
                process.when_awake(lambda: process.ask(request, answered))

        label = f"c{self._number}>n{target} {request.name}"
        self._stage.network.carry_answer(source, target, label, arrive)
        self._world.after(patience_ms, f"client {self._number} gives up", lambda: end(None))

    def _answered(
        self, request: ApiMessage, answer: ApiMessage | None, patience_ms: int, left: int
    ) -> None:
        is_retriable = answer is None or _is_retriable(answer)
        process = self._pick()
        if is_retriable and left > 1 and process is not None and not self.is_over:
            self._world.mark("a client asked again")
            self._try(process, request, patience_ms, left - 1)
            return
        self.answers += answer is not None
        self.is_waiting = False
        if not self.is_over:
            self.begin()

    # -- what to ask for ----------------------------------------------------------------------

    def _draw(self, process: "SimProcess") -> ApiMessage | None:
        """By the image of the broker that is asked, which may be old."""
        image, dice, config = process.image, self._dice, self._stage.config
        name = f"topic{dice.below(config.names)}"
        topic = image.topics.get(name)
        if topic is None or dice.chance(10):
            return self._create(name)
        roll = dice.below(100)
        if roll < config.delete_percent:
            return self._delete(topic)
        if roll < config.delete_percent + config.reassign_percent:
            return self._reassign(image, topic)
        match dice.below(5):
            case 0:
                count = len(topic.partitions) + 1
                return (
                    None
                    if count > 4
                    else CreatePartitionsRequest(
                        topics=[CreatePartitionsTopic(name=name, count=count)], timeout_ms=5_000
                    )
                )
            case 1:
                return self._elect(topic)
            case 2:
                return self._allocate(process)
            case _:
                return self._configure(name, process)

    def _create(self, name: str) -> ApiMessage:
        dice, config = self._dice, self._stage.config
        configs = [CreateTopicsRequestConfig("min.insync.replicas", str(config.min_isr))]
        if config.unclean and dice.chance(50):
            configs.append(CreateTopicsRequestConfig("unclean.leader.election.enable", "true"))
        topic = CreateTopicsRequestTopic(
            name=name,
            num_partitions=dice.between(1, 3),
            replication_factor=dice.pick((1, 2, 3, 3)),
            configs=configs,
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=5_000)

    def _delete(self, topic: TopicImage) -> ApiMessage:
        if self._dice.chance(50):
            named = DeleteTopicsTopic(name=topic.name)
        else:
            named = DeleteTopicsTopic(name=None, topic_id=topic.topic_id)
        return DeleteTopicsRequest(topics=[named], timeout_ms=5_000)

    def _reassign(self, image: MetadataImage, topic: TopicImage) -> ApiMessage:
        dice = self._dice
        partition = dice.below(len(topic.partitions))
        brokers = sorted(image.brokers)
        replicas: list[int] | None = None
        if not dice.chance(25):
            count = min(dice.pick((1, 2, 3)), len(brokers))
            start = dice.below(len(brokers))
            replicas = [brokers[(start + n) % len(brokers)] for n in range(count)]
        return AlterPartitionReassignmentsRequest(
            topics=[
                AlterReassignmentsTopic(
                    topic.name, [AlterReassignmentsPartition(partition, replicas)]
                )
            ]
        )

    def _elect(self, topic: TopicImage) -> ApiMessage:
        kind = int(self._stage.config.unclean and self._dice.chance(30))
        partitions = list(range(len(topic.partitions)))
        return ElectLeadersRequest(
            election_type=kind,
            topic_partitions=[ElectLeadersTopicPartition(topic.name, partitions)],
        )

    def _allocate(self, process: "SimProcess") -> ApiMessage | None:
        broker = process.broker
        if broker is None or broker.broker_epoch < 0:
            return None
        return AllocateProducerIdsRequest(broker_id=broker.number, broker_epoch=broker.broker_epoch)

    def _configure(self, name: str, process: "SimProcess") -> ApiMessage:
        dice = self._dice
        key, value = "retention.ms", str(1_000_000 * (self._number + 1) + self._serial)
        least = process.image.topic_config(name).get("min.insync.replicas")
        if least == "2" and dice.chance(15):
            # Only down: a leader that still goes by a lower one would acknowledge too early.
            key, value = "min.insync.replicas", "1"
        return IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsResource(
                    resource_type=ResourceType.TOPIC,
                    resource_name=name,
                    configs=[IncrementalAlterConfigsConfig(key, _SET, value)],
                )
            ]
        )


def _is_retriable(answer: ApiMessage) -> bool:
    codes = [getattr(answer, "error_code", 0)]
    if isinstance(answer, CreateTopicsResponse):
        codes = [each.error_code for each in answer.topics]
    for each in (*getattr(answer, "results", ()), *getattr(answer, "responses", ())):
        codes.append(getattr(each, "error_code", 0))
    return any(code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT) for code in codes)
