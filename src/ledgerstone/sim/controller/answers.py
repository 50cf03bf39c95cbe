"""What a caller was answered is true: committed, and of this request. Part of sim."""

from typing import NamedTuple

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
)
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.sim.controller.truth import Truth
from ledgerstone.sim.world import Violation, World

_OK = ErrorCode.NONE


class Ticket(NamedTuple):
    """A request that reached an active controller, and how far the truth was then."""

    number: int
    epoch: int
    request: ApiMessage
    version: int


class AnswerBook:
    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._truth = truth
        self._open = 0
        self._serial = 0
        self._closed: set[int] = set()
        self._blocks: list[range] = []
        self.success_count = 0

    def asked(self, epoch: int, request: ApiMessage) -> Ticket:
        self._serial += 1
        return Ticket(self._serial, epoch, request, self._truth.version)

    def answered(self, ticket: Ticket, answer: ApiMessage) -> None:
        if ticket.number in self._closed:
            raise Violation("AnsweredOnce", f"{ticket.request.name} is answered twice")
        self._closed.add(ticket.number)
        request = ticket.request
        match answer:
            case CreateTopicsResponse():
                assert isinstance(request, CreateTopicsRequest)
                self._created(ticket, answer)
            case DeleteTopicsResponse():
                assert isinstance(request, DeleteTopicsRequest)
                self._deleted(ticket, answer)
            case CreatePartitionsResponse():
                assert isinstance(request, CreatePartitionsRequest)
                self._grown(request, answer)
            case IncrementalAlterConfigsResponse():
                assert isinstance(request, IncrementalAlterConfigsRequest)
                self._configured(ticket, request, answer)
            case AllocateProducerIdsResponse():
                self._allocated(answer)
            case BrokerRegistrationResponse():
                assert isinstance(request, BrokerRegistrationRequest)
                self._registered(request, answer)
            case BrokerHeartbeatResponse():
                assert isinstance(request, BrokerHeartbeatRequest)
                self._beaten(request, answer)
            case AlterPartitionResponse():
                assert isinstance(request, AlterPartitionRequest)
                self._altered(request, answer)

    # -- topics -------------------------------------------------------------------------------

    def _created(self, ticket: Ticket, answer: CreateTopicsResponse) -> None:
        for each in answer.topics:
            held = self._truth.held_since(each.name, ticket.version)
            if each.error_code == _OK:
                self.success_count += 1
                if each.topic_id not in self._truth.ids:
                    raise Violation("AnswersAreCommitted", f"{each.name} is made, says the answer")
                if each.topic_id not in held[1:]:
                    raise Violation(
                        "AnswersAreCommitted", f"{each.name} was made before it was asked for"
                    )
            elif each.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                if all(topic_id is None for topic_id in held):
                    raise Violation("AnswersAreCommitted", f"{each.name} never existed")
                self._world.mark("a topic existed already")

    def _deleted(self, ticket: Ticket, answer: DeleteTopicsResponse) -> None:
        for each in answer.responses:
            if each.error_code == _OK:
                self.success_count += 1
                if each.topic_id not in self._truth.removed:
                    raise Violation("AnswersAreCommitted", f"{each.name} is not removed")
            elif each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or each.name is None:
                continue
            elif None not in self._truth.held_since(each.name, ticket.version):
                raise Violation("AnswersAreCommitted", f"{each.name} existed all the time")

    def _grown(self, request: CreatePartitionsRequest, answer: CreatePartitionsResponse) -> None:
        wanted = {each.name: each.count for each in request.topics}
        for each in answer.results:
            if each.error_code != _OK:
                continue
            self.success_count += 1
            held = [topic_id for _, topic_id in self._truth.names.get(each.name, ())]
            most = max(
                (sum(key[0] == topic_id for key in self._truth.states) for topic_id in held),
                default=0,
            )
            if most < wanted[each.name]:
                raise Violation("AnswersAreCommitted", f"{each.name} has {most} partitions")

    def _configured(
        self,
        ticket: Ticket,
        request: IncrementalAlterConfigsRequest,
        answer: IncrementalAlterConfigsResponse,
    ) -> None:
        wanted = {each.resource_name: each.configs for each in request.resources}
        for each in answer.responses:
            if each.error_code != _OK:
                continue
            self.success_count += 1
            for config in wanted[each.resource_name]:
                values = self._truth.settings_since(each.resource_name, config.name, ticket.version)
                if config.value not in values:
                    raise Violation(
                        "AnswersAreCommitted", f"{each.resource_name} {config.name}: {values}"
                    )

    # -- brokers ------------------------------------------------------------------------------

    def _allocated(self, answer: AllocateProducerIdsResponse) -> None:
        if answer.error_code != _OK:
            return
        self.success_count += 1
        start = answer.producer_id_start
        block = range(start, start + answer.producer_id_len)
        if block.stop > self._truth.next_producer_id:
            raise Violation("AnswersAreCommitted", f"{block} was not given out")
        for other in self._blocks:
            if block.start < other.stop and other.start < block.stop:
                raise Violation("ProducerIdsOnce", f"{block} and {other}")
        self._blocks.append(block)

    def _registered(
        self, request: BrokerRegistrationRequest, answer: BrokerRegistrationResponse
    ) -> None:
        if answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._world.mark("another incarnation had to wait")
        if answer.error_code != _OK:
            return
        fact = self._truth.registered.get(request.broker_id)
        if fact is None or fact[0] < answer.broker_epoch:
            raise Violation("AnswersAreCommitted", f"{request.broker_id} is {fact}, not {answer}")
        if fact[0] == answer.broker_epoch and fact[1] != request.incarnation_id:
            raise Violation("BrokerEpochs", f"{request.broker_id}: the epoch of another process")

    def _beaten(self, request: BrokerHeartbeatRequest, answer: BrokerHeartbeatResponse) -> None:
        if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
            self._world.mark("a heartbeat had an old epoch")
        if answer.error_code != _OK or not answer.should_shut_down:
            return
        fact = self._truth.brokers.get(request.broker_id)
        if fact is None or fact.epoch != request.broker_epoch:
            return
        if led := self._truth.led_by(request.broker_id):
            raise Violation("ReleasedLeadsNothing", f"{request.broker_id} leads {led}")
        if not fact.fenced:
            raise Violation("ReleasedLeadsNothing", f"{request.broker_id} is not fenced")
        self._world.mark("a broker was let go")

    # -- partitions ---------------------------------------------------------------------------

    def _altered(self, request: AlterPartitionRequest, answer: AlterPartitionResponse) -> None:
        if answer.error_code != _OK:
            self._mark(answer.error_code)
            return
        asked = {
            (topic.topic_id, each.partition_index): each
            for topic in request.topics
            for each in topic.partitions
        }
        for topic in answer.topics:
            for each in topic.partitions:
                key = (topic.topic_id, each.partition_index)
                if each.error_code == _OK:
                    wanted = [m.broker_id for m in asked[key].new_isr_with_epochs]
                    self._altered_one(key, each, wanted or asked[key].new_isr)
                else:
                    self._mark(each.error_code)

    def _altered_one(
        self, key: tuple[bytes, int], each: AlterPartitionResponsePartition, wanted: list[int]
    ) -> None:
        self.success_count += 1
        fact = self._truth.states.get(key, {}).get(each.partition_epoch)
        found = (each.leader_id, each.leader_epoch, tuple(each.isr))
        if fact is None or found != (fact.leader, fact.leader_epoch, fact.isr):
            raise Violation("AnswersAreCommitted", f"AlterPartition: {found}, truth is {fact}")
        if not set(fact.isr) <= set(wanted):
            raise Violation("AnswersAreCommitted", f"AlterPartition: {wanted} became {fact.isr}")

    def _mark(self, code: int) -> None:
        names = {
            ErrorCode.INVALID_UPDATE_VERSION: "AlterPartition was refused: 95",
            ErrorCode.INELIGIBLE_REPLICA: "AlterPartition was refused: 107",
            ErrorCode.NEW_LEADER_ELECTED: "AlterPartition was refused: 108",
            ErrorCode.FENCED_LEADER_EPOCH: "AlterPartition was refused: 74",
            ErrorCode.STALE_BROKER_EPOCH: "AlterPartition was refused: 77",
        }
        for known, name in names.items():
            if code == known:
                self._world.mark(name)
