"""Runs the nodes of a cluster on one machine. Shell, on asyncio.

Nodes are processes of their own; this one only starts them, passes their output on, starts them
again when they end, and stops them in an order in which each can hand over: brokers first, then
controllers, the active one last. The last voters have no majority to hand over to, and do not wait.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any, Final

from ledgerstone.cluster.directory import ClusterDirectory
from ledgerstone.cluster.layout import ClusterLayout, LayoutRefused, NodePlace
from ledgerstone.cluster.node import NodeState, SupervisedNode, up_command
from ledgerstone.cluster.node_http import controller_seen_by
from ledgerstone.cluster.ports import HeldPorts, is_free
from ledgerstone.errors import LedgerstoneError
from ledgerstone.system import SystemDice
from ledgerstone.uuid_text import random_uuid, uuid_to_text

# Of one node's controlled shutdown. Moving leaderships takes well under a second each.
PATIENCE_S: Final = 30.0
_WAITS_LINE_S: Final = 5.0


class NodeGivenUp(LedgerstoneError):
    """A node ended again and again before the cluster was up."""


class Supervisor:
    """`begin`, then `until_up`, then `stop`. `on_change` is called when a node comes or goes."""

    def __init__(
        self,
        directory: ClusterDirectory,
        layout: ClusterLayout,
        *,
        say: Callable[[str, str], None],
        log_level: str,
        on_change: Callable[[], None],
    ) -> None:
        self.directory = directory
        self.layout = layout
        self.nodes: dict[int, SupervisedNode] = {}
        self.is_stopping = False
        self._say = say
        self._log_level = log_level
        self._tell = on_change
        self._changed = asyncio.Condition()
        self._ports = HeldPorts()
        self._notices: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        for place in self.layout:
            self._prepare(place)
        for node in self.nodes.values():
            node.start()

    def _prepare(self, place: NodePlace, *, joins: bool = False) -> None:
        for port in place.ports:
            self._ports.hold(self.layout.host, port)
        if self.directory.prepare(self.layout, place, joins=joins):
            self._say(
                "cluster",
                f"{place.name} formatted as {place.roles} in {self.directory.home_of(place)}",
            )
        ready_file = self.directory.ready_file_of(place)
        command = up_command(
            self.directory.properties_of(place),
            self.directory.data_of(place),
            ready_file,
            self._log_level,
        )
        self.nodes[place.node_id] = SupervisedNode(
            place.name, command, ready_file, say=self._say, on_change=self._on_change
        )

    def _on_change(self) -> None:
        self._tell()
        task = asyncio.get_running_loop().create_task(self._notify())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- what is up ---------------------------------------------------------------------------

    @property
    def missing(self) -> list[SupervisedNode]:
        return [each for each in self.nodes.values() if each.state is not NodeState.UP]

    async def until_up(self, *node_ids: int) -> None:
        """All of them if none is named. Says what it waits for; NodeGivenUp if it never comes."""
        chosen = [self.nodes[each] for each in node_ids or self.nodes]
        while True:
            missing = [each for each in chosen if each.state is not NodeState.UP]
            if not missing:
                return
            lost = [each for each in missing if each.state is NodeState.GIVEN_UP]
            if lost:
                raise NodeGivenUp(f"{lost[0].name} does not start; its last lines say why")
            if self.is_stopping:
                raise NodeGivenUp("stopped before all nodes were up")
            if not await self._change_within(_WAITS_LINE_S):
                names = ", ".join(f"{each.name} ({each.state})" for each in missing)
                self._say("cluster", f"waits for {names}")

    async def _change_within(self, seconds: float) -> bool:
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return False
        return True

    def describe(self) -> dict[str, Any]:
        """For the ready file and the status."""
        return {
            "supervisor": os.getpid(),
            "cluster_id": self.layout.cluster_id,
            "nodes": [
                self._describe(place) for place in self.layout if place.node_id in self.nodes
            ],
        }

    def _describe(self, place: NodePlace) -> dict[str, Any]:
        node = self.nodes[place.node_id]
        return {
            "id": place.node_id,
            "roles": place.roles,
            "rack": place.rack,
            "state": str(node.state),
            "pid": node.pid or node.facts.get("pid"),
            "bootstrap": self.layout.bootstrap_of(place),
            "http": self.layout.http_of(place),
            "restarts": node.restarts.total,
            "directory": str(self.directory.home_of(place)),
            "token": node.facts.get("token"),
        }

    # -- changes ------------------------------------------------------------------------------

    async def add(self, rack: str | None) -> int:
        """Returns when the new broker is up."""
        self._check_running()
        host = self.layout.host
        layout = self.layout.with_node(
            directory_id=uuid_to_text(random_uuid(SystemDice())),
            is_free=lambda port: is_free(host, port),
            rack=rack,
        )
        place = layout.nodes[-1]
        self.directory.save(layout)
        self.layout = layout
        self._prepare(place, joins=True)
        self.nodes[place.node_id].start()
        await self.until_up(place.node_id)
        return place.node_id

    async def retire(self, node_id: int) -> str:
        """Stops a node for good; returns the directory that is kept."""
        self._check_running()
        node, place = self._node(node_id), self.layout.node(node_id)
        layout = self.layout.without(node_id)
        await node.stop(PATIENCE_S)
        self.directory.save(layout)
        self.layout = layout
        del self.nodes[node_id]
        self._on_change()
        return str(self.directory.home_of(place))

    def kill(self, node_id: int, number: signal.Signals, *, restart: bool) -> int | None:
        self._check_running()
        node = self._node(node_id)
        pid = node.pid
        self._say("cluster", f"{node.name} gets {number.name}")
        node.kill(number, is_final=not restart)
        return pid

    async def start(self, node_id: int) -> None:
        self._check_running()
        self._node(node_id).start()
        await self.until_up(node_id)

    def _node(self, node_id: int) -> SupervisedNode:
        self.layout.node(node_id)
        return self.nodes[node_id]

    def _check_running(self) -> None:
        if self.is_stopping:
            raise LayoutRefused("the cluster is stopping")

    # -- the end ------------------------------------------------------------------------------

    async def stop(self) -> None:
        """By controlled shutdown. `kill_all` may be called meanwhile."""
        self.is_stopping = True
        await self._notify()
        places = {each.node_id: each for each in self.layout}
        brokers = [self.nodes[each.node_id] for each in places.values() if not each.is_controller]
        await asyncio.gather(*(each.stop(PATIENCE_S) for each in brokers))
        active = await self._active_controller()
        voters = sorted(
            (each.node_id for each in places.values() if each.is_controller),
            key=lambda node_id: (node_id == active, node_id),
        )
        needed = len(voters) // 2 + 1
        for number, node_id in enumerate(voters):
            left = sum(self.nodes[each].pid is not None for each in voters[number:])
            await self.nodes[node_id].stop(PATIENCE_S, hurries=left < needed)
        self._ports.release()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._notices)

    async def _active_controller(self) -> int | None:
        for place in self.layout.controllers:
            if self.nodes[place.node_id].state is NodeState.UP:
                address = self.layout.http_of(place)
                found = await asyncio.to_thread(controller_seen_by, address)
                if found is not None:
                    return found
        return None

    def kill_all(self) -> None:
        self.is_stopping = True
        for node in self.nodes.values():
            node.kill(signal.SIGKILL, is_final=True)
