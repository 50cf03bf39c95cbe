"""ACLs on a cluster: every node has them, and has them again after a restart."""

from pathlib import Path

from ledgerstone.client.acls import create_acls
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.security.acl import (
    Acl,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from ledgerstone.security.principal import Principal
from ledgerstone.server.broker import Broker
from tests.kit.loopback_cluster import BOTH, LoopbackCluster

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
TOPIC, READ = AclResourceType.TOPIC, AclOperation.READ


def acl(name: str, permission: PermissionType) -> Acl:
    return Acl(TOPIC, name, PatternType.LITERAL, "User:ann", "*", READ, permission)


def rights(broker: Broker) -> tuple[bool, bool]:
    assert broker.authorizer is not None
    ann = broker.authorizer.rights_of(Principal("User", "ann"), "10.0.0.1")
    return ann.may(READ, TOPIC, "open"), ann.may(READ, TOPIC, "secret")


def test_node_that_was_restarted_has_the_acls_of_before(tmp_path: Path) -> None:
    """What is denied stays denied: everything else is open to ann."""
    with LoopbackCluster(tmp_path, [BOTH, "broker"], SETTINGS) as nodes:
        nodes.start()
        with Client([Endpoint("127.0.0.1", nodes.client_ports[1])]) as client:
            create_acls(
                client, [acl("*", PermissionType.ALLOW), acl("secret", PermissionType.DENY)]
            )
        nodes.wait_for("both have them", lambda image: len(image.acls) == 2)

        before = [nodes.on(each, rights) for each in (1, 2)]
        nodes.stop(2)
        nodes.stop(1)
        nodes.start()

        assert before == [(True, False), (True, False)]
        assert [nodes.on(each, rights) for each in (1, 2)] == before
