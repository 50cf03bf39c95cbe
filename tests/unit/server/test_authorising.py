"""Rights while things happen: requests that wait, parts of requests, impostors, forwarded requests.

Which API asks for which right is the matter of tests/compat/test_authorization_matrix.py.
"""

import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ledgerstone.errors import ConfigError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsTopic,
)
from ledgerstone.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ledgerstone.protocol.messages.describe_groups import DescribeGroupsRequest
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ledgerstone.protocol.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.security.acl import Acl, AclFilter, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.principal import Principal
from ledgerstone.server.authorising import admin_rules, group_rules, metadata_rules, txn_rules
from ledgerstone.server.authorising.stage import authorised
from ledgerstone.server.authorising.table import CONTROLLER_RULES, RULES
from ledgerstone.server.dispatch import CONTROLLER_HANDLED, HANDLED
from tests.kit.in_process import Client, InProcess

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER

Login = Callable[[str], Client]


@pytest.fixture
def machine() -> InProcess:
    return InProcess(settings=SETTINGS)


@pytest.fixture
def login(machine: InProcess) -> Login:
    def connect(name: str) -> Client:
        client = machine.connect()
        session = machine.broker.peers.by_number[client.number].session
        session.principal = Principal("User", name)
        return client

    return connect


@pytest.fixture
def admin(login: Login) -> Client:
    admin = login("admin")
    topics = [CreateTopicsRequestTopic(name, 1, 1) for name in ("tea", "secret")]
    answer = admin.ask(CreateTopicsRequest(topics=topics), CreateTopicsResponse)
    assert [each.error_code for each in answer.topics] == [0, 0]
    return admin


def _allow(admin: Client, operation: int, name: str = "tea", kind: int = TOPIC) -> None:
    acl = Acl(kind, name, 3, "User:ann", "*", operation, 3)
    answer = admin.ask(CreateAclsRequest([CreateAclsCreation(*acl)]), CreateAclsResponse)
    assert answer.results[0].error_code == 0


def _take_all_back(admin: Client) -> None:
    wanted = DeleteAclsFilter(*AclFilter(principal="User:ann"))
    admin.ask(DeleteAclsRequest([wanted]), DeleteAclsResponse)


def _produce(*topics: str, acks: int = 1) -> ProduceRequest:
    records = build_batch([(0, b"k", b"v", ())])
    data = [ProducePartitionData(0, bytearray(records))]
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[ProduceTopicData(name, partition_data=data) for name in topics],
    )


def _fetch(*topics: str, max_wait_ms: int = 0, **fields: Any) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=fields.pop("offset", 0),
                          partition_max_bytes=1 << 20)  # fmt: skip
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=name, partitions=[part]) for name in topics],
        **fields,
    )


def _codes(answer: FetchResponse) -> dict[str, int]:
    return {topic.topic: each.error_code for topic in answer.responses for each in topic.partitions}


def _end(machine: InProcess, topic: str) -> int:
    return next(
        each.log.log_end_offset
        for each in machine.broker.partitions
        if each.topic_partition.topic == topic
    )


def test_every_handler_has_a_rule() -> None:
    assert set(HANDLED) <= set(RULES)
    assert set(CONTROLLER_HANDLED) <= set(CONTROLLER_RULES)
    with pytest.raises(KeyError, match="999"):
        authorised(Authorizer())(999, lambda *_: None)


def test_without_an_authorizer_handlers_are_called_themselves() -> None:
    machine = InProcess()

    assert machine.broker.authorizer is None
    assert machine.broker.peers.by_number == {}
    client = machine.connect()
    client.ask(MetadataRequest(topics=None), MetadataResponse)
    assert machine.broker.peers.by_number[client.number].session.rights is None


def test_other_authorizers_are_refused_at_start() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name"):
        InProcess(settings={"authorizer.class.name": "com.example.Mine"})
    with pytest.raises(ConfigError, match="User:admin"):
        InProcess(settings={**SETTINGS, "super.users": "admin"})


def test_topic_is_not_deleted_because_an_entry_that_is_refused_names_it_again(
    machine: InProcess, admin: Client, login: Login
) -> None:
    topics = [DeleteTopicsTopic("secret"), DeleteTopicsTopic("secret", bytes(15) + b"\1")]

    answer = login("ann").ask(DeleteTopicsRequest(topics=topics), DeleteTopicsResponse)

    assert "secret" in machine.broker.image.topics
    assert {each.error_code for each in answer.responses} == {DENIED, ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("times", [1, 2])
def test_settings_are_not_shown_because_their_owner_is_named_twice(
    admin: Client, login: Login, times: int
) -> None:
    _allow(admin, AclOperation.DESCRIBE_CONFIGS)
    topics = [DescribeConfigsResource(2, name) for name in ("secret", "tea")] * times
    brokers = [DescribeConfigsResource(4, "")] * times

    answer = login("ann").ask(
        DescribeConfigsRequest(resources=[*topics, *brokers]), DescribeConfigsResponse
    )

    codes = {each.resource_name: each.error_code for each in answer.results}
    assert codes == {"secret": DENIED, "tea": 0, "": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert len(answer.results) == 3
    assert all(bool(each.configs) == (each.resource_name == "tea") for each in answer.results)


def test_many_connections_of_a_stranger_remember_what_they_asked_once(
    machine: InProcess, admin: Client, login: Login
) -> None:
    names = [f"{number:04}{'x' * 240}" for number in range(2000)]
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=each) for each in names],
        allow_auto_topic_creation=False,
    )
    strangers = [login("stranger") for _ in range(3)]
    tracemalloc.start()

    sizes: list[int] = []
    for each in strangers:
        each.ask(asked, MetadataResponse)
        each.answers.clear()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()

    # Two connections more, and not another megabyte for each.
    assert sizes[-1] - sizes[0] < sizes[0]
    for each in strangers:
        each.leave()
    assert machine.broker.authorizer is not None
    assert not [who for who, _ in machine.broker.authorizer._rights if who.name == "stranger"]


def test_part_of_a_request_is_written_and_the_rest_refused(
    machine: InProcess, admin: Client, login: Login
) -> None:
    _allow(admin, WRITE)
    ann = login("ann")

    answer = ann.ask(_produce("secret", "tea", acks=-1), ProduceResponse)

    codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {"secret": DENIED, "tea": 0}
    assert (_end(machine, "secret"), _end(machine, "tea")) == (0, 1)


def test_refused_write_without_acks_closes_after_the_rest_was_written(
    machine: InProcess, admin: Client, login: Login
) -> None:
    _allow(admin, WRITE)
    ann = login("ann")

    ann.send(_produce("secret", "tea", acks=0), expects_answer=False)

    assert ann.closed is not None
    assert (_end(machine, "secret"), _end(machine, "tea")) == (0, 1)


def test_fetch_that_waits_is_checked_again_when_it_is_woken(admin: Client, login: Login) -> None:
    _allow(admin, READ)
    ann = login("ann")
    ann.send(_fetch("tea", max_wait_ms=10_000), version=12)
    assert ann.is_waiting

    _take_all_back(admin)
    admin.ask(_produce("tea"), ProduceResponse)

    assert _codes(ann.take(FetchResponse)) == {"tea": DENIED}


def test_session_of_fetches_loses_what_its_principal_may_no_longer_read(
    admin: Client, login: Login
) -> None:
    _allow(admin, READ)
    admin.ask(_produce("tea"), ProduceResponse)
    ann = login("ann")
    first = ann.ask(_fetch("tea", session_id=0, session_epoch=0), FetchResponse, version=12)
    assert _codes(first) == {"tea": 0}

    _take_all_back(admin)
    again = _fetch(session_id=first.session_id, session_epoch=1)
    answer = ann.ask(again, FetchResponse, version=12)

    assert _codes(answer) == {"tea": DENIED}


def test_impostor_of_a_replica_gets_nothing_and_changes_nothing(
    machine: InProcess, admin: Client, login: Login
) -> None:
    _allow(admin, READ)
    admin.ask(_produce("tea"), ProduceResponse)
    before = [(each.log.high_watermark, each.isr) for each in machine.broker.partitions]
    ann = login("ann")

    answer = ann.ask(_fetch("tea", replica_id=7, offset=1), FetchResponse, version=12)
    state = FetchReplicaState(replica_id=7, replica_epoch=1)
    by_state = ann.ask(_fetch(replica_state=state), FetchResponse, version=17)

    assert _codes(answer) == {"tea": DENIED}
    assert by_state.error_code == 0
    after = [(each.log.high_watermark, each.isr) for each in machine.broker.partitions]
    assert after == before


def test_principal_that_may_reach_as_a_broker_is_served_as_one(admin: Client, login: Login) -> None:
    _allow(admin, AclOperation.CLUSTER_ACTION, "kafka-cluster", CLUSTER)
    ann = login("ann")

    answer = ann.ask(_fetch("tea", replica_id=7), FetchResponse, version=12)

    # It is none of this partition's, which is another matter.
    assert _codes(answer) == {"tea": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_rights_follow_the_principal_of_a_session(
    machine: InProcess, admin: Client, login: Login
) -> None:
    _allow(admin, READ)
    client = login("nobody")
    denied = client.ask(_fetch("tea"), FetchResponse, version=12)
    machine.broker.peers.by_number[client.number].session.principal = Principal("User", "ann")

    allowed = client.ask(_fetch("tea"), FetchResponse, version=12)

    assert (_codes(denied), _codes(allowed)) == ({"tea": DENIED}, {"tea": 0})


def test_acls_hold_after_a_restart_and_a_loss_of_power(
    machine: InProcess, admin: Client, login: Login
) -> None:
    _allow(admin, READ)

    for restart in (machine.kill, machine.lose_power):
        restart()
        answer = login("ann").ask(_fetch("tea", "secret"), FetchResponse, version=12)
        assert _codes(answer) == {"tea": 0, "secret": DENIED}


def test_unknown_and_hidden_topics_look_the_same(admin: Client, login: Login) -> None:
    stranger = login("stranger")

    answers = [
        stranger.ask(_fetch(name), FetchResponse, version=12).responses[0].partitions[0]
        for name in ("secret", "no-such-topic")
    ]

    assert answers[0] == answers[1]
    assert answers[0].error_code == DENIED


@pytest.mark.usefixtures("admin")
def test_a_transactional_id_that_is_named_again_is_refused_again(login: Login) -> None:
    """As in Kafka."""
    request = DescribeTransactionsRequest(transactional_ids=["secret", "secret"])

    answer = login("ann").ask(request, DescribeTransactionsResponse)

    assert [(each.transactional_id, each.error_code) for each in answer.transaction_states] == [
        ("secret", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    ] * 2


class _Name(str):
    """Counts how often names are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


NAMES: list[str] = [_Name(f"name-{number}") for number in range(500)]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (txn_rules.describe_transactions, DescribeTransactionsRequest(transactional_ids=NAMES)),
        (
            txn_rules.add_partitions_to_txn,
            AddPartitionsToTxnRequest(
                v3_and_below_topics=[AddPartitionsToTxnTopic(name, [0]) for name in NAMES]
            ),
        ),
        (group_rules.describe_groups, DescribeGroupsRequest(groups=NAMES)),
        (group_rules.delete_groups, DeleteGroupsRequest(groups_names=NAMES)),
        (
            admin_rules.create_topics,
            CreateTopicsRequest(topics=[CreateTopicsRequestTopic(name, 1, 1) for name in NAMES]),
        ),
        (
            admin_rules.create_partitions,
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name, 2) for name in NAMES]),
        ),
        (
            metadata_rules.metadata,
            MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES]),
        ),
    ],
)
def test_work_for_names_that_are_refused_grows_with_their_number_alone(
    monkeypatch: pytest.MonkeyPatch, rule: Callable[[Any], object], message: ApiMessage
) -> None:
    """A request has room for a million names, and one thread serves everybody."""
    monkeypatch.setattr(metadata_rules, "to_create", lambda *asked: NAMES)
    monkeypatch.setattr(_Name, "compared", 0)
    call = SimpleNamespace(
        message=message,
        version=3,
        request=SimpleNamespace(api_version=3),
        broker=SimpleNamespace(image=None),
        may_on_transactions_of=lambda *asked: rule is txn_rules.add_partitions_to_txn,
        may_on_group=lambda *asked: False,
        may_on_topic=lambda operation, name: operation is AclOperation.DESCRIBE,
        sees_on_cluster=lambda *asked: False,
        pass_on=lambda *asked: None,
    )

    rule(call)

    assert _Name.compared <= 5 * len(NAMES)
