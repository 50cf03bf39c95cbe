"""Quorum agents under chance: kills with power loss, cuts, writes; what was committed stays.

`sim.quorum` proves the rules on ten thousand seeds; here a few seeds go through the real disk code,
the real wire and the real calls."""

import pytest

from ledgerstone.sim.dice import SeededDice
from tests.kit.quorum_agents import Net, Node, static_settings

STEPS = 60


class Book:
    """What some node has called committed: the records at each offset, never to change."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, int]] = {}
        self.names: list[str] = []

    def look(self, node: Node) -> None:
        for batch in node.machine.batches:
            known = self.batches.setdefault(batch.base_offset, (batch.next_offset, batch.epoch))
            assert known == (batch.next_offset, batch.epoch), (node.id, batch)
        node.machine.batches.clear()
        names = node.machine.names
        shorter = min(len(names), len(self.names))
        assert names[:shorter] == self.names[:shorter], node.id
        if len(names) > len(self.names):
            self.names = list(names)


@pytest.mark.parametrize("seed", range(6))
def test_committed_metadata_survives_whatever_happens(seed: int) -> None:
    dice, net, book = SeededDice(f"agents {seed}"), Net(), Book()
    settings = {"metadata_log_max_record_bytes_between_snapshots": "3000"}
    for node_id in (1, 2, 3):
        net.add(node_id, static_settings(node_id, (1, 2, 3), **settings)).start()
    acknowledged: list[str] = []
    for step in range(STEPS):
        node = net.nodes[1 + dice.below(3)]
        others_up = sum(each.agent is not None for each in net.nodes.values() if each is not node)
        match dice.below(8):
            case 0 if node.agent is not None and others_up == 2:
                node.kill(loses_power=dice.below(2) == 0)
            case 1 if node.agent is None:
                node.is_cut = False
                node.start()
            case 2:
                node.is_cut = not node.is_cut and not any(n.is_cut for n in net.nodes.values())
            case _:
                write(net, f"{seed}-{step}", acknowledged)
        net.run(50 + dice.below(900))
        for each in net.nodes.values():
            book.look(each)
    # Faults end; everyone agrees, and nothing that was acknowledged is missing.
    for each in net.nodes.values():
        each.is_cut = False
        if each.agent is None:
            each.start()
    net.run_until(lambda: net.leader is not None)
    leader = net.leader
    assert leader is not None
    leader.write("last")
    net.run_until(lambda: all(each.machine.names[-1:] == ["last"] for each in net.nodes.values()))
    for each in net.nodes.values():
        book.look(each)
        assert each.halts == []
        assert set(acknowledged) <= set(each.machine.names)
    assert acknowledged


def write(net: Net, name: str, acknowledged: list[str]) -> None:
    """Acknowledged if it is committed where it was proposed, in the epoch that proposed it."""
    leaders = [each for each in net.nodes.values() if each.is_leader]
    if not leaders:
        return
    leader = leaders[0]
    epoch, end = leader.machine.led_epoch, leader.write(name)
    net.run(200)
    is_leading = leader.agent is not None and leader.machine.led_epoch == epoch
    if is_leading and leader.raft.high_watermark >= end:
        acknowledged.append(name)
