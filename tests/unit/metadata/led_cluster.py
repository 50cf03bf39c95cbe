"""A cluster for tests about partitions: brokers come and go, and each event writes what it must."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledgerstone.metadata.features import ELR_FEATURE
from ledgerstone.metadata.image import PartitionImage, ResourceType
from ledgerstone.metadata.partition_changes import (
    changes_for_controlled_shutdown,
    changes_for_fenced,
    changes_for_new_incarnation,
    changes_for_offline_directories,
    changes_for_unfenced,
    changes_for_unregistered,
)
from ledgerstone.metadata.replay import FENCE, UNFENCE
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponsePartition,
)
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.unit.metadata.cluster import Cluster, a_topic

NO_LEADER = -1


def a_directory(broker_id: int, number: int = 0) -> bytes:
    return bytes([200, broker_id, number]) + bytes(13)


class LedCluster(Cluster):
    """Brokers 1 to n, active, one directory each; topic t with one partition per assignment."""

    def __init__(
        self,
        *assignments: Sequence[int],
        brokers: int = 3,
        directories: int = 1,
        elr: bool = False,
        configs: Mapping[str, str | None] | None = None,
        overrides: Sequence[str] = (),
    ) -> None:
        super().__init__(*overrides, brokers=0)
        self.now_ms = 0
        if elr:
            self.commit([FeatureLevelRecord(ELR_FEATURE, 1)])
        for broker_id in range(1, brokers + 1):
            self.register(broker_id, directories=directories)
            self.unfence(broker_id)
        # Sessions of the brokers are no matter here.
        self.controller.lead(now_ms=self.now_ms, next_offset=len(self.log))
        self.controller.sessions.clear()
        if assignments:
            numbered = {number: list(each) for number, each in enumerate(assignments)}
            (created,) = self.create(a_topic(assignments=numbered, configs=dict(configs or {})))
            assert created.error_code == 0, created.error_message

    def partition(self, number: int = 0, topic: str = "t") -> PartitionImage:
        return self.image.topics[topic].partitions[number]

    def led(self, number: int = 0, topic: str = "t") -> tuple[int, list[int]]:
        """The leader, and who is in sync."""
        partition = self.partition(number, topic)
        return partition.leader, list(partition.isr)

    def epoch(self, broker_id: int) -> int:
        return self.image.brokers[broker_id].broker_epoch

    def register(
        self, broker_id: int, *, stopped_cleanly: bool = True, directories: int = 1
    ) -> None:
        """A new process of the broker, still fenced."""
        gone = changes_for_new_incarnation(
            self.controller.partitions, broker_id, stopped_cleanly=stopped_cleanly
        )
        epoch = len(self.log)
        registered = RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=epoch,
            incarnation_id=epoch.to_bytes(16),
            fenced=True,
            log_dirs=[a_directory(broker_id, each) for each in range(directories)],
        )
        self.commit([*gone, registered])

    def restart(self, broker_id: int, *, stopped_cleanly: bool) -> None:
        self.register(broker_id, stopped_cleanly=stopped_cleanly)
        self.unfence(broker_id)

    def unfence(self, broker_id: int) -> None:
        elections = changes_for_unfenced(self.controller.partitions, broker_id)
        change = BrokerRegistrationChangeRecord(broker_id, self.epoch(broker_id), UNFENCE)
        self.commit([change, *elections])

    def fence(self, broker_id: int) -> None:
        gone = changes_for_fenced(self.controller.partitions, broker_id)
        change = BrokerRegistrationChangeRecord(broker_id, self.epoch(broker_id), FENCE)
        self.commit([*gone, change])

    def shut_down(self, broker_id: int) -> None:
        """Controlled: asked for, not yet granted."""
        gone = changes_for_controlled_shutdown(self.controller.partitions, broker_id)
        change = BrokerRegistrationChangeRecord(
            broker_id, self.epoch(broker_id), in_controlled_shutdown=1
        )
        self.commit([change, *gone])

    def unregister(self, broker_id: int) -> None:
        gone = changes_for_unregistered(self.controller.partitions, broker_id)
        self.commit([*gone, UnregisterBrokerRecord(broker_id, self.epoch(broker_id))])

    def fail_directories(self, broker_id: int, *directories: bytes) -> None:
        gone = changes_for_offline_directories(self.controller.partitions, broker_id, directories)
        left = [d for d in self.image.brokers[broker_id].log_dirs if d not in directories]
        change = BrokerRegistrationChangeRecord(broker_id, self.epoch(broker_id), log_dirs=left)
        self.commit([*gone, change])

    def configure(self, name: str, value: str | None, topic: str = "t") -> int:
        resource_type = ResourceType.TOPIC if topic else ResourceType.BROKER
        change = IncrementalAlterConfigsConfig(name, 1 if value is None else 0, value)
        resource = IncrementalAlterConfigsResource(resource_type, topic, [change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = self.carry_out(self.controller.incremental_alter_configs(request)).responses
        return result.error_code

    def pass_time(self) -> None:
        """Everything the controller does by itself, one interval of its passes later."""
        self.now_ms += 300_000
        while (decision := self.controller.due(self.now_ms)) is not None:
            self.commit(decision.records)

    def alter(
        self, isr: Sequence[int], number: int = 0, topic: str = "t", **changed: Any
    ) -> AlterPartitionResponsePartition:
        """As the leader asks for it, with everything it knows; `changed` is what it gets wrong."""
        request = self.alter_request(isr, number, topic, **changed)
        response = self.carry_out(self.controller.alter_partition(request))
        assert response.error_code == 0
        return response.topics[0].partitions[0]

    def alter_request(
        self, isr: Sequence[int], number: int = 0, topic: str = "t", **changed: Any
    ) -> AlterPartitionRequest:
        partition = self.partition(number, topic)
        members = [AlterPartitionNewIsrWithEpoch(each, self._epoch_or_none(each)) for each in isr]
        wanted = AlterPartitionRequestPartition(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=members,
        )
        sender = partition.leader
        topic_id = self.image.topics[topic].topic_id
        for name, value in changed.items():
            if name == "sender":
                sender = value
            elif name == "topic_id":
                topic_id = value
            else:
                setattr(wanted, name, value)
        return AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self._epoch_or_none(sender),
            topics=[AlterPartitionRequestTopic(topic_id, [wanted])],
        )

    def _epoch_or_none(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch

    def reassign(
        self,
        replicas: Sequence[int] | None,
        number: int = 0,
        topic: str = "t",
        *,
        may_change_factor: bool = True,
    ) -> int:
        """The error code. None cancels."""
        wanted = AlterReassignmentsPartition(number, None if replicas is None else list(replicas))
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change_factor,
            topics=[AlterReassignmentsTopic(topic, [wanted])],
        )
        response = self.carry_out(self.controller.alter_reassignments(request))
        return response.responses[0].partitions[0].error_code
