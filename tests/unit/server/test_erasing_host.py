"""What a broker does for the erasures of another one: who is served, and what is refused."""

from typing import Any, cast

import pytest

from ledgerstone.config.broker import Listener
from ledgerstone.erasure.host_messages import WorkKind, decoded, encoded
from ledgerstone.metadata.replay import UNFENCE
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.erasure_work import ErasureWorkRequest, ErasureWorkResponse
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from ledgerstone.server.erasing.host import answer
from ledgerstone.server.erasing.others import Links
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text
from tests.kit.in_process import InProcess
from tests.kit.roles import change_partition
from tests.unit.server.erasing_kit import KEY, TOPIC, ErasingMachine, machine_with

OTHER, EPOCH = 7, 70
JOURNAL = TopicPartition("__erasures", 0)


@pytest.fixture
def machine() -> ErasingMachine:
    """Broker 7 leads the journal in epoch 1; this one hosts everything else."""
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"Ulm"))
    machine.held_scans = []
    machine.erase(after_ms=1000)
    machine.broker.controller_link.write(
        [
            RegisterBrokerRecord(broker_id=OTHER, broker_epoch=EPOCH, incarnation_id=b"7" * 16),
            BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=EPOCH, fenced=UNFENCE),
        ]
    )
    change_partition(machine, JOURNAL, leader=OTHER, replicas=[1, OTHER], isr=[1, OTHER])
    return machine


def ask(machine: ErasingMachine, kind: int, content: Any = None, **fields: Any) -> Any:
    state = machine.broker.image.partition(*JOURNAL)
    assert state is not None
    known: dict[str, Any] = {
        "cluster_id": machine.broker.log_dir.meta.cluster_id,
        "broker_id": OTHER,
        "broker_epoch": EPOCH,
        "journal_epoch": state.leader_epoch,
        "kind": kind,
        "content": encoded({} if content is None else content),
    }
    response = answer(machine.broker.erasing, ErasureWorkRequest(**{**known, **fields}))
    assert isinstance(response, ErasureWorkResponse)
    return response


def topic_id(machine: ErasingMachine) -> str:
    return uuid_to_text(machine.broker.image.topics[TOPIC].topic_id)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"broker_id": 8}, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_epoch": EPOCH - 1}, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
@pytest.mark.parametrize("kind", [WorkKind.FACTS, WorkKind.ASK, WorkKind.START, WorkKind.RESULT])
def test_only_brokers_of_this_cluster_are_served(
    machine: ErasingMachine, kind: WorkKind, fields: dict[str, Any], code: int
) -> None:
    refused = ask(machine, kind, {"questions": []}, **fields)

    assert refused.error_code == code
    assert refused.content == b""


def test_only_the_leader_of_the_journal_changes_anything(machine: ErasingMachine) -> None:
    wanted = {"topic": TOPIC, "topic_id": topic_id(machine), "partition": 0}
    write = {"what": "write", "writes": []}

    old = ask(machine, WorkKind.ASK, wanted, journal_epoch=0)
    old_write = ask(machine, WorkKind.START, write, journal_epoch=0)
    taken = ask(machine, WorkKind.ASK, wanted)

    assert old.error_code == ErrorCode.NOT_COORDINATOR
    assert "does not lead the journal" in old_write.error_message
    assert taken.error_code == 0
    assert TopicPartition(TOPIC, 0) in machine.broker.erasing.asked


def test_partition_of_another_topic_id_is_not_spoken_of(machine: ErasingMachine) -> None:
    questions = [[TOPIC, each, 0, 0, "tombstoned", 0] for each in (topic_id(machine), "x" * 22)]

    told = decoded(ask(machine, WorkKind.FACTS, {"questions": questions}).content)["words"]

    assert told[0] is not None
    assert told[1] is None


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (99, {}),
        (WorkKind.FACTS, {}),
        (WorkKind.FACTS, {"questions": [["t", "x", 0, 0, "no stage", 0]]}),
        (WorkKind.GROUPS, {"topics": 3}),
        (WorkKind.GROUPS, {"topics": ["t"] * 101}),
        (WorkKind.GONE, {"topics": [3]}),
        (WorkKind.ASK, {"topic": TOPIC, "topic_id": "x", "partition": 0}),
        (WorkKind.ABORT, {"producer_id": "1"}),
        (WorkKind.START, {}),
        (WorkKind.START, {"what": "search", "keys": {}}),
        (WorkKind.START, {"what": "scan", "orders": []}),
        (WorkKind.RESULT, {}),
    ],
)
def test_nonsense_is_refused(machine: ErasingMachine, kind: int, content: Any) -> None:
    if kind == WorkKind.FACTS and content:
        content["questions"][0][:2] = [TOPIC, topic_id(machine)]

    assert ask(machine, kind, content).error_code == ErrorCode.INVALID_REQUEST


def test_answer_says_which_life_of_the_broker_gave_it(machine: ErasingMachine) -> None:
    own = machine.broker.image.brokers[1]

    told = ask(machine, WorkKind.GROUPS, {"topics": [TOPIC]})

    assert (told.broker_id, told.broker_epoch) == (1, own.broker_epoch)
    assert told.incarnation_id == own.incarnation_id
    assert decoded(told.content) == {"loaded": [], "topics": {TOPIC: [[], 0]}}


def test_broker_of_a_cluster_that_knows_of_no_journal_does_not_say_what_is_not_in_it() -> None:
    machine = machine_with(partitions=1)
    page = machine.page("GET", "erasures/ER-0123456789ABCDEF")
    assert page.status == 404, "a node of its own knows"

    machine.broker.erasing.others.links = cast(Links, object())

    page = machine.page("GET", "erasures/ER-0123456789ABCDEF")
    assert (page.status, "has not heard of any journal" in page.body) == (503, True)


def test_work_is_not_served_where_clients_are() -> None:
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "CLIENTS://h:9092,BROKERS://h:9093,CONTROLLER://h:9094",
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("CLIENTS", "BROKERS", "CONTROLLER")
        ),
        "inter.broker.listener.name": "BROKERS",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@h:9094",
    }
    advertised = (Listener("CLIENTS", "h", 9092), Listener("BROKERS", "h", 9093))
    machine = InProcess(settings=settings, advertised=advertised)
    codes = [
        machine.connect(listener=listener)
        .ask(ErasureWorkRequest(cluster_id="x", kind=WorkKind.SECRETS), ErasureWorkResponse)
        .error_code
        for listener in ("CLIENTS", "BROKERS")
    ]

    assert codes == [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
    ]


def test_a_single_node_does_nothing_for_who_says_it_is_a_broker(machine: ErasingMachine) -> None:
    """What a client needs for it, Metadata and DescribeCluster tell everybody."""
    asker = {"kind": "User", "name": "root", "host": "", "may_everything": True}
    call = {"method": "GET", "path": "erasures", "query": {}, "body": "", "asker": asker}
    cluster_id = machine.broker.log_dir.meta.cluster_id
    assert cluster_id is not None
    request = ErasureWorkRequest(
        cluster_id=cluster_id,
        broker_id=OTHER,
        broker_epoch=EPOCH,
        kind=WorkKind.API,
        content=encoded(call),
    )

    answered = machine.connect().ask(request, ErasureWorkResponse)

    assert answered.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert bytes(answered.content) == b""
