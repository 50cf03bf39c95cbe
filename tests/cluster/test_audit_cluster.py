"""The audit logs of three brokers in one topic, read with a client, across lost leaders."""

from pathlib import Path

from ledgerstone.cli.audit_topic import ChainName, read_topic
from ledgerstone.metadata.topic_names import AUDIT
from ledgerstone.security.audit_chain import ChainEnd
from ledgerstone.security.audit_check import ChainCheck
from ledgerstone.server.auditing.audit_feed import AuditFeed
from ledgerstone.server.auditing.auditor import Auditor
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.testing.cluster import LedgerstoneCluster, NodeUnderTest
from ledgerstone.testing.waiting import wait_until


class AuditedCluster(LedgerstoneCluster):
    """Each node has an audit log of its own."""

    def _settings(self, node: NodeUnderTest) -> dict[str, str]:
        directory = node.directory.with_name(f"audit-{node.id}")
        return {
            **super()._settings(node),
            "ledgerstone.audit.dir": str(directory),
            "ledgerstone.audit.topic.enable": "true",
        }

    def auditor(self, node_id: int) -> Auditor:
        found = self.on(node_id, lambda it: it.broker.auditor)
        assert found is not None
        return found

    def feed(self, node_id: int) -> AuditFeed:
        found = self.auditor(node_id).feed
        assert found is not None
        return found

    def heads(self) -> dict[int, ChainEnd]:
        return {each: self.auditor(each).file.link for each in self.running}

    def lags(self) -> list[int]:
        return [self.feed(each).lag for each in self.running]

    def followed(self) -> None:
        wait_until(lambda: not any(self.lags()), "the topic has every line", describe=self.said)

    def said(self) -> str:
        return str([self.feed(each).trouble for each in self.running])

    def checked(self) -> dict[ChainName, ChainCheck]:
        checks: dict[ChainName, ChainCheck] = {}
        with self.client() as client:
            for line in read_topic(client):
                checks.setdefault(line.chain, ChainCheck()).take_any(line.data)
        for each in checks.values():
            each.finish()
        return checks


def _seal(running: RunningBroker) -> None:
    auditor = running.broker.auditor
    assert auditor is not None
    assert auditor.upkeep is not None
    auditor.upkeep.seal()
    running.runtime.wake()


def test_lines_of_all_nodes_are_in_the_topic_after_leaders_were_lost(tmp_path: Path) -> None:
    with AuditedCluster(tmp_path) as cluster:
        cluster.topic("tea")
        cluster.followed()
        first = cluster.checked()
        topic = cluster.on(1, lambda it: it.broker.image.topics[AUDIT])

        for turn, lost in enumerate((cluster.leader_of(AUDIT), cluster.controller)):
            cluster.kill(lost)
            cluster.leader_of(AUDIT)
            cluster.topic(f"coffee-{turn}", replicas=2)
            cluster.start(lost)
            cluster.wait_in_sync()
        for node_id in cluster.running:
            cluster.on(node_id, _seal)
        cluster.followed()

        checks, heads = cluster.checked(), cluster.heads()

    assert len(topic.partitions[0].replicas) == 3
    assert sorted(each.node for each in first) == [1, 2, 3]
    assert checks.keys() == first.keys(), "a restart goes on with its chain"
    assert all(each.first == 1 for each in checks.values())
    for name, check in checks.items():
        # The reader may have been a moment earlier than the question for the heads.
        assert 0 <= heads[name.node].seq - check.end.seq <= 2, (name, check.end, heads)
        assert check.sealed_to
