"""AlterPartition: a leader proposes another ISR for partitions it leads. Pure.

The checks come in Kafka's order, because leaders act on the code: 41 looks for another controller,
74 and 95 wait for newer metadata, 107 goes back to the ISR that is committed. Rules in README.md.
"""

from collections.abc import Iterator

from ledgerstone.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.change_record import (
    LEADER_UNCHANGED,
    LeaderRecoveryState,
    PartitionTarget,
)
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.image import PartitionImage, TopicImage
from ledgerstone.metadata.partition_index import Key
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.metadata.record_images import changed
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)

_ANY_EPOCH = -1


def alter_partition(
    partitions: Partitions, request: AlterPartitionRequest
) -> Decision[AlterPartitionResponse]:
    if not request.topics:
        return Decision([], AlterPartitionResponse())
    broker = partitions.image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    altering = _Altering(partitions, request.broker_id)
    response = AlterPartitionResponse()
    for wanted in request.topics:
        topic = partitions.image.topic_by_id(wanted.topic_id)
        results = [altering.alter(topic, each) for each in wanted.partitions]
        response.topics.append(AlterPartitionResponseTopic(wanted.topic_id, results))
    return Decision(altering.records, response, is_atomic=False)


class _Altering:
    """One request's work."""

    __slots__ = ("_broker_id", "_done", "_partitions", "records")

    def __init__(self, partitions: Partitions, broker_id: int) -> None:
        self._partitions = partitions
        self._broker_id = broker_id
        self._done: set[Key] = set()
        self.records: list[MetadataRecord] = []

    def alter(
        self, topic: TopicImage | None, wanted: AlterPartitionRequestPartition
    ) -> AlterPartitionResponsePartition:
        try:
            return self._alter(topic, wanted)
        except KafkaError as error:
            return AlterPartitionResponsePartition(wanted.partition_index, error.code)

    def _alter(
        self, topic: TopicImage | None, wanted: AlterPartitionRequestPartition
    ) -> AlterPartitionResponsePartition:
        if topic is None:
            raise UnknownTopicId("no topic has this id")
        partition = topic.partitions.get(wanted.partition_index)
        if partition is None:
            raise UnknownTopicOrPartition(f"{topic.name} has no {wanted.partition_index}")
        key = (topic.name, wanted.partition_index)
        if key in self._done:
            raise InvalidUpdateVersion("this request has changed the partition already")
        self._check_epochs(partition, wanted)
        _check_isr(partition, wanted)
        self._check_members(wanted)
        return self._change(key, partition, wanted)

    def _check_epochs(
        self, partition: PartitionImage, wanted: AlterPartitionRequestPartition
    ) -> None:
        if (
            wanted.leader_epoch > partition.leader_epoch
            or wanted.partition_epoch > partition.partition_epoch
        ):
            raise NotController("the leader knows more than this controller")
        if wanted.leader_epoch < partition.leader_epoch:
            raise FencedLeaderEpoch(f"the leader epoch is {partition.leader_epoch}")
        if self._broker_id != partition.leader:
            raise InvalidRequest(f"the leader is broker {partition.leader}")
        if wanted.partition_epoch < partition.partition_epoch:
            raise InvalidUpdateVersion(f"the partition epoch is {partition.partition_epoch}")

    def _check_members(self, wanted: AlterPartitionRequestPartition) -> None:
        for member in _members(wanted):
            broker = self._partitions.image.brokers.get(member.broker_id)
            if broker is None or not broker.is_active:
                raise IneligibleReplica(f"broker {member.broker_id} is not active")
            if member.broker_epoch not in (_ANY_EPOCH, broker.broker_epoch):
                # It restarted since: what it had then, it may not have now.
                raise IneligibleReplica(f"broker {member.broker_id} is not of that epoch")

    def _change(
        self, key: Key, partition: PartitionImage, wanted: AlterPartitionRequestPartition
    ) -> AlterPartitionResponsePartition:
        target = PartitionTarget(
            isr=[member.broker_id for member in _members(wanted)],
            recovery_state=wanted.leader_recovery_state,
        )
        record = self._partitions.change(key, target)
        if record is not None:
            self.records.append(record)
            self._done.add(key)
            if record.leader not in (LEADER_UNCHANGED, self._broker_id):
                # The new ISR completed a reassignment that moved the leader. The change holds; the
                # code makes the former leader look at the metadata.
                raise NewLeaderElected(f"the leader is broker {record.leader} now")
            partition = changed(partition, record)
        return AlterPartitionResponsePartition(
            partition_index=wanted.partition_index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition.partition_epoch,
        )


def _members(wanted: AlterPartitionRequestPartition) -> Iterator[AlterPartitionNewIsrWithEpoch]:
    """Version 2 names brokers without their epochs."""
    yield from wanted.new_isr_with_epochs
    for broker_id in wanted.new_isr:
        yield AlterPartitionNewIsrWithEpoch(broker_id, _ANY_EPOCH)


def _check_isr(partition: PartitionImage, wanted: AlterPartitionRequestPartition) -> None:
    isr = [member.broker_id for member in _members(wanted)]
    if len(set(isr)) < len(isr) or not set(isr) <= set(partition.replicas):
        raise InvalidRequest(f"the ISR {isr} is not a part of {list(partition.replicas)}")
    if partition.leader not in isr:
        raise InvalidRequest(f"the ISR {isr} is without the leader {partition.leader}")
    if wanted.leader_recovery_state not in tuple(LeaderRecoveryState):
        raise InvalidRequest(f"there is no recovery state {wanted.leader_recovery_state}")
    if wanted.leader_recovery_state == LeaderRecoveryState.RECOVERING:
        if len(isr) > 1:
            raise InvalidRequest(f"the leader is recovering, but the ISR would be {isr}")
        if partition.leader_recovery_state == LeaderRecoveryState.RECOVERED:
            raise InvalidRequest("a leader that has recovered does not go back")
