"""A cluster of brokers in the test's process. Shell.

Three real nodes, brokers and controllers at once, each with a loop in a thread of its own, on
ports of 127.0.0.1 that keep. They share one clock, which the test advances, and a network between
them that it can cut.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.cluster.ports import HeldPorts
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.listener_keys import find_key
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.partition import Partition
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.formatting.plan import FormatOptions, plan_format
from ledgerstone.server.formatting.writing import write_format
from ledgerstone.system import SystemClock, SystemDice
from ledgerstone.testing import passes
from ledgerstone.testing.disk import ScratchFilesystem
from ledgerstone.testing.local_api import LocalApi
from ledgerstone.testing.network import CutNetwork
from ledgerstone.testing.passes import PassResult
from ledgerstone.testing.settings import (
    CLUSTER_DEFAULTS,
    DEFAULTS,
    Setting,
    as_configs,
    refuse_unknown,
)
from ledgerstone.testing.thread import BrokerThread
from ledgerstone.testing.topic_access import TopicAccess
from ledgerstone.testing.virtual_clock import VirtualClock
from ledgerstone.testing.waiting import TIMEOUT_S, wait_until
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import random_uuid, uuid_to_text
from ledgerstone.web.access import Access

_HOST: Final = "127.0.0.1"

T = TypeVar("T")


class NodeUnderTest:
    """One node of a cluster under test; its ports are the same after a restart."""

    def __init__(self, node_id: int, directory: Path, ports: HeldPorts) -> None:
        self.id = node_id
        self.directory = directory
        self.bootstrap = f"{_HOST}:{ports.take(_HOST)}"
        self.controller = f"{_HOST}:{ports.take(_HOST)}"
        self._http = f"{_HOST}:{ports.take(_HOST)}"
        self.directory_id = uuid_to_text(random_uuid(SystemDice()))
        self.access = Access.from_dice(SystemDice())
        self.thread: BrokerThread | None = None
        self.api = LocalApi(self)

    @property
    def is_running(self) -> bool:
        return self.thread is not None and not self.thread.has_ended

    @property
    def http(self) -> str:
        """The address of its HTTP port: API, metrics, health."""
        return f"http://{self._http}"

    @property
    def page(self) -> str:
        """The address to open in a browser while a debugger pauses the test."""
        return f"{self.http}/?token={self.access.token}"

    def on_the_loop(self, ask: Callable[[RunningBroker], T]) -> T:
        """For anything without a method: runs `ask` on the node's own loop."""
        if self.thread is None:
            raise RuntimeError(f"node {self.id} is not running: call start({self.id}) first")
        return self.thread.call(ask)

    def __repr__(self) -> str:
        state = self.bootstrap if self.is_running else "not running"
        return f"<node {self.id} {state}, data in {self.directory}>"


class LedgerstoneCluster(TopicAccess):
    """Runs from `start` to `stop`; `with` does both. Topics have three replicas by default."""

    def __init__(
        self, directory: Path, configs: Mapping[str, Setting] | None = None, *, size: int = 3
    ) -> None:
        super().__init__()
        given = as_configs(configs or {})
        refuse_unknown([name for name in given if find_key(name, BROKER_KEYS) is None], BROKER_KEYS)
        self.directory = directory
        self._configs = {**DEFAULTS, **CLUSTER_DEFAULTS, **given}
        self._ports = HeldPorts()
        self._network = CutNetwork()
        self.nodes = {
            each: NodeUnderTest(each, directory / f"node-{each}", self._ports)
            for each in range(1, size + 1)
        }
        for node in self.nodes.values():
            for address in (node.bootstrap, node.controller):
                self._network.place(node.id, int(address.rpartition(":")[2]))
        self._cluster_id = uuid_to_text(random_uuid(SystemDice()))
        self.clock = VirtualClock(*self.nodes.values())
        self._client: Client | None = None
        self._clients: list[Client] = []
        self._client_lock = threading.RLock()
        for node in self.nodes.values():
            self._format(node)

    def __repr__(self) -> str:
        return f"<LedgerstoneCluster {', '.join(map(repr, self.nodes.values()))}>"

    # -- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is kept that a clean stop would save: all nodes are killed at once."""
        with self._client_lock:
            clients, self._clients, self._client = self._clients, [], None
        # One that fails must not leave the others running.
        with ExitStack() as closing:
            closing.callback(self._ports.release)
            for node_id in reversed(self.running):
                closing.callback(self.kill, node_id)
            for client in clients:
                closing.callback(client.close)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every node, for clients; the same after restarts."""
        return ",".join(each.bootstrap for each in self.nodes.values())

    @property
    def running(self) -> list[int]:
        return [each.id for each in self.nodes.values() if each.is_running]

    def start(self, *node_ids: int) -> None:
        """All that do not run if none is named; returns when each is up."""
        chosen = node_ids or tuple(each for each in self.nodes if each not in self.running)
        with ThreadPoolExecutor(max(len(chosen), 1)) as pool:
            for _ in pool.map(self._start, chosen):
                pass

    def stop(self, *node_ids: int) -> None:
        """A clean stop, as by an operator: what the node leads moves to others first."""
        for node_id in node_ids or self.running:
            self._end(node_id, BrokerThread.stop)

    def kill(self, *node_ids: int) -> None:
        """As if the process had died: connections break, nothing is closed or saved."""
        for node_id in node_ids:
            self._end(node_id, BrokerThread.kill)

    def _start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        assert not node.is_running, f"node {node_id} is already running"
        config = BrokerConfig.from_raw(self._settings(node))
        thread = BrokerThread(
            config, self.clock.source, node.access, self._network.transport_of(node_id)
        )
        thread.start()
        node.thread = thread

    def _end(self, node_id: int, how: Callable[[BrokerThread], None]) -> None:
        node = self.nodes[node_id]
        assert node.thread is not None, f"node {node_id} is not running"
        thread, node.thread = node.thread, None
        how(thread)

    def _settings(self, node: NodeUnderTest) -> dict[str, str]:
        return {
            **self._configs,
            "node.id": str(node.id),
            "process.roles": "broker,controller",
            "log.dirs": str(node.directory),
            "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{node.controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(
                each.controller for each in self.nodes.values()
            ),
            "ledgerstone.http.listener": node.http.removeprefix("http://"),
        }

    def _format(self, node: NodeUnderTest) -> None:
        voters = ",".join(
            f"{each.id}@{each.controller}:{each.directory_id}" for each in self.nodes.values()
        )
        options = FormatOptions(cluster_id=self._cluster_id, initial_controllers=voters)
        plan = plan_format(BrokerConfig.from_raw(self._settings(node)), options, SystemDice())
        write_format(ScratchFilesystem(), SystemClock(), plan)

    # -- the network ----------------------------------------------------------------------------

    def cut(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Nothing passes between two nodes any more; `one_way`: nothing from `one` to `other`.
        Clients still reach both."""
        assert {one, other} <= self.nodes.keys(), f"nodes are {list(self.nodes)}"
        self._network.cut(one, other, one_way=one_way)

    def isolate(self, node_id: int) -> None:
        """Cuts a node off from all others."""
        for other in self.nodes:
            if other != node_id:
                self.cut(node_id, other)

    def heal(self) -> None:
        """Ends all cuts."""
        self._network.heal()

    # -- clients --------------------------------------------------------------------------------

    @contextmanager
    def client(self) -> Iterator[Client]:
        with self._client_lock:
            if self._client is None:
                self._client = self._new_client()
            yield self._client

    def _new_client(self) -> Client:
        at = [each.bootstrap.rpartition(":") for each in self.nodes.values()]
        made = Client([Endpoint(host, int(port)) for host, _, port in at], clock=self.clock.source)
        self._clients.append(made)
        return made

    def topic(
        self,
        name: str,
        *,
        compacted: bool = False,
        partitions: int = 1,
        replicas: int = 3,
        **configs: Setting,
    ) -> str:
        """Makes a topic and waits until its replicas are there; returns its name."""
        wanted = as_configs(configs)
        made = self._make_topic(name, wanted, compacted, partitions, min(replicas, len(self.nodes)))
        self.wait_in_sync(made)
        return made

    # -- who leads, who follows -----------------------------------------------------------------

    def on(self, node_id: int, ask: Callable[[RunningBroker], T]) -> T:
        """For anything without a method: runs `ask` on the node's own loop."""
        return self.nodes[node_id].on_the_loop(ask)

    @property
    def controller(self) -> int:
        """The node whose controller is active; waits for one."""
        return wait_until(self._controller, "a controller is active")

    def _controller(self) -> int | None:
        active = [
            each
            for each in self.running
            if self.on(each, lambda running: running.broker.controller_link.is_active)
        ]
        return active[0] if active else None

    def leader_of(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_S) -> int:
        """The node that leads the partition; waits for one that runs and knows that it does."""
        tp = TopicPartition(topic, partition)

        def leader() -> int | None:
            epochs = {each: self._leads(each, tp) for each in self.running}
            known = {each: epoch for each, epoch in epochs.items() if epoch is not None}
            # A leader that is cut off does not know of its successor.
            return max(known, key=lambda each: known[each], default=None)

        return wait_until(leader, f"{tp} has a leader", timeout_s, lambda: self._described(tp))

    def _leads(self, node_id: int, tp: TopicPartition) -> int | None:
        """The leader epoch; None of a node that does not lead."""

        def look(running: RunningBroker) -> int | None:
            found = running.broker.partitions.find(tp)
            return found.leader_epoch if found is not None and found.is_leader else None

        return self.on(node_id, look)

    def wait_in_sync(self, *topics: str, timeout_s: float = TIMEOUT_S) -> None:
        """Until each replica on a node that runs is in sync and has every record. All topics if
        none is named."""
        wait_until(
            lambda: not self._behind(topics),
            "every replica is in sync",
            timeout_s,
            lambda: ", ".join(self._behind(topics)),
        )

    def _behind(self, topics: tuple[str, ...]) -> list[str]:
        """Partitions that are not in sync yet, each with its reason."""
        running = self.running
        images = {each: self.on(each, _image) for each in running}
        newest = images[max(images, key=lambda each: self.on(each, _offset))]
        ends = {each: self.on(each, _ends) for each in running}
        found = []
        for name, topic in newest.topics.items():
            if topics and name not in topics:
                continue
            for number, state in topic.partitions.items():
                tp = TopicPartition(name, number)
                here = [each for each in state.replicas if each in running]
                late = [each for each in here if each not in state.isr]
                if state.leader not in running:
                    found.append(f"{tp} has no leader")
                elif late or state.is_reassigning:
                    found.append(f"{tp} is not in sync on {late or 'its new replicas'}")
                elif len({ends[each].get(tp) for each in here}) != 1:
                    found.append(f"{tp} ends at {[ends[each].get(tp) for each in here]} on {here}")
        unknown = [each for each in topics if each not in newest.topics]
        return [*found, *(f"{each} is not known" for each in unknown)]

    def _described(self, tp: TopicPartition) -> str:
        states = {each: self.on(each, _image).partition(*tp) for each in self.running}
        return "; ".join(f"node {each} knows {state}" for each, state in states.items())

    # -- deletes --------------------------------------------------------------------------------

    def compact(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> dict[int, list[PassResult]]:
        """One pass over every replica on nodes that run, active segments included; by node."""
        hosting = [each for each in self.running if self.on(each, _hosts(topic))]
        return {each: passes.compact(self.nodes[each], topic, timeout_s) for each in hosting}


def _image(running: RunningBroker) -> MetadataImage:
    return running.broker.image


def _offset(running: RunningBroker) -> int:
    return running.broker.quorum.committed_offset


def _ends(running: RunningBroker) -> dict[TopicPartition, tuple[int, int]]:
    """Of each hosted partition: its end, and up to where it is committed."""

    def end(partition: Partition) -> tuple[int, int]:
        return partition.log.log_end_offset, partition.log.high_watermark

    return {each.topic_partition: end(each) for each in running.broker.partitions}


def _hosts(topic: str) -> Callable[[RunningBroker], bool]:
    return lambda running: any(
        each.topic_partition.topic == topic for each in running.broker.partitions
    )
