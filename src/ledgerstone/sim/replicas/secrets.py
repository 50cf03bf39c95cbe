"""Leaders of the journal that make secrets and are lost, and what must come of it. Part of sim.

The first erasure makes secrets where the journal is led. Whoever is cut off before the journal
names them leaves a second leader to make its own. In the end the committed journal has named one
kind, every broker that may lead it has that, and every receipt is signed with it.
"""

from functools import partial
from typing import Final

from ledgerstone.erasure.sealing import public_key_of
from ledgerstone.erasure.secrets_file import load
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.sim.network import Network
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.world import Violation, World

_LOOK_MS: Final = 5
# After it was seen: at once, while others are offered them, or while their name is written.
_DELAYS_MS: Final = (0, 0, 10, 40, 150)


class SecretMakers:
    def __init__(
        self,
        world: World,
        network: Network,
        nodes: list[ClusterNode],
        *,
        lost: int,
        session_ms: int,
        until_ms: int,
    ) -> None:
        self._world = world
        self._network = network
        self._nodes = nodes
        self._lost = lost  # how many of them are
        self._session_ms = session_ms
        self._until_ms = until_ms
        self._dice = world.dice("secret makers")
        self._seen: set[str] = set()
        self._away: dict[str, int] = {}  # until when

    def reachable(self) -> list[ClusterNode]:
        """Whoever wants something asks these meanwhile, and one of them may make secrets, too."""
        now_ms = self._world.now_ms
        return [each for each in self._nodes if now_ms >= self._away.get(each.name, 0)]

    def watch(self) -> None:
        if not self._lost or self._world.now_ms > self._until_ms:
            return
        for node in self._nodes:
            if self._lost and node.name not in self._seen and _has_made(node):
                self._lost -= 1
                self._seen.add(node.name)
                delay_ms = self._dice.pick(_DELAYS_MS)
                self._world.after(delay_ms, f"{node.name} made secrets", partial(self._lose, node))
        self._world.after(_LOOK_MS, "who has made secrets", self.watch)

    def _lose(self, node: ClusterNode) -> None:
        if not _has_made(node):
            return
        self._world.mark("a broker that had made secrets was lost")
        away_ms = self._session_ms + self._dice.pick((500, 3_000, 6_000))
        self._away[node.name] = self._world.now_ms + away_ms
        if self._dice.chance(30):
            node.kill(None, away_ms)
            return
        # Clients reach it, and its own life goes on.
        for other in self._nodes:
            if other is not node:
                self._network.cut(node.name, other.name, self._world.now_ms + away_ms)
                self._network.cut(other.name, node.name, self._world.now_ms + away_ms)


def _has_made(node: ClusterNode) -> bool:
    """Secrets that no journal names, as far as it knows."""
    broker = node.broker
    hosted = None if broker is None else broker.partitions.find(JOURNAL)
    if broker is None or hosted is None or not hosted.is_leader:
        return False
    erasing = broker.erasing
    return erasing.journal.secrets_name is None and node.fs.exists(erasing.keys_path)


def check_secrets(nodes: list[ClusterNode], image: MetadataImage) -> None:
    """At rest: whoever may lead the journal has the secrets that it names."""
    journal = image.partition(*JOURNAL)
    leader = None if journal is None else nodes[journal.leader - 1].broker
    if journal is None or leader is None or leader.erasing.journal.secrets_name is None:
        return
    named = leader.erasing.journal.secrets_name
    for node in (nodes[each - 1] for each in journal.isr):
        broker = node.broker
        found = None if broker is None else load(node.fs, broker.erasing.keys_path)
        has = "none" if found is None else public_key_of(found.signing_seed).hex()
        if has != named:
            raise Violation("SecretsAgree", f"{node.name} has {has}, the journal names {named}")
