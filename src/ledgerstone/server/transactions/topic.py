"""__transaction_state: created when the first producer asks for its coordinator. Grade D."""

from collections.abc import Callable

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CoordinatorNotAvailable, NotCoordinator
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.topic_names import TRANSACTION_STATE, auto_creation
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import CreateTopicsResponse
from ledgerstone.server.groups.needs import AsksController, HostedLogs


@dataclass(slots=True)
class TransactionTopic:
    config: BrokerConfig
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedLogs
    controller: AsksController
    # Read once, as in Kafka: with another count an id would have two coordinators.
    _partition_count: int = 0
    _is_asked: bool = False

    def number_for(self, transactional_id: str) -> int:
        """The id's partition. NotCoordinator before there is a topic: producers ask for their
        coordinator then, and the topic is created."""
        count = self._partition_count or self._count()
        if not count:
            raise NotCoordinator(f"{TRANSACTION_STATE} does not exist")
        return partition_for(transactional_id, count)

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that leads the id's partition; CoordinatorNotAvailable where none does."""
        self._ensure()
        number = self.number_for(transactional_id)
        state = self.image().partition(TRANSACTION_STATE, number)
        leader = NO_LEADER if state is None else state.leader
        if leader not in self.image().brokers or self.image().brokers[leader].fenced:
            raise CoordinatorNotAvailable(f"{TRANSACTION_STATE}-{number} has no live leader")
        return leader

    def changed(self) -> None:
        """The metadata has changed; a topic that was deleted may come back with another count."""
        if TRANSACTION_STATE not in self.image().topics:
            self._partition_count = 0

    def _count(self) -> int:
        topic = self.image().topics.get(TRANSACTION_STATE)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        return self._partition_count

    def _ensure(self) -> None:
        if TRANSACTION_STATE not in self.image().topics:
            self._create()
        topic = self.image().topics.get(TRANSACTION_STATE)
        if topic is None or not self.partitions.is_complete(topic):
            raise CoordinatorNotAvailable(f"{TRANSACTION_STATE} is being created")

    def _create(self) -> None:
        if self._is_asked:
            return
        self._is_asked = True
        answers: list[ApiMessage] = []

        def answered(answer: ApiMessage) -> None:
            self._is_asked = False
            answers.append(answer)

        try:
            self.controller.ask(auto_creation([TRANSACTION_STATE], self.config), answered)
        except BaseException:
            self._is_asked = False
            raise
        for answer in answers:
            assert isinstance(answer, CreateTopicsResponse)
            if answer.topics[0].error_code:
                raise CoordinatorNotAvailable(
                    f"{TRANSACTION_STATE} cannot be created: {answer.topics[0].error_message}"
                )
