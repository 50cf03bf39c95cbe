"""What each kind of fault does to a cluster. Its schedule is data: `scenario.Fault`."""

import errno
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from ledgerstone.sim.network import Network
from ledgerstone.sim.node import Node
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.scenario import BOUNDARIES, PLACES
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.world import World


class Clients(Protocol):
    """Whoever is on the cluster; how a client dies is its own affair."""

    def strike(self, fault: Fault) -> None: ...


class FaultyCluster(Protocol):
    """What a fault can reach."""

    world: World
    network: Network
    nodes: list[Node]

    @property
    def workload(self) -> Clients: ...

    is_healed: bool
    faults_injected: int


def inject(cluster: FaultyCluster, fault: Fault) -> None:
    if cluster.is_healed:
        return
    cluster.faults_injected += 1
    node = cluster.nodes[fault.number("node") % len(cluster.nodes)]
    _FAULTS[fault.kind](cluster, node, fault)


def heal(nodes: Sequence[Node]) -> None:
    """No fault is on any more. What a process gave up on is tried again by the next one."""
    for node in nodes:
        node.fs.capacity_bytes = None
        node.fs.clear_faults()
        node.slow_until_ms = 0
        node.clock.catch_up()
        if node.broker is not None and _has_failed(node):
            node.stop(down_ms=100)


def _has_failed(node: Node) -> bool:
    broker = node.broker
    assert broker is not None
    logs = [*(each.log for each in broker.partitions), broker.quorum.log.log]
    if any(log.failure is not None for log in logs) or broker.partitions.offline:
        return True
    return broker.erasing.trouble is not None


def _mode(fault: Fault) -> PowerLoss | None:
    mode = fault.args.get("mode")
    return None if mode is None else cast(PowerLoss, mode)


def _crash(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    if node.performer is not None and node.performer.is_cleaning:
        cluster.world.mark("a pass was interrupted by a crash")
    if node.performer is not None and node.performer.is_scanning:
        cluster.world.mark("a scan was interrupted by a crash")
    node.dies_again_in = fault.number("again")
    if operations := fault.number("ops"):
        node.crash_in(operations, _mode(fault), fault.number("down"))
    else:
        node.kill(_mode(fault), fault.number("down"))


def _restart(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    if operations := fault.number("ops"):
        node.crash_in(operations, _mode(fault), fault.number("down"))
    node.stop(fault.number("down"))


def _pause(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    node.paused_until_ms = cluster.world.now_ms + fault.number("ms")


def _cut(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    until_ms = cluster.world.now_ms + fault.number("ms")
    if fault.args["way"] != "out":
        cluster.network.cut("*", node.name, until_ms)
    if fault.args["way"] != "in":
        cluster.network.cut(node.name, "*", until_ms)


def _reset(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    for link in list(cluster.network.links.values()):
        if link.listener is node:
            cluster.network.reset(link, is_half=bool(fault.number("half")))


def _full(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    used = sum(map(len, node.fs.files().values()))
    node.fs.capacity_bytes = used + fault.number("bytes")
    cluster.world.mark("a disk was full")

    def make_room() -> None:
        node.fs.capacity_bytes = None

    cluster.world.after(fault.number("ms"), f"{node.name} has room", make_room)


def _eio(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    operation, pattern = PLACES[fault.number("place") % len(PLACES)]
    loses = bool(fault.number("lose")) and operation == "fsync"
    node.fs.fail_matching(
        operation, pattern, errno.EIO, times=fault.number("times"), lose_dirty=loses
    )
    node.has_lost_pages = node.has_lost_pages or loses


def _jump(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    node.clock.set_ahead_ms(fault.number("ahead"))
    cluster.world.mark("a wall clock jumped")


def _slow(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    node.slow_until_ms = cluster.world.now_ms + fault.number("ms")


def _worker(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    if node.performer is not None:
        if node.performer.is_cleaning:
            cluster.world.mark("a cleaning worker was killed")
        node.performer.kill_workers()


def _client(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    cluster.workload.strike(fault)


def _boundary(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    """The process dies at its next writes to such a log: among the records of one transaction."""
    operation, pattern = BOUNDARIES[fault.number("place") % len(BOUNDARIES)]
    node.crash_at_file(operation, pattern, fault.number("skip"), _mode(fault), fault.number("down"))


def _refuse(cluster: FaultyCluster, node: Node, fault: Fault) -> None:
    """The disk refuses operations on one of the logs that a transaction is written to."""
    operation, pattern = BOUNDARIES[fault.number("place") % len(BOUNDARIES)]
    node.fs.fail_matching(operation, pattern, errno.EIO, times=fault.number("times"))


_FAULTS: dict[str, Callable[[FaultyCluster, Node, Fault], None]] = {
    "crash": _crash,
    "power": _crash,
    "restart": _restart,
    "pause": _pause,
    "cut": _cut,
    "reset": _reset,
    "full": _full,
    "eio": _eio,
    "jump": _jump,
    "slow": _slow,
    "worker": _worker,
    "client": _client,
    "zombie": _client,
    "boundary": _boundary,
    "refuse": _refuse,
}
