"""What each fault does to the arena, and how it ends. Shell."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bench.nemesis.arena import GROUP, TRANSACTION, Arena, Replicas
from bench.nemesis.schedule import Fault, Kind
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterReassignmentsPartition,
    AlterReassignmentsTopic,
)
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.crash.failover import NODES
from tests.kit.broker import wait_until
from tests.kit.nodes import Node

HEAL_LIMIT_S: Final = 90.0
HOUR_MS: Final = 3_600_000
SHIFTS_MS: Final = (-24 * HOUR_MS, -HOUR_MS, HOUR_MS, 24 * HOUR_MS)
PREFERRED: Final = 0
TOPICS: Final = ("log", "table")


@dataclass(slots=True)
class Acts:
    arena: Arena

    def perform(self, fault: Fault) -> str:
        """Does it, ends it, and says what was done."""
        return self._acts()[fault.kind](fault)

    def _acts(self) -> dict[Kind, Callable[[Fault], str]]:
        return {
            Kind.KILL_LEADER: lambda fault: self._kill(self._leader(fault), fault),
            Kind.KILL_FOLLOWER: lambda fault: self._kill(self._follower(fault), fault),
            Kind.KILL_CONTROLLER: lambda fault: self._kill(self._controller(fault), fault),
            Kind.KILL_COORDINATOR: lambda fault: self._kill(self._coordinator(fault), fault),
            Kind.KILL_TWO: self._kill_two,
            Kind.CUT_ONE: self._cut_one,
            Kind.CUT_LEADER: self._cut_leader,
            Kind.CUT_ONE_WAY: self._cut_one_way,
            Kind.CUT_RING: self._cut_ring,
            Kind.PAUSE: self._pause,
            Kind.FULL_DISK: self._fill_disk,
            Kind.FSYNC: self._fail_fsync,
            Kind.CLOCK: self._shift_clock,
            Kind.ROLLING: self._roll,
            Kind.REASSIGN: self._reassign,
        }

    # -- victims ------------------------------------------------------------------------------

    def _node(self, fault: Fault) -> Node:
        return self.arena.cluster[NODES[fault.pick % len(NODES)]]

    def _partition(self, fault: Fault) -> Replicas | None:
        found = [each for each in self.arena.replicas() if each.leader in NODES]
        return found[fault.pick % len(found)] if found else None

    def _leader(self, fault: Fault) -> Node:
        found = self._partition(fault)
        return self._node(fault) if found is None else self.arena.cluster[found.leader]

    def _follower(self, fault: Fault) -> Node:
        found = self._partition(fault)
        if found is None:
            return self._node(fault)
        others = [each for each in found.replicas if each != found.leader]
        return self.arena.cluster[others[fault.pick % len(others)]]

    def _controller(self, fault: Fault) -> Node:
        found = self.arena.cluster.leader()
        return self._node(fault) if found is None else self.arena.cluster[found.leader_id]

    def _coordinator(self, fault: Fault) -> Node:
        key, kind = [("members", GROUP), ("transactions", TRANSACTION)][fault.pick % 2]
        found = self.arena.coordinator(key, kind)
        return self._node(fault) if found is None else self.arena.cluster[found]

    # -- kills --------------------------------------------------------------------------------

    def _kill(self, victim: Node, fault: Fault) -> str:
        victim.kill()
        time.sleep(fault.hold_s)
        victim.start()
        victim.wait_started()
        return f"node {victim.node_id} down for {fault.hold_s} s"

    def _kill_two(self, fault: Fault) -> str:
        """The second as soon as the first serves again, whether or not that has caught up."""
        first = self._leader(fault)
        self._kill(first, fault)
        second = self.arena.cluster[next(each for each in NODES if each != first.node_id)]
        self._kill(second, fault)
        return f"nodes {first.node_id} and {second.node_id} down for {fault.hold_s} s each"

    # -- cuts ---------------------------------------------------------------------------------

    def _cut_one(self, fault: Fault) -> str:
        """Its cable is pulled: clients do not reach it either."""
        node = self._node(fault)
        self.arena.network.pull(node.node_id)
        try:
            time.sleep(fault.hold_s)
        finally:
            self.arena.network.plug(node.node_id)
        return f"node {node.node_id} for {fault.hold_s} s"

    def _cut_leader(self, fault: Fault) -> str:
        """A minority that clients still reach: what it takes must not be acknowledged."""
        node = self._leader(fault)
        others = [each for each in NODES if each != node.node_id]
        links = [(node.node_id, each) for each in others]
        with self._blocked(*links, *((target, source) for source, target in links)):
            time.sleep(fault.hold_s)
        return f"node {node.node_id} for {fault.hold_s} s"

    def _cut_one_way(self, fault: Fault) -> str:
        node = self._node(fault)
        with self._blocked(*((each, node.node_id) for each in NODES if each != node.node_id)):
            time.sleep(fault.hold_s)
        return f"node {node.node_id} for {fault.hold_s} s"

    def _cut_ring(self, fault: Fault) -> str:
        nodes = NODES if fault.pick % 2 else NODES[::-1]
        # Each sends to the next one only: no two of them can talk.
        links = [(nodes[each], nodes[each - 1]) for each in range(len(nodes))]
        with self._blocked(*links):
            time.sleep(fault.hold_s)
        return f"{'-'.join(map(str, nodes))} for {fault.hold_s} s"

    @contextmanager
    def _blocked(self, *links: tuple[int, int]) -> Iterator[None]:
        network, blocked = self.arena.network, []
        try:
            for each in links:
                network.block(*each)
                blocked.append(each)
            yield
        finally:
            for each in blocked:
                network.unblock(*each)

    # -- others -------------------------------------------------------------------------------

    def _pause(self, fault: Fault) -> str:
        node = self._leader(fault)
        node.pause()
        try:
            time.sleep(fault.hold_s)
        finally:
            node.resume()
        return f"node {node.node_id} for {fault.hold_s} s"

    def _fill_disk(self, fault: Fault) -> str:
        """A directory that was taken offline meanwhile stays so until a restart, so the node gets
        one when there is room again."""
        node = self._leader(fault)
        disk = self.arena.disks[node.node_id]
        disk.fill()
        try:
            time.sleep(fault.hold_s)
        finally:
            disk.free()
        if node.is_running:
            node.kill()
        return f"node {node.node_id} for {fault.hold_s} s{self._restarted()}"

    def _fail_fsync(self, fault: Fault) -> str:
        """A disk that failed is not trusted again: the node is killed and started anew."""
        node = self._leader(fault)
        sabotage = self.arena.sabotage[node.node_id]
        sabotage.fail_fsync(True)
        try:
            time.sleep(fault.hold_s)
            if node.is_running:
                node.kill()
        finally:
            sabotage.fail_fsync(False)
        return f"node {node.node_id} for {fault.hold_s} s{self._restarted()}"

    def _shift_clock(self, fault: Fault) -> str:
        node = self._node(fault)
        shift_ms = SHIFTS_MS[fault.pick % len(SHIFTS_MS)]
        sabotage = self.arena.sabotage[node.node_id]
        sabotage.shift_clock(shift_ms)
        try:
            time.sleep(fault.hold_s)
        finally:
            sabotage.shift_clock(0)
        return f"node {node.node_id} by {shift_ms // HOUR_MS} h for {fault.hold_s} s"

    def _restarted(self) -> str:
        ended = self.arena.restart_if_ended()
        return f", nodes {ended} started again" if ended else ""

    def _roll(self, fault: Fault) -> str:
        """As operators do it: the next one when all replicas are in sync."""
        for each in NODES:
            node = self.arena.cluster[each]
            node.stop()
            node.start()
            node.wait_started()
            wait_until(self.arena.is_whole, f"node {each} is back in sync", HEAL_LIMIT_S)
        return "nodes 1, 2 and 3"

    def _reassign(self, fault: Fault) -> str:
        """One replica of each partition goes and comes back, and other nodes are preferred."""
        wait_until(self.arena.is_whole, "all replicas are in sync", HEAL_LIMIT_S)
        found = [each for each in self.arena.replicas() if each.topic in TOPICS]
        gone = NODES[fault.pick % len(NODES)]
        self._move({each: [n for n in each.replicas if n != gone] for each in found})
        self._move(
            {each: [*NODES[(fault.pick + each.partition) % 3 :], *NODES][:3] for each in found}
        )
        self.arena.ask_anyone(ElectLeadersRequest(election_type=PREFERRED, timeout_ms=5_000), 2)
        return f"replicas on node {gone} removed and copied again"

    def _move(self, targets: dict[Replicas, list[int]]) -> None:
        topics = [
            AlterReassignmentsTopic(
                name=topic,
                partitions=[
                    AlterReassignmentsPartition(
                        partition_index=each.partition, replicas=list(dict.fromkeys(replicas))
                    )
                    for each, replicas in targets.items()
                    if each.topic == topic
                ],
            )
            for topic in TOPICS
        ]
        request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
        wanted = {(each.topic, each.partition): set(new) for each, new in targets.items()}

        def is_done() -> bool:
            now = {(each.topic, each.partition): each for each in self.arena.replicas()}
            return all(
                key in now and set(now[key].isr) == set(now[key].replicas) == replicas
                for key, replicas in wanted.items()
            )

        wait_until(lambda: self._is_accepted(request), "a reassignment is accepted", HEAL_LIMIT_S)
        wait_until(is_done, "a reassignment is complete", HEAL_LIMIT_S)

    def _is_accepted(self, request: AlterPartitionReassignmentsRequest) -> bool:
        said = self.arena.ask_anyone(request, 1)
        return said is not None and not said.error_code
