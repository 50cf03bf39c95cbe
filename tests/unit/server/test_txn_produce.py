"""Produce inside transactions: the coordinator is asked before the first batch is written."""

import pytest

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.replication.partition import Partition
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import batch
from tests.kit.roles import fetched_by, led_by
from tests.unit.server.asks import TOPIC, create_topic, end_offset, write
from tests.unit.server.txn_asks import (
    PRODUCER,
    TXN_ID,
    V1,
    V2,
    ScriptedCoordinator,
    codes,
    end_txn,
    produce_in_txn,
    txn_batch,
    txn_produce,
)

TP = TopicPartition(TOPIC, 0)
OTHER = TopicPartition(TOPIC, 1)


@pytest.fixture(autouse=True)
def coordinator(machine: InProcess, client: Client) -> ScriptedCoordinator:
    create_topic(client, partitions=3)
    return replace_coordinator(machine)


def replace_coordinator(machine: InProcess) -> ScriptedCoordinator:
    machine.broker.verification.coordinator = coordinator = ScriptedCoordinator()
    return coordinator


def partition_of(machine: InProcess, topic_partition: TopicPartition = TP) -> Partition:
    return machine.broker.partitions.get(topic_partition)


# -- what is asked, and when ------------------------------------------------------------------


@pytest.mark.parametrize(("version", "verifies"), [(9, True), (V1, True), (V2, False)])
def test_first_batch_is_verified_and_from_version_12_on_the_partition_is_added(
    client: Client, coordinator: ScriptedCoordinator, version: int, verifies: bool
) -> None:
    assert produce_in_txn(client, txn_batch(), version) == {0: 0}

    (request,) = coordinator.asked
    (asked,) = request.transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (
        TXN_ID,
        PRODUCER,
        0,
    )
    assert asked.verify_only is verifies
    assert coordinator.partitions_asked() == [[TP]]


def test_later_batches_of_the_transaction_are_not_asked_about(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    produce_in_txn(client, txn_batch(0))

    assert produce_in_txn(client, txn_batch(1)) == {0: 0}
    assert produce_in_txn(client, {0: txn_batch(2), 1: txn_batch(0)}) == {0: 0, 1: 0}

    assert coordinator.partitions_asked() == [[TP], [OTHER]]


def test_next_transaction_is_asked_about_again(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    produce_in_txn(client, txn_batch(0))
    assert end_txn(client) == 0

    assert produce_in_txn(client, txn_batch(1)) == {0: 0}

    assert coordinator.partitions_asked() == [[TP], [TP]]


def test_batch_outside_of_transactions_asks_nobody(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    write(client, "value")
    data = [ProducePartitionData(index=n, records=batch(("k", "v"))) for n in (0, 1)]
    request = ProduceRequest(
        transactional_id=TXN_ID, acks=1, topic_data=[ProduceTopicData(TOPIC, partition_data=data)]
    )

    assert codes(client.ask(request, ProduceResponse)) == {0: 0, 1: 0}

    assert coordinator.asked == []


def test_verification_can_be_turned_off_but_adding_cannot() -> None:
    machine = InProcess(settings={"transaction.partition.verification.enable": "false"})
    client = machine.connect()
    create_topic(client)
    coordinator = replace_coordinator(machine)

    assert produce_in_txn(client, txn_batch(0), V1) == {0: 0}
    assert coordinator.asked == []
    assert end_txn(client) == 0
    assert produce_in_txn(client, txn_batch(0, epoch=1), V2) == {0: 0}
    assert len(coordinator.asked) == 1


# -- what the coordinator may say -------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.NETWORK_EXCEPTION, V1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, V1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, V2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, V1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, V1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, V2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, V1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, V2, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, V1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.INVALID_TXN_STATE, V2, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_refusal_is_told_as_the_client_knows_it(
    client: Client, coordinator: ScriptedCoordinator, said: int, version: int, told: int
) -> None:
    coordinator.script = [said]

    response = client.ask(txn_produce(txn_batch()), ProduceResponse, version)

    (answer,) = response.responses[0].partition_responses
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (told, -1, -1)
    assert end_offset(client.machine) == 0


def test_coordinator_that_does_not_know_this_broker_makes_an_invalid_state(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    assert produce_in_txn(client, txn_batch(), V1) == {0: ErrorCode.INVALID_TXN_STATE}


def test_refused_partitions_are_told_and_the_others_appended(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script = [{OTHER: ErrorCode.TRANSACTION_ABORTABLE}]

    found = produce_in_txn(client, {0: txn_batch(), 1: txn_batch(), 7: txn_batch()}, V1)

    assert found == {
        0: 0,
        1: ErrorCode.TRANSACTION_ABORTABLE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (end_offset(client.machine), end_offset(client.machine, partition=1)) == (1, 0)


def test_newer_client_is_asked_for_again_while_the_last_transaction_ends(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.script = [busy, busy, 0]
    client.send(txn_produce(txn_batch()), V2)
    assert len(coordinator.asked) == 1

    machine.advance(20)
    assert not client.answers
    machine.advance(20)

    assert codes(client.take(ProduceResponse)) == {0: 0}
    assert len(coordinator.asked) == 3


def test_newer_client_has_to_wait_itself_after_a_tenth_of_a_second(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script = [ErrorCode.CONCURRENT_TRANSACTIONS]
    client.send(txn_produce(txn_batch()), V2)

    for _ in range(4):
        machine.advance(20)
        assert not client.answers
    machine.advance(20)

    assert codes(client.take(ProduceResponse)) == {0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert len(coordinator.asked) == 6


# -- late answers and guards ------------------------------------------------------------------


def test_answer_in_a_later_turn_appends_what_the_request_held(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.is_late = True
    client.send(txn_produce({0: txn_batch(), 1: txn_batch()}), V1)
    other = machine.connect()
    write(other, *("x" * 500 for _ in range(5)), partition=2)  # the memory of the request is reused
    assert not client.answers

    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    assert codes(client.take(ProduceResponse)) == {0: 0, 1: 0}


def test_marker_between_question_and_answer_voids_the_answer(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.is_late = True
    client.send(txn_produce(txn_batch()), V1)

    assert end_txn(machine.connect(), commit=False) == 0
    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    assert codes(client.take(ProduceResponse)) == {0: ErrorCode.INVALID_TXN_STATE}
    assert partition_of(machine).log.last_stable_offset == end_offset(client.machine) == 1


def test_old_answer_does_not_let_in_a_batch_after_another_question(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    """Asked, aborted, asked again by a client that retries: the first answer is of the first."""
    coordinator.is_late = True
    client.send(txn_produce(txn_batch()), V1)
    assert end_txn(machine.connect(), commit=False) == 0
    second = machine.connect()
    second.send(txn_produce(txn_batch()), V1)

    coordinator.waiting.pop(0)()
    machine.perform(machine.broker.changed_from_outside())
    assert codes(client.take(ProduceResponse)) == {0: ErrorCode.INVALID_TXN_STATE}
    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    assert codes(second.take(ProduceResponse)) == {0: 0}


def test_marker_of_version_2_leaves_the_question_of_the_next_transaction(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    produce_in_txn(client, txn_batch(), V2)
    coordinator.is_late = True
    client.send(txn_produce(txn_batch(epoch=1)), V2)

    assert end_txn(machine.connect(), epoch=1, version=2) == 0
    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    assert codes(client.take(ProduceResponse)) == {0: 0}


def test_client_that_hung_up_leaves_nothing_behind(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.is_late = True
    client.send(txn_produce(txn_batch()), V1)
    client.leave()

    coordinator.answer_all()

    assert end_offset(machine) == 0


def test_replicas_are_waited_for_after_the_coordinator(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    partition = partition_of(machine)
    partition.assume(led_by(1, 1, (1, 2)))
    coordinator.is_late = True
    client.send(txn_produce(txn_batch()), V1)

    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())
    assert not client.answers
    fetched_by(machine, partition, 2)

    assert codes(client.take(ProduceResponse)) == {0: 0}


@pytest.mark.parametrize("is_late", [False, True])
def test_without_acks_a_refusal_closes_the_connection(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator, is_late: bool
) -> None:
    coordinator.script = [ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.is_late = is_late

    client.send(txn_produce(txn_batch(), acks=0), V1, expects_answer=False)
    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())

    assert client.closed is not None


def test_without_acks_a_late_answer_serves_the_next_request(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.is_late = True
    client.send(txn_produce(txn_batch(), acks=0), V1, expects_answer=False)
    client.send(txn_produce(txn_batch(1)), V1)

    coordinator.answer_all()
    machine.perform(machine.broker.changed_from_outside())
    machine.serve_backlog()

    assert codes(client.take(ProduceResponse)) == {0: 0}
    assert end_offset(client.machine) == 2


# -- sequences and epochs ---------------------------------------------------------------------


def test_later_batch_waits_until_the_first_one_is_verified(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    coordinator.script = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0]
    assert produce_in_txn(client, txn_batch(0)) == {0: ErrorCode.NOT_ENOUGH_REPLICAS}

    assert produce_in_txn(client, txn_batch(1)) == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert produce_in_txn(client, txn_batch(0)) == {0: 0}
    assert produce_in_txn(client, txn_batch(1)) == {0: 0}


@pytest.mark.parametrize(
    ("version", "told"), [(V1, 0), (V2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)]
)
def test_unknown_producer_may_begin_anywhere_only_in_version_1(
    client: Client, version: int, told: int
) -> None:
    assert produce_in_txn(client, txn_batch(3), version) == {0: told}


def test_producer_of_an_older_epoch_is_refused_before_the_coordinator_is_asked(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    produce_in_txn(client, txn_batch(epoch=1))

    assert produce_in_txn(client, txn_batch(epoch=0)) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}

    assert len(coordinator.asked) == 1


def test_batch_behind_the_end_of_its_transaction_is_refused_in_version_2(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    produce_in_txn(client, txn_batch(0), V2)
    assert end_txn(client, epoch=1, version=2) == 0

    assert produce_in_txn(client, txn_batch(1), V2) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_repeated_batch_of_a_finished_transaction_is_answered_as_before(
    client: Client, coordinator: ScriptedCoordinator
) -> None:
    produce_in_txn(client, txn_batch(0))
    assert end_txn(client) == 0
    coordinator.script = [0]

    response = client.ask(txn_produce(txn_batch(0)), ProduceResponse, V1)

    (answer,) = response.responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (0, 0)


# -- requests that cannot be right ------------------------------------------------------------


@pytest.mark.parametrize("version", [3, V1, V2])
def test_transactional_batch_without_a_transactional_id_is_not_authorised(
    client: Client, coordinator: ScriptedCoordinator, version: int
) -> None:
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    batches = {0: txn_batch(), 1: batch(("k", "v"))}

    assert produce_in_txn(client, txn_batch(), version, transactional_id=None) == {0: denied}
    assert produce_in_txn(client, batches, version, transactional_id=None) == {0: denied, 1: denied}

    assert coordinator.asked == []
    assert end_offset(client.machine, partition=1) == 0


@pytest.mark.parametrize("second", [{"producer_id": PRODUCER + 1}, {"epoch": 1}])
def test_two_producers_in_one_request_are_refused(client: Client, second: dict[str, int]) -> None:
    refused = ErrorCode.INVALID_PRODUCER_ID_MAPPING

    found = produce_in_txn(client, {0: txn_batch(), 1: txn_batch(**second)})

    assert found == {0: refused, 1: refused}
    assert end_offset(client.machine) == 0


def test_topic_ids_name_topics_from_version_13_on(
    machine: InProcess, client: Client, coordinator: ScriptedCoordinator
) -> None:
    topic_id = machine.broker.image.topics[TOPIC].topic_id
    data = [ProducePartitionData(index=n, records=txn_batch()) for n in (0, 1)]
    unknown = ProduceTopicData(topic_id=bytes(range(16)), partition_data=[data[0]])
    known = ProduceTopicData(topic_id=topic_id, partition_data=data)
    request = ProduceRequest(
        transactional_id=TXN_ID, acks=-1, timeout_ms=1000, topic_data=[unknown, known]
    )

    response = client.ask(request, ProduceResponse, 13)

    assert [topic.topic_id for topic in response.responses] == [unknown.topic_id, topic_id]
    refused, accepted = response.responses
    assert refused.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert [each.error_code for each in accepted.partition_responses] == [0, 0]
    assert coordinator.partitions_asked() == [[TP, OTHER]]
