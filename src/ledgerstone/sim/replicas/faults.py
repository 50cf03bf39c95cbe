"""What each fault does to a cluster of whole brokers. Part of sim."""

import errno
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.sim.network import Network
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.replicas.scenario import PLACES
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.world import World
from ledgerstone.types import TopicPartition

LEADS_PARTITIONS: Final = -1
LEADS_QUORUM: Final = -2
LEADS_FLOW: Final = -3
COORDINATES_GROUPS: Final = -4
_FLOW: Final = TopicPartition("flow", 0)
_OFFSETS: Final = TopicPartition(CONSUMER_OFFSETS, 0)


# How long the second death waits for somebody to take over.
_TAKEOVER_MS: Final = 15_000
_LOOK_MS: Final = 10
# A follower hears nothing for so long before its leader dies; less than replica.lag.time.max.ms.
_STARVE_MS: Final = 400


class ReplicaFaults:
    """`may_lose` says whether every partition has a copy left without that node's disk."""

    def __init__(
        self,
        world: World,
        network: Network,
        nodes: list[ClusterNode],
        may_lose: Callable[[ClusterNode], bool],
    ) -> None:
        self.world = world
        self._may_lose = may_lose
        self.network = network
        self.nodes = nodes
        self.is_over = False
        self._dice = world.dice("fault targets")
        self._kinds: dict[str, Callable[[ClusterNode, Fault], None]] = {
            "crash": self._crash,
            "power": self._crash,
            "restart": self._restart,
            "rolling": self._rolling,
            "pause": self._pause,
            "cut": self._cut,
            "link": self._link,
            "split": self._split,
            "ring": self._ring,
            "twice": self._twice,
            "wipe": self._wipe,
            "reset": self._reset,
            "slow": self._slow,
            "full": self._full,
            "eio": self._eio,
            "jump": self._jump,
        }

    def strike(self, fault: Fault) -> None:
        if not self.is_over:
            self._kinds[fault.kind](self._target(fault.number("node")), fault)

    def _target(self, number: int) -> ClusterNode:
        if number >= 0:
            return self.nodes[number % len(self.nodes)]
        leads = _LEADS[number]
        return self._dice.pick([each for each in self.nodes if leads(each)] or self.nodes)

    def heal(self) -> None:
        """No fault is on any more. A process whose logs have failed is started again."""
        self.is_over = True
        self.network.heal()
        for node in self.nodes:
            node.fs.capacity_bytes = None
            node.fs.clear_faults()
            node.slow_until_ms = 0
            node.clock.catch_up()
            if node.broker is not None and has_failed(node):
                node.stop(down_ms=100)

    # -- one by one -----------------------------------------------------------------------------

    def _crash(self, node: ClusterNode, fault: Fault) -> None:
        mode = fault.args.get("mode")
        death = None if mode is None else cast(PowerLoss, mode)
        if operations := fault.number("ops"):
            node.crash_in(operations, death, fault.number("down"))
        else:
            node.kill(death, fault.number("down"))

    def _restart(self, node: ClusterNode, fault: Fault) -> None:
        node.stop(fault.number("down"))

    def _rolling(self, node: ClusterNode, fault: Fault) -> None:
        for place, each in enumerate(self.nodes):
            delay_ms = place * (fault.number("gap") + fault.number("down"))
            label = f"{each.name} rolls"

            def roll(one: ClusterNode = each) -> None:
                if not self.is_over:
                    one.stop(fault.number("down"))

            self.world.after(delay_ms, label, roll)

    def _pause(self, node: ClusterNode, fault: Fault) -> None:
        node.paused_until_ms = self.world.now_ms + fault.number("ms")

    def _cut(self, node: ClusterNode, fault: Fault) -> None:
        until_ms = self.world.now_ms + fault.number("ms")
        if fault.args["way"] != "out":
            self.network.cut("*", node.name, until_ms)
        if fault.args["way"] != "in":
            self.network.cut(node.name, "*", until_ms)

    def _link(self, node: ClusterNode, fault: Fault) -> None:
        """Between two brokers, one way or both; clients reach either."""
        other = self.nodes[fault.number("to") % len(self.nodes)]
        until_ms = self.world.now_ms + fault.number("ms")
        self.network.cut(node.name, other.name, until_ms)
        if fault.number("ways") > 1:
            self.network.cut(other.name, node.name, until_ms)

    def _split(self, node: ClusterNode, fault: Fault) -> None:
        """Brokers only: clients reach both sides. Without `nodes`, one node is alone."""
        until_ms = self.world.now_ms + fault.number("ms")
        members = fault.number("nodes", 1 << self.nodes.index(node))
        for a, one in enumerate(self.nodes):
            for b, other in enumerate(self.nodes):
                if (members >> a & 1) != (members >> b & 1):
                    self.network.cut(one.name, other.name, until_ms)

    def _ring(self, node: ClusterNode, fault: Fault) -> None:
        """Each broker reaches its neighbours alone: each sees a majority, no two the same one."""
        until_ms, count = self.world.now_ms + fault.number("ms"), len(self.nodes)
        for a, one in enumerate(self.nodes):
            for b, other in enumerate(self.nodes):
                # A ring of three would cut nothing, so there it is a chain.
                if min((a - b) % count, (b - a) % count) > 1 or {a, b} == {0, count - 1}:
                    self.network.cut(one.name, other.name, until_ms)

    def _twice(self, node: ClusterNode, fault: Fault) -> None:
        """It dies, and so does the one that leads in its place. With `apart`, for so long only its
        first follower has heard of it, and nobody of that one."""
        if apart_ms := fault.number("apart"):
            self._keep_apart(node, _PLACES[fault.number("node")], self.world.now_ms + apart_ms)
        self.world.after(_STARVE_MS if apart_ms else 0, "first of two", partial(self._one, fault))

    def _keep_apart(self, node: ClusterNode, place: TopicPartition, until_ms: int) -> None:
        state = None if node.broker is None else node.broker.image.partition(*place)
        followers = [] if state is None else [each for each in state.replicas if each in state.isr]
        followers = [each for each in followers if each != node.node_id]
        for starved in followers[1:]:
            for source in (node.node_id, followers[0]):
                self.network.cut(f"n{source}", f"n{starved}", until_ms)

    def _one(self, fault: Fault) -> None:
        if not self.is_over:
            number = fault.number("node", LEADS_FLOW)
            first = self._target(number)
            first.kill(None, fault.number("down"))
            self._follow_up(first, _LEADS[number], fault, self.world.now_ms + _TAKEOVER_MS)

    def _follow_up(
        self, first: ClusterNode, leads: Callable[[ClusterNode], bool], fault: Fault, until_ms: int
    ) -> None:
        if self.is_over or self.world.now_ms > until_ms:
            return
        for each in self.nodes:
            if each is not first and leads(each):
                self.world.mark("a leader died right after its predecessor")
                die = partial(each.kill, None, fault.number("down"))
                self.world.after(fault.number("gap"), f"{each.name} is next", die)
                return
        again = partial(self._follow_up, first, leads, fault, until_ms)
        self.world.after(_LOOK_MS, "who leads now", again)

    def _wipe(self, node: ClusterNode, fault: Fault) -> None:
        """Its disk is lost, with all that was on it. The last copy of anything is spared."""
        if self._may_lose(node):
            self.world.mark("a disk was lost")
            node.lose_disk(fault.number("down"))

    def _reset(self, node: ClusterNode, fault: Fault) -> None:
        for link in list(self.network.links.values()):
            if node.name in (link.listener.name, link.dialer.name):
                self.network.reset(link, is_half=bool(fault.number("half")))

    def _slow(self, node: ClusterNode, fault: Fault) -> None:
        node.slow_until_ms = self.world.now_ms + fault.number("ms")

    def _full(self, node: ClusterNode, fault: Fault) -> None:
        used = sum(map(len, node.fs.files().values()))
        node.fs.capacity_bytes = used + fault.number("bytes")
        self.world.mark("a disk was full")

        def make_room() -> None:
            node.fs.capacity_bytes = None

        self.world.after(fault.number("ms"), f"{node.name} has room", make_room)

    def _eio(self, node: ClusterNode, fault: Fault) -> None:
        operation, pattern = PLACES[fault.number("place") % len(PLACES)]
        loses = bool(fault.number("lose")) and operation == "fsync"
        node.fs.fail_matching(
            operation, pattern, errno.EIO, times=fault.number("times"), lose_dirty=loses
        )
        node.has_lost_pages = node.has_lost_pages or loses

    def _jump(self, node: ClusterNode, fault: Fault) -> None:
        node.clock.set_ahead_ms(fault.number("ahead"))
        self.world.mark("a wall clock jumped")


def has_failed(node: ClusterNode) -> bool:
    broker = node.broker
    assert broker is not None
    logs = [*(each.log for each in broker.partitions), broker.quorum.log.log]
    if any(log.failure is not None for log in logs) or broker.partitions.offline:
        return True
    journal = broker.image.partition(*JOURNAL)
    if journal is None or journal.leader != node.node_id or broker.erasing.loads is not None:
        return False
    return broker.erasing.trouble is not None


def _leads_partitions(node: ClusterNode) -> bool:
    return node.broker is not None and any(each.is_leader for each in node.broker.partitions)


def _leads_quorum(node: ClusterNode) -> bool:
    return node.broker is not None and node.broker.quorum.leader_id == node.node_id


def _leads(place: TopicPartition, node: ClusterNode) -> bool:
    hosted = None if node.broker is None else node.broker.partitions.find(place)
    return hosted is not None and hosted.is_leader


_PLACES: Final = {LEADS_FLOW: _FLOW, COORDINATES_GROUPS: _OFFSETS}
_LEADS: Final[dict[int, Callable[[ClusterNode], bool]]] = {
    LEADS_PARTITIONS: _leads_partitions,
    LEADS_QUORUM: _leads_quorum,
    LEADS_FLOW: partial(_leads, _FLOW),
    COORDINATES_GROUPS: partial(_leads, _OFFSETS),
}
