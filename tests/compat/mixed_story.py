"""A broker of one program joins a cluster of the other one, and leads it for a while.

Clients append, read, commit and run transactions all the time; their history is judged at the end,
and so are the files of all replicas.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.nemesis.clients import (
    LOG,
    LOG_PARTITIONS,
    TABLE,
    TABLE_PARTITIONS,
    Worker,
    our_client,
)
from bench.nemesis.episode import all_workers, await_progress, end_all
from bench.nemesis.last_look import compare_files, read_replicas, read_through_clients
from bench.nemesis.recorder import Recorder
from golden.cluster_plan import BROKER, CONTROLLER, ClusterPlan, PlannedNode
from golden.kafka_broker import free_port
from golden.kafka_tools import fetch_jars
from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.sim.history.check import check
from tests.compat.mixed import WITHOUT_NEW_GROUPS
from tests.compat.wire import ask
from tests.kit.broker import wait_until
from tests.kit.nodes import Cluster

CONTROLLER_ID: Final = 1
HOME: Final = (2, 3)
GUEST: Final = 4
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT: Final = "org.apache.kafka.tools.LeaderElectionCommand"
SETTINGS: Final = {
    "min.insync.replicas": "2",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "2",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "10000",
    # The tool does it.
    "auto.leader.rebalance.enable": "false",
    "log.segment.bytes": "1048576",
    "group.min.session.timeout.ms": "1000",
}
LIMIT_S: Final = 120.0
SEED: Final = 19


class MixedStory:
    def __init__(self, cluster: Cluster, recorder: Recorder, work: Path) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self._work = work
        self._workers: Sequence[Worker] = ()
        self._plans = 0

    # -- clients ------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        return ",".join(self.cluster[each].planned.bootstrap for each in HOME)

    def begin(self) -> None:
        """Topics on the brokers at home, and clients that use them."""
        with our_client(self.bootstrap, "creator", 30_000) as client:
            for name, count, configs in (
                (LOG, LOG_PARTITIONS, {}),
                (TABLE, TABLE_PARTITIONS, {"cleanup.policy": "compact"}),
            ):
                topic = NewTopic(name=name, partitions=count, replication_factor=2, configs=configs)
                create_topic(client, topic)
        self.recorder.topic(LOG)
        self.recorder.topic(TABLE, compacted=True)
        self._workers = all_workers(self.bootstrap, self.recorder, SEED)
        for each in self._workers:
            each.start()
        self.progress("the first start")

    def progress(self, after: str) -> None:
        """Clients get on, those of transactions and groups too."""
        kinds = ("commits ok", "OffsetCommitted", "RecordsRead")
        before = {each: self.recorder.counts[each] for each in kinds}
        await_progress(self.recorder, after)
        for kind in kinds:
            wait_until(
                lambda kind=kind: self.recorder.counts[kind] > before[kind] + 3,  # type: ignore[misc]
                f"{kind} after {after}",
                LIMIT_S,
            )

    def end(self) -> list[str]:
        """What is wrong with the history and the files; empty if nothing is."""
        end_all(self._workers, self.recorder)
        wait_until(self.is_whole, "all replicas are in sync", LIMIT_S)
        ends = read_through_clients(self.bootstrap, self.recorder)
        brokers = [self.cluster[each] for each in (*HOME, GUEST)]
        self.cluster.kill()
        read_replicas(brokers, self.recorder, ends)
        compare_files(brokers, self.recorder, ends)
        found = [str(each) for each in check(self.recorder.history)]
        return [*found, *self.recorder.complaints]

    # -- replicas -----------------------------------------------------------------------------

    def partitions(self, via: int = HOME[0]) -> dict[tuple[str, int], Any]:
        said: Any = ask(self.cluster[via].planned.bootstrap, MetadataRequest(topics=None), 12)
        return {
            (topic.name, each.partition_index): each
            for topic in said.topics
            for each in topic.partitions
        }

    def is_whole(self) -> bool:
        ids = [each.node_id for each in self.cluster.running if each.planned.is_broker]
        return all(
            each.leader_id > 0 and set(each.isr_nodes) == set(each.replica_nodes)
            for via in ids
            for each in self.partitions(via).values()
        )

    def move_to(self, *replicas: int) -> None:
        """Every partition, the internal ones too, by Kafka's tool."""
        self._plans += 1
        file = self._work / f"plan-{self._plans}.json"
        plan = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for topic, number in self.partitions()
        ]
        file.write_text(json.dumps({"version": 1, "partitions": plan}))
        arguments = ("--reassignment-json-file", str(file))
        said = self.tool(REASSIGN, *arguments, "--execute")
        assert "Successfully started partition reassignments" in said, said
        wait_until(
            lambda: all(
                set(each.replica_nodes) == set(each.isr_nodes) == set(replicas)
                for each in self.partitions().values()
            ),
            f"every partition is on {replicas}",
            LIMIT_S,
        )
        said = self.tool(REASSIGN, *arguments, "--verify")
        assert said.count("is completed") == len(plan), said

    def elect(self, leader: int) -> None:
        """The first of the replicas leads every partition, by Kafka's tool."""
        self.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
        wait_until(
            lambda: all(
                each.leader_id == leader
                for via in (*HOME, GUEST)
                for each in self.partitions(via).values()
            ),
            f"broker {leader} leads every partition",
            LIMIT_S,
        )

    def tool(self, name: str, *arguments: str) -> str:
        assert self.cluster.jars is not None
        command = self.cluster.jars.java(name, "--bootstrap-server", self.bootstrap, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def mixed_story(home: str, guest: str, work: Path) -> Iterator[MixedStory]:
    """One controller and two brokers at home; the guest is formatted and not started."""
    nodes = [
        PlannedNode(node_id=CONTROLLER_ID, roles=CONTROLLER, port=0, controller_port=free_port())
    ]
    nodes += [
        PlannedNode(node_id=each, roles=BROKER, port=free_port(), controller_port=0)
        for each in (*HOME, GUEST)
    ]
    cluster = Cluster(
        plan=ClusterPlan(nodes=nodes, settings=SETTINGS, features=WITHOUT_NEW_GROUPS),
        work=work,
        jars=fetch_jars(),
        kinds={CONTROLLER_ID: home, **dict.fromkeys(HOME, home), GUEST: guest},
    )
    cluster.format()
    with cluster, Recorder(work / "history.jsonl") as recorder:
        cluster.start(CONTROLLER_ID)
        cluster.start(*HOME)
        yield MixedStory(cluster, recorder, work)
