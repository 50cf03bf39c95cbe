"""What is done to a cluster of real processes, and what must be true afterwards.

The promise under test: one leader an epoch; a topic whose creation was acknowledged exists on every
node, once; a topic that nobody asked for does not.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from tests.kit.broker import wait_until
from tests.kit.namespaces import Namespaces
from tests.kit.nodes import Cluster, Standing
from tests.kit.small_disk import SmallDisk

ATTEMPT_S: Final = 1.0
LIMIT_S: Final = 60.0


@dataclass
class TopicBook:
    """Every topic that was asked for, and what came of it."""

    cluster: Cluster
    created: set[str] = field(default_factory=set)
    # No answer, or one that says that it may still happen.
    doubtful: set[str] = field(default_factory=set)
    _number: int = 0

    def attempt(self, via: int) -> bool:
        """Asks for a new topic; whether it was acknowledged."""
        self._number += 1
        name = f"topic-{self._number:05d}"
        found = self.cluster.create_topic(name, via, timeout_s=ATTEMPT_S)
        if found is ErrorCode.NONE:
            self.created.add(name)
            return True
        # The broker's forwarder repeats what it does not know the outcome of.
        (self.created if found is ErrorCode.TOPIC_ALREADY_EXISTS else self.doubtful).add(name)
        return False

    def until_created(self, among: list[int], limit_s: float = LIMIT_S) -> float:
        """Seconds until one of these brokers gets a topic made."""
        began = time.monotonic()
        turn = 0
        while not self.attempt(among[turn % len(among)]):
            turn += 1
            assert time.monotonic() - began < limit_s, f"no topic within {limit_s} s"
        return time.monotonic() - began

    def check(self) -> None:
        """On every running broker: all that were acknowledged, none that was not asked for, and
        under one id."""
        brokers = [each.node_id for each in self.cluster.running if each.planned.is_broker]

        def agreed() -> bool:
            views = [self.cluster.topics(each) for each in brokers]
            return all(each is not None and each == views[0] for each in views) and (
                self.created <= (views[0] or {}).keys()
            )

        try:
            wait_until(agreed, "all brokers know the same topics", LIMIT_S)
        except AssertionError:
            views = {each: self.cluster.topics(each) for each in brokers}
            missing = {
                each: sorted(self.created - (view or {}).keys()) for each, view in views.items()
            }
            sizes = {each: None if view is None else len(view) for each, view in views.items()}
            raise AssertionError(f"missing {missing}; known {sizes}") from None
        found = self.cluster.topics(brokers[0]) or {}
        invented = found.keys() - self.created - self.doubtful
        assert not invented, f"nobody asked for {sorted(invented)}"
        assert len(set(found.values())) == len(found), "two topics have one id"
        self.cluster.assert_one_leader_an_epoch()


@dataclass
class Failover:
    """One leader lost, and the time until a topic could be made again."""

    fault: str
    former: Standing
    topic_s: float


@dataclass
class Nemesis:
    cluster: Cluster
    book: TopicBook

    def kill_the_leader(self) -> Failover:
        former = self.cluster.wait_for_leader()
        victim = self.cluster[former.leader_id]
        began = time.monotonic()
        victim.kill()
        found = self._failover("kill -9", former, began)
        victim.start()
        victim.wait_started()
        return found

    def pause_the_leader(self) -> Failover:
        """SIGSTOP, until another one leads."""
        former = self.cluster.wait_for_leader()
        victim = self.cluster[former.leader_id]
        began = time.monotonic()
        victim.pause()
        try:
            found = self._failover("SIGSTOP", former, began)
        finally:
            victim.resume()
        self.wait_until_followed()
        return found

    def cut_off_the_leader(self, network: Namespaces) -> Failover:
        """Its cable is pulled: packets are lost, connections stand."""
        former = self.cluster.wait_for_leader()
        began = time.monotonic()
        network.pull(former.leader_id)
        try:
            found = self._failover("cut", former, began)
        finally:
            network.plug(former.leader_id)
        self.wait_until_followed()
        return found

    def deafen_the_leader(self, network: Namespaces) -> Failover:
        """What the followers say does not reach it; what it says reaches them."""
        former = self.cluster.wait_for_leader()
        others = [each for each in self.cluster.nodes if each != former.leader_id]
        began = time.monotonic()
        for each in others:
            network.block(each, former.leader_id)
        try:
            found = self._failover("deaf", former, began)
        finally:
            for each in others:
                network.unblock(each, former.leader_id)
        self.wait_until_followed()
        return found

    def fill_the_disk_of_the_leader(self, disk: SmallDisk) -> Failover:
        """It is started again, if it ended, when there is room again."""
        former = self.cluster.wait_for_leader()
        victim = self.cluster[former.leader_id]
        began = time.monotonic()
        disk.fill()
        # The last page of a file has room for a few topics more.
        others = [each for each in self.cluster.nodes if each != former.leader_id]

        def is_replaced() -> bool:
            self.book.attempt(others[0])
            leader = self.cluster.leader()
            return leader is not None and leader.epoch > former.epoch

        wait_until(is_replaced, "another leads", LIMIT_S)
        found = self._failover("full disk", former, began)
        disk.free()
        if not victim.is_running:
            victim.forget()
            victim.start()
            victim.wait_started()
        self.wait_until_followed()
        return found

    def wait_until_followed(self) -> None:
        """Whoever was away has noticed."""
        wait_until(lambda: self._leaders() == 1, "one node says that it leads", LIMIT_S)

    def _leaders(self) -> int:
        said = [self.cluster.standing(each) for each in self.cluster.running]
        return len([each for each in said if each is not None])

    def _failover(self, fault: str, former: Standing, began: float) -> Failover:
        others = [each.node_id for each in self.cluster.running if each.node_id != former.leader_id]
        self.book.until_created(others)
        topic_s = time.monotonic() - began
        said = [self.cluster.standing(self.cluster[each]) for each in others]
        newer = [each for each in said if each is not None and each.epoch > former.epoch]
        assert newer, f"a topic was made, but nobody leads after epoch {former.epoch}: {said}"
        return Failover(fault, former, topic_s)
