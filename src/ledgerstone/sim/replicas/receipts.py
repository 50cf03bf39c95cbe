"""Whether receipts are true: looked at the moment each is committed, on every disk. Part of sim.

A receipt says that no record of the key from before its tombstone is left. Here nobody writes a
key again once its erasure was asked for, so not one byte of it may lie in any file of any broker:
not as its process sees the disk, nor as the disk comes back after power loss. A broker that is down
counts like the others. A disk that was lost is gone.
"""

import json

from ledgerstone.erasure.erasure import Stage
from ledgerstone.erasure.receipt import verify
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.world import Violation, World


class ClusterReceipts:
    def __init__(self, world: World, nodes: list[ClusterNode]) -> None:
        self._world = world
        self._nodes = nodes
        self._asked: dict[str, bytes] = {}
        self._erased: dict[str, bytes] = {}
        self._signers: set[str] = set()

    def asked(self, erasure_id: str, key: bytes) -> None:
        self._asked[erasure_id] = key
        self.look()

    def look(self) -> None:
        """The moment a receipt is written down is the moment it must be true."""
        brokers = [each.broker for each in self._nodes] if self._asked else []
        for broker in brokers:
            for erasure_id in list(self._asked):
                found = None if broker is None else broker.erasing.journal.book.get(erasure_id)
                if found is not None and found.stage is Stage.RECEIPTED:
                    key = self._erased[erasure_id] = self._asked.pop(erasure_id)
                    self._judge(erasure_id, key, found.receipt or "")

    def look_again(self) -> None:
        """Nothing may bring a key back."""
        for erasure_id, key in self._erased.items():
            for node in self._nodes:
                self._search(erasure_id, key, node, node.fs.files())

    def _judge(self, erasure_id: str, key: bytes, receipt: str) -> None:
        self._world.mark("a receipt was issued")
        if any(not node.is_up for node in self._nodes):
            self._world.mark("a receipt while a broker was down")
        verdict = verify(receipt.encode())
        if not verdict.ok:
            raise Violation("ReceiptsVerify", f"{erasure_id}: {verdict.reasons}")
        content = json.loads(receipt)
        self._signers.add(content["public_key"])
        if len(self._signers) > 1:
            raise Violation("OneSigner", f"{erasure_id}: {', '.join(sorted(self._signers))}")
        # By what was signed: these are not scanned.
        named = {each["broker_id"] for each in content["lost_brokers"]}
        for node in self._nodes:
            if node.node_id in named and not node.is_up:
                continue
            self._search(erasure_id, key, node, node.fs.files())
            unplugged = node.fs.clone()
            unplugged.power_loss("none")
            self._search(erasure_id, key, node, unplugged.files())

    def _search(
        self, erasure_id: str, key: bytes, node: ClusterNode, files: dict[str, bytes]
    ) -> None:
        for path, content in files.items():
            if key in content:
                raise Violation(
                    "ReceiptsAreTrue", f"{erasure_id}: {key!r} is in {path} of {node.name}"
                )
