"""Three nodes that speak TLS to each other and to clients, and know each other by certificates."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.producer import NewRecord, Placed, Producer
from ledgerstone.client.security import client_security
from ledgerstone.client.session import SessionConfig
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.metadata.image import MetadataImage
from tests.kit.broker import wait_until
from tests.kit.certificates import Authority
from tests.kit.loopback_cluster import LoopbackCluster

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="pw" user_node="pw";'
)


class Nodes(LoopbackCluster):
    """Each has a certificate of its own."""

    def __init__(self, work: Path, protocol: SecurityProtocol) -> None:
        self.protocol = protocol
        self.authority = Authority()
        self.ca = self.authority.write(work / "ca.pem")
        self.keys = {
            node: self.authority.issue(f"node-{node}").write(work / f"node-{node}.pem")
            for node in (1, 2, 3)
        }
        super().__init__(work)

    def settings(self, node_id: int) -> dict[str, str]:
        protocol = self.protocol.name
        return {
            **super().settings(node_id),
            # The names of listeners say nothing about how they speak.
            "listener.security.protocol.map": f"CONTROLLER:{protocol},PLAINTEXT:{protocol}",
            **(self._logins() if self.protocol.uses_sasl else {}),
            "ssl.keystore.location": self.keys[node_id],
            "ssl.truststore.location": self.ca,
            "ssl.client.auth": "required",
            "default.replication.factor": "3",
        }

    def _logins(self) -> dict[str, str]:
        return {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
            "listener.name.controller.plain.sasl.jaas.config": JAAS,
            "listener.name.plaintext.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
        }

    def client(self) -> Client:
        security = client_security(
            {
                "security.protocol": self.protocol.name,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": JAAS,
                "ssl.truststore.location": self.ca,
                "ssl.keystore.location": self.keys[1],
            }
        )
        endpoints = [Endpoint("127.0.0.1", port) for port in self.client_ports.values()]
        return Client(endpoints, SessionConfig(security=security))


@pytest.fixture(params=[SecurityProtocol.SSL, SecurityProtocol.SASL_SSL])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, request.param) as nodes:
        nodes.start()
        yield nodes


def test_three_nodes_replicate_through_mutual_tls_and_survive_one(nodes: Nodes) -> None:
    with nodes.client() as client:
        create_topic(client, NewTopic(name="t", partitions=1, replication_factor=3, configs={}))
        nodes.wait_for("the topic is in sync", lambda image: _in_sync(image, 3))
        (before,) = Producer(client).send([NewRecord("t", None, b"before")])
        nodes.kill(nodes.active())
        nodes.wait_for("one is missed", lambda image: _in_sync(image, 2))
        (after,) = Producer(client).send([NewRecord("t", None, b"after")])

    assert isinstance(before, Placed)
    assert isinstance(after, Placed)
    assert after.offset == before.offset + 1
    protocols = {
        endpoint.security_protocol
        for broker in nodes.image(next(iter(nodes.nodes))).brokers.values()
        for endpoint in broker.endpoints
    }
    assert protocols == {nodes.protocol}
    names = [_principals(nodes, each) for each in nodes.nodes]
    # A login says who it is, also where a certificate is shown.
    expected = "User:node" if nodes.protocol.uses_sasl else "User:CN=node-"
    assert all(name.startswith(expected) for each in names for name in each)
    assert any(names)


@pytest.mark.parametrize("nodes", [SecurityProtocol.SSL], indirect=True)
def test_a_node_with_a_strangers_certificate_is_not_let_in(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes.stop(3)
    nodes.keys[3] = Authority("a stranger").issue("node-3").write(tmp_path / "stranger.pem")
    nodes.extra["initial.broker.registration.timeout.ms"] = "1500"

    with pytest.raises(Exception, match="could not register"):
        nodes.start(3)

    wait_until(lambda: "tls handshake failed listener=CONTROLLER" in caplog.text, "it is said")


def _in_sync(image: MetadataImage, count: int) -> bool:
    topic = image.topics.get("t")
    return topic is not None and len(topic.partitions[0].isr) == count


def _principals(nodes: Nodes, node_id: int) -> list[str]:
    return nodes.on(
        node_id,
        lambda broker: [str(each.session.principal) for each in broker.peers.by_number.values()],
    )
