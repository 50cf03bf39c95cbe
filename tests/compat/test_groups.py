"""Consumer groups with real members, which join, leave, die, return, commit and resume."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from kafka.errors import FencedInstanceIdError, InvalidSessionTimeoutError

from tests.compat.clients import Confluent, Record, kcat
from tests.compat.confluent_admin import AdminClient, NewPartitions
from tests.compat.conftest import CreateTopic, NewName
from tests.compat.members import (
    MEMBERS,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    read_until,
    wait_for_assignment,
)
from tests.kit import kafka_python
from tests.kit.broker import BrokerProcess, wait_until

ROOT = Path(__file__).parents[2]
WAIT_S = 20
PARTITIONS = 4
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69

Join = Callable[..., Member]


@pytest.fixture(params=MEMBERS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> type[Member]:
    member: type[Member] = request.param
    return member


@pytest.fixture
def group(new_name: NewName) -> str:
    return new_name("group")


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def join(broker: BrokerProcess, group: str, topic: str) -> Iterator[Join]:
    """Members of the test's group that are asked to leave when it is over."""
    members: list[Member] = []

    def new_member(kind: type[Member], instance_id: str | None = None) -> Member:
        member = kind(broker.bootstrap, group, topic, instance_id)
        members.append(member)
        return member

    yield new_member
    for member in members:
        try:
            member.leave()
        except Exception:  # noqa: BLE001 - Some have left or were fenced; the test has its verdict.
            continue


def write(broker: BrokerProcess, topic: str, count: int) -> None:
    """To partition 0, where every reader finds them in order."""
    Confluent(broker.bootstrap).produce(topic, [Record(b"%d" % i) for i in range(count)])


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    request = ConsumerGroupTopicPartitions(group)
    answer = admin.list_consumer_group_offsets([request])[group].result(WAIT_S)
    return {each.partition: each.offset for each in answer.topic_partitions}


def state_of(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group])[group].result(WAIT_S)


def test_member_that_joins_gets_a_share_and_gives_it_back_when_it_leaves(
    kind: type[Member], join: Join
) -> None:
    first = join(kind)
    wait_for_assignment([first], PARTITIONS)

    second = join(kind)
    wait_for_assignment([first, second], PARTITIONS)
    shares = len(first.assigned()), len(second.assigned())
    second.leave()
    wait_for_assignment([first], PARTITIONS)

    assert shares == (2, 2)


def test_share_of_a_member_that_was_killed_goes_to_the_others(
    broker: BrokerProcess, group: str, topic: str, kind: type[Member], join: Join
) -> None:
    survivor = join(kind)
    search = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    command = [sys.executable, "-W", "ignore", "-m", "tests.compat.members"]
    victim = subprocess.Popen(
        [*command, kind.name, broker.bootstrap, group, topic],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": search},
    )
    with victim:
        assert victim.stdout is not None
        os.set_blocking(victim.stdout.fileno(), False)
        said: list[list[int]] = []

        def shared() -> bool:
            survivor.poll()
            said.extend(json.loads(line) for line in iter(victim.stdout.readline, b""))  # type: ignore[union-attr]
            return len(survivor.assigned()) == 2 and bool(said) and len(said[-1]) == 2

        wait_until(shared, "both have their share")
        victim.kill()

    wait_for_assignment([survivor], PARTITIONS)


def test_next_member_goes_on_where_the_last_one_committed(
    broker: BrokerProcess, topic: str, kind: type[Member], join: Join
) -> None:
    write(broker, topic, 10)
    first = join(kind)
    read = read_until([first], 10)
    first.commit()
    first.leave()
    write(broker, topic, 5)

    second = join(kind)
    more = read_until([second], 5)

    assert [each.offset for each in read] == list(range(10))
    assert [each.offset for each in more] == list(range(10, 15))


def test_members_of_different_clients_share_one_group(
    broker: BrokerProcess, topic: str, join: Join
) -> None:
    # Both offer the range assignor, and the leader of either kind reads the other's subscription.
    members = [join(ConfluentMember), join(KafkaPythonMember)]

    wait_for_assignment(members, PARTITIONS)
    write(broker, topic, 6)
    got = read_until(members, 6)

    assert sorted(each.offset for each in got) == list(range(6))


def test_static_member_that_restarts_gets_its_share_back_without_a_rebalance(
    kind: type[Member], join: Join
) -> None:
    stays, restarts = join(kind, "a"), join(kind, "b")
    wait_for_assignment([stays, restarts], PARTITIONS)
    share, revocations = restarts.assigned(), stays.revocations

    restarts.leave()
    again = join(kind, "b")
    wait_for_assignment([stays, again], PARTITIONS)

    assert again.assigned() == share
    assert stays.revocations == revocations


def test_static_member_with_the_name_of_another_fences_it(join: Join) -> None:
    old = join(ConfluentMember, "a")
    wait_for_assignment([old], PARTITIONS)

    new = join(ConfluentMember, "a")
    with pytest.raises(KafkaException) as refusal:
        wait_until(lambda: old.poll() and new.poll() and False, "the old one is fenced")

    assert "fenced by other consumer" in refusal.value.args[0].str()
    wait_for_assignment([new], PARTITIONS)


def test_fenced_kafka_python_member_cannot_commit(
    broker: BrokerProcess, topic: str, join: Join
) -> None:
    write(broker, topic, 3)
    old = join(KafkaPythonMember, "a")
    read_until([old], 3)

    new = join(KafkaPythonMember, "a")
    wait_for_assignment([new], PARTITIONS)

    with pytest.raises(FencedInstanceIdError):
        old.commit()


def test_group_nobody_knows_has_no_offsets_and_no_error(
    broker: BrokerProcess, topic: str, new_name: NewName
) -> None:
    with kafka_python.consumer(broker.bootstrap, group_id=new_name("group")) as consumer:
        with_python = consumer.committed(kafka.TopicPartition(topic, 0))
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": new_name("group")})
    try:
        [with_confluent] = other.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
    finally:
        other.close()

    assert with_python is None
    assert with_confluent.error is None
    assert with_confluent.offset == -1001


def test_session_shorter_than_the_minimum_is_refused(
    broker: BrokerProcess, group: str, topic: str
) -> None:
    short = {"session_timeout_ms": 500, "heartbeat_interval_ms": 100}

    with (
        kafka_python.consumer(broker.bootstrap, topic, group_id=group, **short) as consumer,
        pytest.raises(InvalidSessionTimeoutError),
    ):
        consumer.poll(timeout_ms=20_000)


def test_offsets_are_committed_by_a_reader_that_never_joined(
    broker: BrokerProcess, admin: AdminClient, group: str, topic: str
) -> None:
    write(broker, topic, 5)
    partition = kafka.TopicPartition(topic, 0)

    with kafka_python.consumer(
        broker.bootstrap, group_id=group, enable_auto_commit=False
    ) as consumer:
        consumer.assign([partition])
        consumer.commit({partition: kafka.OffsetAndMetadata(3, "by hand", -1)})
        metadata = consumer.committed(partition, metadata=True)

    assert committed(admin, group) == {0: 3}
    assert (metadata.offset, metadata.metadata) == (3, "by hand")


def test_group_is_listed_described_and_deleted_once_it_is_empty(
    admin: AdminClient, group: str, join: Join, broker: BrokerProcess, topic: str
) -> None:
    write(broker, topic, 3)
    member = join(ConfluentMember)
    read_until([member], 3)
    member.commit()

    listed = {each.group_id for each in admin.list_consumer_groups().result(WAIT_S).valid}
    stable = state_of(admin, group)
    with pytest.raises(KafkaException) as refusal:
        admin.delete_consumer_groups([group])[group].result(WAIT_S)
    member.leave()
    empty = state_of(admin, group)
    admin.delete_consumer_groups([group])[group].result(WAIT_S)
    with pytest.raises(KafkaException) as absence:
        admin.delete_consumer_groups([group])[group].result(WAIT_S)

    assert group in listed
    assert stable.state == ConsumerGroupState.STABLE
    [described] = stable.members
    assert sorted(each.partition for each in described.assignment.topic_partitions) == [0, 1, 2, 3]
    assert refusal.value.args[0].code() == NON_EMPTY_GROUP
    assert empty.state == ConsumerGroupState.EMPTY
    assert absence.value.args[0].code() == GROUP_ID_NOT_FOUND


def test_offsets_of_an_empty_group_are_altered_and_deleted(
    broker: BrokerProcess, admin: AdminClient, group: str, topic: str
) -> None:
    wanted = [TopicPartition(topic, number, 10 + number) for number in range(PARTITIONS)]
    request = ConsumerGroupTopicPartitions(group, wanted)
    admin.alter_consumer_group_offsets([request])[group].result(WAIT_S)
    altered = committed(admin, group)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        client.delete_group_offsets(group, [kafka.TopicPartition(topic, 2)])

    assert altered == {0: 10, 1: 11, 2: 12, 3: 13}
    assert committed(admin, group) == {0: 10, 1: 11, 3: 13}


def test_member_is_removed_by_an_operator(
    broker: BrokerProcess, admin: AdminClient, group: str, join: Join
) -> None:
    member = join(KafkaPythonMember, "a")
    wait_for_assignment([member], PARTITIONS)

    with kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap) as client:
        described = client.describe_groups([group])[group]["members"]
        client.remove_group_members(group, [kafka.admin.MemberToRemove(group_instance_id="a")])

    assert [each["group_instance_id"] for each in described] == ["a"]
    assert state_of(admin, group).members == []


def test_new_partition_reaches_the_members(admin: AdminClient, topic: str, join: Join) -> None:
    member = join(ConfluentMember)
    wait_for_assignment([member], PARTITIONS)

    admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(WAIT_S)

    wait_for_assignment([member], PARTITIONS + 2)


@pytest.mark.usefixtures("needs_kcat")
def test_kcat_reads_as_a_group_and_goes_on_where_it_stopped(
    broker: BrokerProcess, group: str, topic: str
) -> None:
    server = ("-b", broker.bootstrap, "-X", "auto.offset.reset=earliest", "-q", "-f", "%o\n")

    write(broker, topic, 5)
    first = kcat(*server, "-c", "5", "-G", group, topic)
    write(broker, topic, 5)
    second = kcat(*server, "-c", "5", "-G", group, topic)

    assert first.split() == [b"%d" % i for i in range(5)]
    assert second.split() == [b"%d" % i for i in range(5, 10)]
