"""What Apache Kafka's nodes say to their active controller, and which APIs each listener offers.

`PYTHONPATH=tools python -m tests.compat.cluster_recorded` listens to real ones anew: a controller
behind a wire, a broker that registers, and a client that makes a topic and writes to it.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from golden.cluster_plan import BROKER, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_node import KafkaNode
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from tests.compat.confluent_admin import AdminClient, NewTopic
from tests.compat.wire import ask
from tests.kit.wiretap import HeardRequest, Wires

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_cluster_requests.json"
TOPIC: Final = "heard"
ASKED_VERSION: Final = 4


def listeners(controller: str, broker: str) -> dict[str, Any]:
    """APIs and features by listener."""
    found = {}
    for name, address in (("controller", controller), ("broker", broker)):
        request = ApiVersionsRequest(client_software_name="judge", client_software_version="1")
        said: Any = ask(address, request, ASKED_VERSION)
        found[name] = {
            "apis": {
                APIS[each.api_key].name: [each.min_version, each.max_version]
                for each in sorted(said.api_keys, key=lambda each: int(each.api_key))
            },
            "supported": {
                each.name: [each.min_version, each.max_version] for each in said.supported_features
            },
            "finalized": {each.name: each.max_version_level for each in said.finalized_features},
        }
    return found


@contextmanager
def _cluster(work: Path, heard: list[HeardRequest]) -> Iterator[ClusterPlan]:
    with Wires() as wires:
        port = free_port()
        wire = wires.add(port, heard.append)
        controller = PlannedNode(
            node_id=1,
            roles=CONTROLLER,
            port=0,
            controller_port=port,
            advertised_controller_port=wire.port,
        )
        rack = {"broker.rack": "r1"}
        broker = PlannedNode(
            node_id=4, roles=BROKER, port=free_port(), controller_port=0, settings=rack
        )
        plan = ClusterPlan(nodes=[controller, broker])
        jars = fetch_jars()
        nodes = [
            KafkaNode(jars=jars, plan=plan, planned=each, work=work / str(each.node_id))
            for each in plan
        ]
        try:
            for node in nodes:
                node.format()
                node.start()
            for node in nodes:
                node.wait_started()
            yield plan
        finally:
            for node in reversed(nodes):
                if node.is_running:
                    node.stop()


def record() -> None:
    heard: list[HeardRequest] = []
    with tempfile.TemporaryDirectory() as work, _cluster(Path(work), heard) as plan:
        offered = listeners(plan.node(1).controller, plan.node(4).bootstrap)
        admin = AdminClient({"bootstrap.servers": plan.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
        settings = {"bootstrap.servers": plan.bootstrap, "enable.idempotence": True, "log_level": 0}
        producer = Producer(settings)
        producer.produce(TOPIC, b"value")
        producer.flush(30)
    # The first of each, and the last heartbeat, which asks for leave.
    requests: dict[str, str] = {}
    for each in heard:
        name = APIS[each.api_key].name
        if name == "BrokerHeartbeat" and name in requests:
            name = "BrokerHeartbeat, stopping"
            requests[name] = each.frame.hex()
        requests.setdefault(name, each.frame.hex())
    text = json.dumps({"listeners": offered, "requests": requests}, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")


def read() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    record()
