"""Nodes of one cluster on loopback, each with a loop in a thread of its own."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.broker import Broker
from ledgerstone.storage.log_dir_files import MetaProperties, write_meta_properties
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.testing.thread import BrokerThread
from ledgerstone.uuid_text import random_uuid, uuid_to_text
from ledgerstone.web.access import Access
from tests.compat.wire import ask
from tests.kit.broker import wait_until

T = TypeVar("T")
BOTH: Final = "broker,controller"
# Short enough for a test, long enough for a machine that is busy.
_QUICK: Final = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "500",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class LoopbackCluster:
    """`roles` of the nodes 1, 2, ...: those with a controller vote."""

    def __init__(
        self, work: Path, roles: Sequence[str] = (BOTH,) * 3, settings: dict[str, str] | None = None
    ) -> None:
        self._work = work
        self.extra = settings or {}
        self.roles = dict(enumerate(roles, 1))
        ports = free_ports(2 * len(roles))
        self.client_ports = dict(zip(self.roles, ports[: len(roles)], strict=True))
        self.controller_ports = dict(zip(self.roles, ports[len(roles) :], strict=True))
        self.cluster_id = uuid_to_text(random_uuid(SystemDice()))
        self.nodes: dict[int, BrokerThread] = {}
        for node_id in self.roles:
            self._format(node_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node_id in list(self.nodes):
            self.kill(node_id)

    # -- life ---------------------------------------------------------------------------------

    def start(self, *node_ids: int) -> None:
        """All of them at once; returns when each is ready."""
        chosen = node_ids or tuple(self.roles)
        for node_id in chosen:
            config = BrokerConfig.from_raw(self.settings(node_id))
            access = Access.from_dice(SystemDice())
            self.nodes[node_id] = BrokerThread(config, SystemClock(), access)
        with ThreadPoolExecutor(len(chosen)) as pool:
            for _ in pool.map(self._start, chosen):
                pass

    def _start(self, node_id: int) -> None:
        try:
            self.nodes[node_id].start()
        except BaseException:
            del self.nodes[node_id]
            raise

    def stop(self, *node_ids: int) -> None:
        chosen = node_ids or tuple(self.nodes)
        with ThreadPoolExecutor(len(chosen)) as pool:
            for _ in pool.map(lambda each: self.nodes.pop(each).stop(), chosen):
                pass

    def kill(self, node_id: int) -> None:
        self.nodes.pop(node_id).kill()

    def settings(self, node_id: int) -> dict[str, str]:
        roles = self.roles[node_id]
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.client_ports[node_id]}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        voters = [
            f"{each}@127.0.0.1:{self.controller_ports[each]}"
            for each, its_roles in self.roles.items()
            if "controller" in its_roles
        ]
        return {
            **_QUICK,
            "node.id": str(node_id),
            "process.roles": roles,
            "log.dirs": str(self._work / f"node-{node_id}"),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
            **self.extra,
        }

    def _format(self, node_id: int) -> None:
        directory = self._work / f"node-{node_id}"
        directory.mkdir(parents=True)
        meta = MetaProperties(
            cluster_id=self.cluster_id, node_id=node_id, directory_id=random_uuid(SystemDice())
        )
        write_meta_properties(OsFilesystem(), str(directory / "meta.properties"), meta)

    # -- what is asked ------------------------------------------------------------------------

    def on(self, node_id: int, look: Callable[[Broker], T]) -> T:
        def run(running: RunningBroker) -> T:
            return look(running.broker)

        return self.nodes[node_id].call(run)

    def image(self, node_id: int) -> MetadataImage:
        return self.on(node_id, lambda broker: broker.image)

    def active(self) -> int:
        """The node that controls, once there is one."""
        found: list[int] = []

        def is_found() -> bool:
            found[:] = [
                each
                for each in self.nodes
                if self.on(each, lambda broker: broker.controller_link.is_active)
            ]
            return len(found) == 1

        wait_until(is_found, "one node is the controller", 20)
        return found[0]

    def ask(self, node_id: int, request: ApiMessage) -> ApiMessage:
        version = OFFERED[request.api_key].last
        return ask(f"127.0.0.1:{self.client_ports[node_id]}", request, version)

    def create_topic(
        self, through: int, name: str, *, partitions: int = 1, replicas: int = 1
    ) -> int:
        """The error code."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequestTopic(
                    name=name, num_partitions=partitions, replication_factor=replicas
                )
            ],
            timeout_ms=20_000,
        )
        answer = self.ask(through, request)
        assert isinstance(answer, CreateTopicsResponse)
        return answer.topics[0].error_code

    def wait_for(self, what: str, holds: Callable[[MetadataImage], bool]) -> None:
        """On every node that runs."""
        wait_until(lambda: all(holds(self.image(each)) for each in self.nodes), what, 20)
