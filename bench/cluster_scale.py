"""A large cluster in one process: 100 brokers, 5 voters, 100,000 partitions of 3 replicas.

    python -m bench.cluster_scale [--quick]

The simulator's quorum, the real controller and the lives of all brokers, without faults. Nodes
share the image of an offset. Every committed record is checked as in `sim.controller`. Figures are
CPU time and, where it says so, virtual time.
"""

import argparse
import logging
import resource
import sys
import time
from collections.abc import Callable
from typing import Final

from bench.table import Row, at_most, published, render
from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.sim.controller.cluster import Cluster
from ledgerstone.sim.controller.process import SimProcess, process_of
from ledgerstone.sim.controller.scenario import parse

VOTERS: Final = 5
BROKERS: Final = 100
PARTITIONS: Final = 100_000
PARTITIONS_OF_A_TOPIC: Final = 1_000
_AT_ONCE: Final = 10_000
_KEPT: Final = 400
_PATIENCE_MS: Final = 120_000
_MB: Final = 1 << 20
CPU_S: Final = 600.0
MEMORY_MB: Final = 1_024.0

_SCRIPT: Final = f"""
seed 1
set voters {VOTERS}
set combined 0
set brokers {{brokers}}
set dynamic 1
set elr 1
set min_isr 2
set clients 0
set data_ms 0
set idle_ms 500
set snapshot_every 0
set skew_ppm 0
set delay_ms 1
set jitter_ms 2
set loss_percent 0
set disk_ms 2
set recovery_ms 0
set late_percent 0
set left_out 0
"""


class Fleet:
    """The cluster, and how it is driven."""

    def __init__(self, brokers: int) -> None:
        self.cluster = Cluster(parse(_SCRIPT.format(brokers=brokers)), shares_images=True)
        self.brokers = range(VOTERS, VOTERS + brokers)
        self.truth = self.cluster.truth
        self.cluster.begin()

    def until(self, is_done: Callable[[], bool], what: str) -> int:
        """Virtual milliseconds that it took."""
        began_ms = self.cluster.world.now_ms
        while not is_done():
            if self.cluster.world.now_ms - began_ms > _PATIENCE_MS:
                raise AssertionError(f"not within {_PATIENCE_MS} ms: {what}")
            self.cluster.advance(self.cluster.world.now_ms + 100)
            self.truth.forget(_KEPT)
        return self.cluster.world.now_ms - began_ms

    @property
    def controller(self) -> SimProcess | None:
        return next((each for each in self.cluster.processes() if each.link.is_active), None)

    def process(self, number: int) -> SimProcess:
        found = process_of(self.cluster.fleet[number])
        assert found is not None
        return found

    def are_running(self) -> bool:
        return all(
            (fact := self.truth.brokers.get(number)) is not None and fact.is_active
            for number in self.brokers
        )

    def ask(self, number: int, request: ApiMessage) -> list[ApiMessage]:
        answers: list[ApiMessage] = []
        self.process(number).ask_for_broker(request, answers.append)
        return answers

    # -- what is measured -----------------------------------------------------------------------

    def start(self) -> int:
        return self.until(lambda: self.controller is not None and self.are_running(), "a start")

    def create(self, partitions: int) -> int:
        took_ms = 0
        for first in range(0, partitions, _AT_ONCE):
            topics = [
                CreateTopicsRequestTopic(
                    name=f"topic-{number}",
                    num_partitions=PARTITIONS_OF_A_TOPIC,
                    replication_factor=3,
                )
                for number in range(first, first + _AT_ONCE, PARTITIONS_OF_A_TOPIC)
            ]
            answers = self.ask(self.brokers[0], CreateTopicsRequest(topics=topics))
            took_ms += self.until(lambda got=answers: bool(got), "topics")  # type: ignore[misc]
            (answer,) = answers
            assert isinstance(answer, CreateTopicsResponse)
            assert all(each.error_code == 0 for each in answer.topics), answer
        assert len(self.truth.partitions) == partitions
        return took_ms

    def fence(self, number: int) -> int:
        """A broker dies: until nobody waits for it."""
        self.cluster.fleet[number].die()
        took_ms = self.until(lambda: self.truth.brokers[number].fenced, "fencing")
        assert all(fact.leader != number for fact in self.truth.partitions.values())
        self.cluster.fleet[number].start()
        self.until(self.are_running, "the broker's return")
        self.rejoin(number)
        return took_ms

    def kill_controller(self) -> int:
        before = self.controller
        assert before is not None
        number = before.number
        self.cluster.fleet[number].die()
        took_ms = self.until(
            lambda: (now := self.controller) is not None and now.number != number, "failover"
        )
        self.cluster.fleet[number].start()
        return took_ms

    def roll(self) -> int:
        """Every broker stops in a controlled way, comes back and joins its in-sync sets again."""
        began_ms = self.cluster.world.now_ms
        for number in self.brokers:
            epoch = self.truth.brokers[number].epoch
            broker = self.process(number).broker
            assert broker is not None
            broker.leave()
            self.until(
                lambda n=number, e=epoch: (  # type: ignore[misc]
                    self.truth.brokers[n].epoch > e and self.truth.brokers[n].is_active
                ),
                f"the restart of broker {number}",
            )
            self.rejoin(number)
        return self.cluster.world.now_ms - began_ms

    def rejoin(self, number: int) -> None:
        """Leaders add the broker to their in-sync sets, one request each."""
        epoch = self.truth.brokers[number].epoch
        by_leader: dict[int, dict[bytes, list[AlterPartitionRequestPartition]]] = {}
        for (topic_id, index), fact in self.truth.partitions.items():
            if number not in fact.replicas or number in fact.isr or fact.leader == NO_LEADER:
                continue
            members = [*fact.isr, number]
            change = AlterPartitionRequestPartition(
                partition_index=index,
                leader_epoch=fact.leader_epoch,
                new_isr_with_epochs=[
                    AlterPartitionNewIsrWithEpoch(each, epoch if each == number else -1)
                    for each in members
                ],
                partition_epoch=fact.partition_epoch,
            )
            by_leader.setdefault(fact.leader, {}).setdefault(topic_id, []).append(change)
        waiting = []
        for leader, topics in by_leader.items():
            request = AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=self.truth.brokers[leader].epoch,
                topics=[AlterPartitionRequestTopic(*each) for each in topics.items()],
            )
            waiting.append(self.ask(leader, request))
        self.until(lambda: all(waiting), "in-sync sets")


def run(*, quick: bool = False) -> list[Row]:
    scale = 10 if quick else 1
    brokers, partitions = BROKERS // scale, PARTITIONS // scale
    fleet = Fleet(brokers)
    rows: list[Row] = []
    total_s = 0.0

    def measure(name: str, work: Callable[[], int]) -> None:
        nonlocal total_s
        began_s = time.process_time()
        virtual_ms = work()
        took_s = time.process_time() - began_s
        total_s += took_s
        sys.stderr.write(f"{name}: {took_s:.1f} s CPU, {virtual_ms / 1_000:.1f} s virtual\n")
        rows.append(published(f"{name} ({virtual_ms / 1_000:.1f} s virtual)", "s CPU", took_s))

    measure(f"start of {brokers} brokers", fleet.start)
    measure(f"create {partitions:,} partitions", lambda: fleet.create(partitions))
    measure("a broker dies, until it is fenced", lambda: fleet.fence(fleet.brokers[3]))
    measure("the controller dies, until another is active", fleet.kill_controller)
    measure(f"rolling restart of {brokers} brokers", fleet.roll)
    images = {id(each.image) for each in fleet.cluster.processes() if not each.link.is_active}
    assert len(images) <= _KEPT, len(images)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / _MB
    rows.append(at_most("all of it", "s CPU", total_s, CPU_S))
    rows.append(at_most("most memory", "MiB", peak_mb, MEMORY_MB))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    # A failover makes every broker say that its heartbeat failed.
    logging.disable(logging.WARNING)
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
