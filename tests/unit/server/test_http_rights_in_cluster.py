"""Rights on the HTTP ports of three nodes: whichever is asked, the one that knows decides."""

import http.client
import json
from pathlib import Path
from typing import Any

from ledgerstone.client.http_api import open_api, parse_api_address
from ledgerstone.protocol.messages.create_acls import (
    CreateAclsCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ledgerstone.security.acl import Acl, AclOperation, AclResourceType
from ledgerstone.testing.cluster import LedgerstoneCluster, NodeUnderTest
from tests.unit.server.http_door_kit import basic

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Brokers, and the kit's own client.
    "super.users": "User:ANONYMOUS",
    "listener.name.http.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.http.plain.sasl.jaas.config": (
        f'{MODULE} user_eraser="e" user_reader="r" user_stranger="s";'
    ),
}
TOPIC = "customers"


def asked(node: NodeUnderTest, name: str, path: str, **body: str) -> tuple[int, Any]:
    """Passwords are the first letters of the names."""
    address = parse_api_address(node.http)
    assert address is not None
    connection = open_api(address, timeout_s=30)
    headers = {"Content-Type": "application/json", **basic(name, name[0])}
    method, data = ("POST", json.dumps(body)) if body else ("GET", None)
    connection.request(method, f"/api/v1/{path}", data, headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found if answer.status == http.client.OK else found["error"]


def test_every_node_decides_alike(tmp_path: Path) -> None:
    with LedgerstoneCluster(tmp_path, SETTINGS) as cluster:
        cluster.topic(TOPIC, compacted=True)
        with cluster.client() as client:
            for name, right in (("eraser", AclOperation.DELETE), ("reader", AclOperation.READ)):
                acl = Acl(AclResourceType.TOPIC, TOPIC, 3, f"User:{name}", "*", right, 3)
                request = CreateAclsRequest([CreateAclsCreation(*acl)])
                assert client.call(request, CreateAclsResponse).results[0].error_code == 0
        path, ids = f"topics/{TOPIC}/erasures", []
        for node in cluster.nodes.values():
            status, made = asked(node, "eraser", path, key="YWxpY2U=", requested_by="Bob")
            assert status == 200
            assert made["erasures"][0]["requested_by"] == "User:eraser for Bob"
            ids.append(made["erasures"][0]["id"])
            assert asked(node, "reader", path, key="YWxpY2U=")[0] == 403

        for node in cluster.nodes.values():
            about = f"erasures/{ids[0]}"
            assert asked(node, "reader", about)[0] == 200
            assert asked(node, "reader", f"{about}/cancel", by="x")[0] == 403
            assert asked(node, "stranger", about) == (404, f"there is no erasure {ids[0]}")
            assert asked(node, "stranger", "erasures")[1]["total"] == 0
            assert asked(node, "reader", "erasures")[1]["total"] == len(ids)
