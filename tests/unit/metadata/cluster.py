"""A cluster for tests: one controller, and brokers that do what its records say."""

from typing import Any, TypeVar

from ledgerstone.config.broker import load_broker_config
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import Endpoint, MetadataImage
from ledgerstone.metadata.records import bootstrap_records, decode_record, encode_record
from ledgerstone.metadata.replay import FENCE
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsAssignment,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.metadata_records import BrokerRegistrationChangeRecord
from ledgerstone.sim.dice import SeededDice

R = TypeVar("R")


class Cluster:
    """Commits at once, through bytes as the log would; keeps the log to replay it elsewhere."""

    def __init__(self, *overrides: str, brokers: int = 1, seed: int = 0) -> None:
        self.config = load_broker_config(overrides=overrides).config
        self.controller = Controller("cluster", self.config, SeededDice(seed))
        self.log: list[MetadataRecord] = []
        self.now_ms = 0
        self._terms = 0
        self.commit(bootstrap_records())
        for broker_id in range(1, brokers + 1):
            self.start_broker(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self.controller.committed

    def commit(self, records: list[MetadataRecord]) -> Delta:
        stored = [decode_record(encode_record(record)) for record in records]
        self.log += stored
        delta = self.controller.replay(stored)
        self.image.check_invariants()
        return delta

    def carry_out(self, decision: Decision[R]) -> R:
        self.commit(decision.records)
        return decision.response

    def ask(self, request: ApiMessage) -> Any:
        """As the active controller does it; the answer comes after the commit."""
        decision = self.controller.decide(request, now_ms=self.now_ms, next_offset=len(self.log))
        return self.carry_out(decision)

    def act_on_time(self) -> int:
        """All that is due, one decision after the other; how many there were."""
        count = 0
        while (decision := self.controller.due(self.now_ms)) is not None:
            self.carry_out(decision)
            count += 1
        return count

    def fail_over(self) -> None:
        """Another node leads from now on, and knows only what is committed."""
        # Dice of its own: ids that two controllers draw must not be the same.
        self._terms += 1
        self.controller = Controller("cluster", self.config, SeededDice(1000 + self._terms))
        self.controller.replay(self.log)
        self.lead()

    def lead(self) -> None:
        self.controller.lead(now_ms=self.now_ms, next_offset=len(self.log))

    def start_broker(
        self, broker_id: int, *, rack: str | None = None, stopped_cleanly: bool = True
    ) -> None:
        epoch = len(self.log)
        registration = Registration(
            broker_id=broker_id,
            incarnation_id=epoch.to_bytes(16),
            endpoints=[Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0)],
            rack=rack,
            log_dirs=[bytes([broker_id] * 16)],
            stopped_cleanly=stopped_cleanly,
        )
        self.commit(self.controller.register_broker(registration, broker_epoch=epoch))
        self.commit(self.controller.unfence_broker(broker_id, broker_epoch=epoch))

    def fence(self, broker_id: int) -> None:
        epoch = self.image.brokers[broker_id].broker_epoch
        self.commit([BrokerRegistrationChangeRecord(broker_id, epoch, FENCE)])

    def create(self, *topics: CreateTopicsRequestTopic) -> list[CreateTopicsResponseTopic]:
        request = CreateTopicsRequest(topics=list(topics))
        return self.carry_out(self.controller.create_topics(request)).topics


def a_topic(
    name: str = "t",
    *,
    partitions: int = -1,
    factor: int = -1,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreateTopicsRequestTopic:
    return CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreateTopicsRequestConfig(*item) for item in (configs or {}).items()],
        assignments=[CreateTopicsAssignment(*item) for item in (assignments or {}).items()],
    )
