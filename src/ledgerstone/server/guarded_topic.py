"""Asks the controller for a topic of one partition that only brokers write. Grade D."""

from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.server.erasing.needs import AsksController

# What it holds must survive any one broker.
_SAFE: Final = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedTopic:
    name: str
    configs: Mapping[str, str]
    replication_factor: int

    @property
    def all_configs(self) -> Mapping[str, str]:
        return self.configs if self.replication_factor == 1 else {**self.configs, **_SAFE}

    def ask_for(
        self,
        controller: AsksController,
        image: MetadataImage,
        on_answer: Callable[[str | None], None],
    ) -> None:
        """Told why it is not there; in a later turn where the controller is another node."""
        configs = [CreateTopicsRequestConfig(key, text) for key, text in self.all_configs.items()]
        topic = CreateTopicsRequestTopic(
            name=self.name,
            num_partitions=1,
            # A smaller cluster has fewer replicas; one whose brokers are down waits for them.
            replication_factor=min(self.replication_factor, max(len(image.brokers), 1)),
            configs=configs,
        )

        def answered(answer: ApiMessage) -> None:
            assert isinstance(answer, CreateTopicsResponse)
            code, why = answer.topics[0].error_code, answer.topics[0].error_message
            is_there = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            on_answer(None if is_there else f"{self.name} cannot be created: {why}")

        controller.ask(CreateTopicsRequest(topics=[topic]), answered, by_broker=True)
