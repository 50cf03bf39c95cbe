"""The broker of one simulated process: its life as the controllers see it, and its partitions.

Part of sim. The life is the real one; partitions are those of the model in `replication`.
"""

from typing import Protocol

from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationListener,
    BrokerRegistrationRequest,
)
from ledgerstone.raft.events import Stop
from ledgerstone.server.broker_life.agent import LifeAgent
from ledgerstone.server.broker_life.machine import BrokerLife, BrokerState, LifeSettings
from ledgerstone.sim.controller.clock import MachineClock
from ledgerstone.sim.controller.replication import Change
from ledgerstone.sim.controller.stage import CLUSTER_ID, SimStage
from ledgerstone.sim.controller.truth import Key
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.world import Violation

_AGAIN_MS = 100
_MAX_CHANGES = 4
_STOP_MS = 300
# What an AlterPartition may be told for a partition in a cluster under faults.
_REFUSALS = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.NEW_LEADER_ELECTED,
)


class Owner(Protocol):
    """The process."""

    clock: MachineClock
    end_offset: int

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_alive(self) -> bool: ...

    def ask_for_broker(self, request: ApiMessage, on_answer: "Answered") -> None: ...

    def schedule(self) -> None: ...


class Answered(Protocol):
    def __call__(self, answer: ApiMessage, /) -> None: ...


class SimBroker:
    """`replication.Member`."""

    def __init__(self, stage: SimStage, machine: Machine, owner: Owner) -> None:
        self.number = machine.number
        self._stage = stage
        self._machine = machine
        self._owner = owner
        dice = stage.world.dice(f"broker{self.number}/{machine.incarnation}")
        self._dice = dice
        self.incarnation_id = dice.random_bytes(16)
        # Changes of in-sync sets on their way, and the request that carries them.
        self._pending: dict[Key, Change] = {}
        self._request: AlterPartitionRequest | None = None
        clean_epoch = stage.clean_epochs.pop(self.number, -1)
        stage.replication.flushed.discard(self.number)
        settings = LifeSettings(
            heartbeat_interval_ms=stage.config.heartbeat_ms,
            session_timeout_ms=stage.config.session_ms,
            controlled_shutdown_ms=20_000,
        )
        registration = self._registration(clean_epoch)
        self.life = BrokerLife(registration, settings, owner.clock.monotonic_ms())
        self.agent = LifeAgent(
            self.life,
            clock=owner.clock,
            ask=owner.ask_for_broker,
            applied_offset=lambda: owner.end_offset - 1,
        )
        self._seen = self.life.state
        self._is_going = False

    def _registration(self, clean_epoch: int) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.number,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnation_id,
            listeners=[BrokerRegistrationListener("PLAINTEXT", f"n{self.number}", 9092, 0)],
            features=[
                BrokerRegistrationFeature(name, first, last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=f"rack{self.number % 2}",
            log_dirs=[(1_000 + self.number).to_bytes(16)],
            previous_broker_epoch=clean_epoch,
        )

    # -- facts --------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self._owner.image

    @property
    def broker_epoch(self) -> int:
        return self.life.broker_epoch

    @property
    def is_registered(self) -> bool:
        broker = self.image.brokers.get(self.number)
        return broker is not None and broker.incarnation_id == self.incarnation_id

    @property
    def is_running(self) -> bool:
        return self.life.state is BrokerState.RUNNING and not self.life.is_fenced

    # -- time ---------------------------------------------------------------------------------

    def begin(self) -> None:
        if self._stage.config.data_ms:
            self._poll_later()

    @property
    def next_deadline_ms(self) -> int | None:
        return self.agent.next_deadline_ms

    def tick(self) -> None:
        self.agent.tick()
        if self.life.has_given_up and not self._is_going:
            # It could not register in time. Whatever runs it starts it again.
            self._stage.world.mark("a broker gave up registering")
            self._exit()

    def _poll_later(self) -> None:
        pace_ms = self._stage.config.data_ms
        delay_ms = self._dice.between(pace_ms // 2, pace_ms * 2)
        self._machine.later(delay_ms, "partitions", self._poll)

    def _poll(self) -> None:
        if not self._owner.is_alive:
            return
        self._look_at_partitions()
        self._poll_later()

    # -- life ---------------------------------------------------------------------------------

    def notice(self) -> None:
        """Its life may have gone on: does what the rest of a broker does about that."""
        state = self.life.state
        if state is self._seen:
            return
        self._seen = state
        if state is BrokerState.RECOVERY:
            delay_ms = self._dice.below(self._stage.config.recovery_ms + 1)
            self._machine.later(delay_ms, "logs recovered", self._recovered)
        elif state is BrokerState.SHUTTING_DOWN:
            self._flush_and_stop()

    def _recovered(self) -> None:
        self.agent.ready_to_unfence()
        self._owner.schedule()

    def leave(self) -> None:
        """A controlled shutdown."""
        self.agent.leave()
        self._owner.schedule()

    def _flush_and_stop(self) -> None:
        """Logs are flushed, then the file of the clean stop is written, then the process ends."""
        self._is_going = True
        if self.life.broker_epoch >= 0:
            self._stage.clean_epochs[self.number] = self.life.broker_epoch
            self._stage.replication.flushed.add(self.number)
        self._exit()

    def _exit(self) -> None:
        self._is_going = True
        self._machine.tell(Stop())
        self._machine.later(_STOP_MS, "exits", self._gone)

    def _gone(self) -> None:
        self._machine.die()
        self._machine.come_back(self._stage.down_ms.pop(self.number, _STOP_MS))

    # -- partitions ---------------------------------------------------------------------------

    def metadata_changed(self, applied: Replayed) -> None:
        for key, change in list(self._pending.items()):
            topic = applied.image.topic_by_id(key[0])
            partition = None if topic is None else topic.partitions.get(key[1])
            is_over = (
                partition is None
                or partition.partition_epoch > change.partition_epoch
                or partition.leader != self.number
            )
            if is_over:
                del self._pending[key]

    def _look_at_partitions(self) -> None:
        if not self.is_registered:
            return
        changes: list[Change] = []
        for topic in self.image.topics.values():
            for number, partition in topic.partitions.items():
                if partition.leader != self.number:
                    continue
                key = (topic.topic_id, number)
                pending = self._pending.get(key)
                added = () if pending is None else pending.added
                change = self._stage.replication.lead(self, topic, number, partition, added)
                if change is not None and pending is None:
                    changes.append(change)
        if changes and self._request is None:
            self._alter(changes[:_MAX_CHANGES])

    def _alter(self, changes: list[Change]) -> None:
        by_topic: dict[bytes, list[AlterPartitionRequestPartition]] = {}
        for change in changes:
            self._pending[change.key] = change
            by_topic.setdefault(change.key[0], []).append(
                AlterPartitionRequestPartition(
                    partition_index=change.key[1],
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[
                        AlterPartitionNewIsrWithEpoch(broker_id, epoch)
                        for broker_id, epoch in change.isr
                    ],
                    partition_epoch=change.partition_epoch,
                )
            )
        self._request = AlterPartitionRequest(
            broker_id=self.number,
            broker_epoch=self.life.broker_epoch,
            topics=[
                AlterPartitionRequestTopic(topic_id, parts) for topic_id, parts in by_topic.items()
            ],
        )
        self._send()

    def _send(self) -> None:
        request = self._request
        if request is not None and self._owner.is_alive:
            self._owner.ask_for_broker(request, self._altered)

    def _altered(self, answer: ApiMessage) -> None:
        assert isinstance(answer, AlterPartitionResponse)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            # It may be done or not. The same again, until a controller says which.
            self._machine.later(_AGAIN_MS, "AlterPartition again", self._send)
            return
        self._request = None
        if answer.error_code != ErrorCode.NONE:
            # An old broker epoch, or no controller for a long time: metadata will tell.
            return
        for topic in answer.topics:
            for each in topic.partitions:
                key = (topic.topic_id, each.partition_index)
                change = self._pending.get(key)
                if change is None:
                    continue
                if each.error_code == ErrorCode.NONE:
                    if each.partition_epoch == change.partition_epoch:
                        del self._pending[key]
                elif each.error_code == ErrorCode.INELIGIBLE_REPLICA:
                    # The only refusal that says: not done, and the epochs are right.
                    del self._pending[key]
                elif each.error_code not in _REFUSALS:
                    raise Violation(
                        "AlterPartitionIsUnderstood", f"{change}: {ErrorCode(each.error_code).name}"
                    )
