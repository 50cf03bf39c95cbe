"""Erasures on a cluster under test: asked for at any node, followed over failovers, and looked for
in the files of every node."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ledgerstone.client.cluster_admin import reassign
from ledgerstone.erasure.receipt import ReceiptVerdict, verify
from ledgerstone.testing.cluster import LedgerstoneCluster
from ledgerstone.testing.local_api import CallRefused
from ledgerstone.testing.waiting import wait_until
from ledgerstone.types import TopicPartition

KEY = "alice@example.org"
TOPIC = "customers"
TIMEOUT_S = 60.0


class Story:
    def __init__(self, cluster: LedgerstoneCluster) -> None:
        self.cluster = cluster
        self.asked_at: int | None = None  # None: at the first that runs

    # -- what users do --------------------------------------------------------------------------

    def topic(self, *, partitions: int = 1, replicas: int = 3, **configs: Any) -> None:
        self.cluster.topic(
            TOPIC, compacted=True, partitions=partitions, replicas=replicas, **configs
        )

    def put(self, *pairs: tuple[str, str]) -> None:
        for key, value in pairs or ((KEY, "Ulm"), ("bob", "Bonn"), (KEY, "Aachen")):
            self.cluster.produce(TOPIC, key, value)
        self.cluster.wait_in_sync(TOPIC)

    def erase(self, node_id: int = 1, key: str = KEY, **content: Any) -> str:
        fields = {"reason": "ticket 4711", "requested_by": "clerk", **content}
        encoded = b64encode(key.encode()).decode()
        made = self.cluster.nodes[node_id].api.post(
            f"topics/{TOPIC}/erasures", key=encoded, **fields
        )
        return str(made["erasures"][0]["id"])

    def look(self, erasure_id: str, node_id: int | None = None) -> dict[str, Any]:
        node_id = node_id or self.asked_at or self.cluster.running[0]
        return self.cluster.nodes[node_id].api.get(f"erasures/{erasure_id}")

    # -- time -----------------------------------------------------------------------------------

    def run(self, erasure_id: str, *, until: str | None = None) -> dict[str, Any]:
        """Moves the clock from one due moment to the next, as `erase --wait` does."""
        order = ["requested", "searched", "tombstoned", "stamped", "removed", "unlinked"]
        order += ["verified", "receipted"]
        seen: dict[str, Any] = {}

        def is_there() -> dict[str, Any] | None:
            nonlocal seen
            try:
                seen = self.look(erasure_id)
            except CallRefused:
                # Between two coordinators.
                return None
            if seen["is_over"]:
                return seen
            if until is not None and order.index(seen["stage"]) >= order.index(until):
                return seen
            until_ms = seen["waits_until_ms"]
            if until_ms is not None and until_ms > seen["now_ms"]:
                self.cluster.clock.advance(ms=until_ms - seen["now_ms"] + 1)
            return None

        return wait_until(
            is_there,
            f"{erasure_id} is {until or 'over'}",
            TIMEOUT_S,
            lambda: f"{seen.get('stage')}: {seen.get('waits_for')}",
        )

    def wait_for(self, erasure_id: str, text: str) -> dict[str, Any]:
        """Until it waits for what holds this text; the clock moves on meanwhile."""
        seen: dict[str, Any] = {}

        def waits() -> dict[str, Any] | None:
            nonlocal seen
            try:
                seen = self.look(erasure_id)
            except CallRefused:
                return None
            if text in str(seen["waits_for"]):
                return seen
            assert not seen["is_over"], seen
            until_ms = seen["waits_until_ms"]
            if until_ms is not None and until_ms > seen["now_ms"]:
                self.cluster.clock.advance(ms=until_ms - seen["now_ms"] + 1)
            return None

        return wait_until(
            waits, f"it waits for {text}", TIMEOUT_S, lambda: str(seen.get("waits_for"))
        )

    # -- evidence -------------------------------------------------------------------------------

    def receipt(self, erasure_id: str, node_id: int | None = None) -> dict[str, Any]:
        """Verified against the key that any node names."""
        node_id = self.cluster.running[0] if node_id is None else node_id
        api = self.cluster.nodes[node_id].api
        content = api.get(f"erasures/{erasure_id}/receipt")
        data = (json.dumps(content, sort_keys=True, indent=2) + "\n").encode()
        public_key = api.get("erasures-public-key")["public_key"]
        verdict: ReceiptVerdict = verify(data, public_key=bytes.fromhex(public_key))
        assert verdict.ok, verdict.reasons
        assert verdict.is_trusted
        return content

    @property
    def coordinator(self) -> int:
        return self.cluster.leader_of("__erasures")

    def files_with(self, data: bytes, *node_ids: int) -> list[str]:
        return [
            f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
            for each in node_ids or self.cluster.nodes
            for path in files_under(self.cluster.nodes[each].directory)
            if data in path.read_bytes()
        ]

    def reassign(self, replicas: list[int]) -> None:
        """Returns when the new replicas are in sync."""
        with self.cluster.client() as client:
            reassign(client, {TopicPartition(TOPIC, 0): replicas})
        wait_until(
            lambda: sorted(self.replicas()) == sorted(replicas), "the partition is moved", TIMEOUT_S
        )

    def replicas(self, partition: int = 0) -> list[int]:
        image = self.cluster.on(self.cluster.running[0], lambda run: run.broker.image)
        state = image.partition(*TopicPartition(TOPIC, partition))
        assert state is not None
        return list(state.replicas)


def files_under(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        try:
            if path.is_file():
                yield path
        except FileNotFoundError:
            continue


Act = Callable[[Story], None]
