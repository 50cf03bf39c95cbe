"""Three nodes that log in to each other: SCRAM between brokers, PLAIN between controllers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Placed, Producer
from ledgerstone.client.security import client_security
from ledgerstone.client.session import SessionConfig
from ledgerstone.client.users import remove_user, scram_users, set_password
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import KafkaError
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from ledgerstone.security.scram_keys import ScramMechanism
from ledgerstone.server.formatting.plan import FormatOptions, plan_format
from ledgerstone.server.formatting.writing import write_format
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from tests.kit.loopback_cluster import LoopbackCluster

NODE = "SCRAM-SHA-512=[name=node,password=between-us]"


class Nodes(LoopbackCluster):
    """Formatted with the user that they are to each other."""

    def settings(self, node_id: int) -> dict[str, str]:
        return {
            **super().settings(node_id),
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
            "listener.name.plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM_MODULE} required username="node" password="between-us";'
            ),
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required username="voter" password="v" user_voter="v";'
            ),
            "connections.max.reauth.ms": "2000",
            "default.replication.factor": "3",
        }

    def _format(self, node_id: int) -> None:
        config = BrokerConfig.from_raw(self.settings(node_id))
        options = FormatOptions(cluster_id=self.cluster_id, scram_users=(NODE,))
        plan = plan_format(config, options, SystemDice())
        write_format(OsFilesystem(), SystemClock(), plan)

    def client(self, name: str = "node", password: str = "between-us") -> Client:
        security = client_security(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": name,
                "sasl.password": password,
            }
        )
        endpoints = [Endpoint("127.0.0.1", port) for port in self.client_ports.values()]
        return Client(endpoints, SessionConfig(security=security))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    directory: Path = tmp_path_factory.mktemp("nodes")
    with Nodes(directory) as nodes:
        nodes.start()
        yield nodes


def test_nodes_replicate_log_in_again_and_survive_one(nodes: Nodes) -> None:
    with nodes.client() as client:
        create_topic(client, NewTopic(name="t", partitions=1, replication_factor=3, configs={}))
        nodes.wait_for("the topic is in sync", lambda image: _in_sync(image, 3))
        (before,) = Producer(client).send([NewRecord("t", None, b"before")])
        nodes.wait_for("followers log in again", lambda image: _renewals(nodes) >= 6)
        nodes.kill(nodes.active())
        nodes.wait_for("one is missed", lambda image: _in_sync(image, 2))
        (after,) = Producer(client).send([NewRecord("t", None, b"after")])

    assert isinstance(before, Placed)
    assert isinstance(after, Placed)
    assert after.offset == before.offset + 1
    principals = [each for node in nodes.nodes for each in _principals(nodes, node)]
    assert set(principals) == {"User:node", "User:voter"}


def test_user_is_made_by_any_broker_logs_in_anywhere_and_is_gone_after(nodes: Nodes) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    with nodes.client() as admin:
        set_password(admin, "alice", "wonderland", mechanism, 4096)
        with nodes.client("alice", "wonderland") as alice:
            found = scram_users(alice, "alice")
        remove_user(admin, "alice", mechanism)
        left = [user.name for user in scram_users(admin)]

    assert found[0].mechanisms == {mechanism: 4096}
    assert left == ["node"]
    with nodes.client("alice", "wonderland") as alice, pytest.raises(KafkaError) as refused:
        scram_users(alice)
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def _renewals(nodes: Nodes) -> int:
    kind = "successful_reauthentication"
    return sum(
        nodes.on(
            each,
            lambda broker: sum(
                count for (what, _), count in broker.counters.logins.items() if what == kind
            ),
        )
        for each in nodes.nodes
    )


def _in_sync(image: MetadataImage, count: int) -> bool:
    topic = image.topics.get("t")
    return topic is not None and len(topic.partitions[0].isr) == count


def _principals(nodes: Nodes, node_id: int) -> list[str]:
    return nodes.on(
        node_id,
        lambda broker: [
            str(each.session.principal)
            for each in broker.peers.by_number.values()
            if each.session.login.name == "COMPLETE"
        ],
    )
