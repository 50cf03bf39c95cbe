"""Writes a key among others, has it erased, and looks until there is a receipt. Part of sim.

It speaks to the HTTP port of any broker: a call that is tried until it is answered, or until the
process behind it dies. A key whose fate is unknown (a write or a request without an answer) is left
alone, and another one is taken: a second erasure would write the key once more.
"""

import json
import re
from base64 import b64encode
from typing import Any, Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.fs import join
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.metadata.topic_names import ERASURES
from ledgerstone.server.broker import Broker
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.work import NotYet
from ledgerstone.server.http.api import ApiCall
from ledgerstone.server.http.server import HttpRequest, Page
from ledgerstone.sim.clients.script import Resting, Script
from ledgerstone.sim.clock import DEFAULT_START_MS
from ledgerstone.sim.node import DATA
from ledgerstone.sim.replicas.clients.operator import reassign
from ledgerstone.sim.replicas.clients.reach import Reach
from ledgerstone.sim.replicas.clients.writer import Writer
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.replicas.receipts import ClusterReceipts
from ledgerstone.sim.replicas.secrets import SecretMakers
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_TRY_MS: Final = 100
_CALL_MS: Final = 25_000
_LOOK_MS: Final = 1_500
# A host that is away for so long, and up to twice that; how long its partitions may take to move.
_AWAY_MS: Final = 12_000
_MOVE_MS: Final = 8_000
_HOUR_MS: Final = 3_600_000
_OK: Final = 200
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503
_STRAY: Final = re.compile(r"node (\d+): .*?\b0/(\S+-stray)/")


@dataclass(slots=True, kw_only=True)
class ClusterEraser:
    """`writer` has a history of its own for keys that are erased; `others` are keys that stay."""

    writer: Writer
    nodes: list[ClusterNode]
    receipts: ClusterReceipts
    makers: SecretMakers
    topic: str
    erasures: int
    # How often a host of the key is down while its partitions move away, and until when.
    moves_percent: int = 0
    moves_until_ms: int = 0
    _tries: int = 0

    @property
    def _reach(self) -> Reach:
        return self.writer.reach

    def script(self) -> Script[None]:
        yield Resting(1_000 + self._reach.dice.below(2_000))
        self.makers.watch()
        done = 0
        while done < self.erasures and not self._is_excused:
            self._tries += 1
            key = b"subject %d of %s." % (self._tries, self._reach.name.encode())
            if not (yield from self.writer.write_key(key)):
                continue
            if self._reach.dice.chance(self.moves_percent):
                yield from self._move_away()
            erasure_id = yield from self._ask(key)
            if erasure_id is not None:
                yield from self._await(erasure_id)
                done += 1

    @property
    def _is_excused(self) -> bool:
        """The journal, or what is erased, has lost its last copy."""
        return any(place.topic in (ERASURES, self.topic) for place in self._reach.excused)

    def _move_away(self) -> Script[None]:
        """A host of the key goes down, and its partitions move to others while it is away: the key
        is in its files when all who are assigned have forgotten it."""
        world, dice = self._reach.world, self._reach.dice
        states = self._states()
        hosts = sorted({each for state in states.values() for each in state.isr})
        away = self.nodes[dice.pick(hosts) - 1] if hosts else None
        if away is None or not away.is_serving or world.now_ms > self.moves_until_ms:
            return
        serving = {each.node_id for each in self.nodes if each.is_serving} - {away.node_id}
        if any(not serving & {*state.isr} for state in states.values()):
            return
        away.kill(None, _AWAY_MS + dice.below(_AWAY_MS))
        spare = sorted(serving - {each for state in states.values() for each in state.replicas})
        for place, state in states.items():
            left = [each for each in state.replicas if each != away.node_id]
            wanted = left if len(left) > 1 else [*left, *spare[:1]]
            while not away.is_up and not (yield from reassign(self._reach, place, wanted or spare)):
                yield self._reach.rest()
        until_ms = world.now_ms + _MOVE_MS
        while world.now_ms < until_ms and not away.is_up:
            if all(away.node_id not in each.replicas for each in self._states().values()):
                world.mark("a host was down while its partitions moved away")
                return
            yield Resting(_TRY_MS)

    def _states(self) -> dict[TopicPartition, PartitionImage]:
        """Of the topic, as the broker says that has heard most."""
        images = [each.broker.image for each in self.nodes if each.broker is not None]
        known = [image.topics[self.topic] for image in images if self.topic in image.topics]
        if not known:
            return {}
        newest = max(
            known, key=lambda each: sum(p.partition_epoch for p in each.partitions.values())
        )
        return {TopicPartition(self.topic, n): state for n, state in newest.partitions.items()}

    def _ask(self, key: bytes) -> Script[str | None]:
        """None where nobody knows whether it was taken."""
        content = {
            "key": b64encode(key).decode(),
            "reason": "ticket",
            "requested_by": "sim",
            "within_ms": 3_600_000,
        }
        status, answer = yield from self._call("POST", f"topics/{self.topic}/erasures", content)
        if status in (None, _UNAVAILABLE):
            yield self._reach.rest()
            return None
        if status != _OK:
            # A broker may not have heard of the topic yet.
            if status == _NOT_FOUND:
                yield self._reach.rest()
                return None
            raise Violation("ErasuresAnswer", f"POST got {status}: {answer}")
        (made,) = answer["erasures"]
        self.receipts.asked(made["id"], key)
        self._reach.world.note(f"{self._reach.name} erases {made['id']}")
        return str(made["id"])

    def _await(self, erasure_id: str) -> Script[None]:
        world = self._reach.world
        while not self._is_excused:
            yield Resting(_LOOK_MS)
            status, found = yield from self._call("GET", f"erasures/{erasure_id}", {})
            if status == _NOT_FOUND and not self._is_excused:
                self._judge_unknown(erasure_id)
            if status != _OK:
                continue
            if found["stage"] == "not_found" and not self._is_excused:
                raise Violation("ErasuresFind", f"{erasure_id}: the key was acknowledged")
            if found["is_over"]:
                world.note(f"{erasure_id} is {found['stage']}")
                return
            world.note(f"{erasure_id} {found['stage']}: {found['waits_for']} {found['blocked_by']}")
            if (found["waits_until_ms"] or 0) > DEFAULT_START_MS + world.now_ms + _HOUR_MS:
                world.mark("an erasure waits for days: a clock ran ahead")
                return
            self._remove_strays(found["blocked_by"] or "")
            yield from self._give_up_disks(erasure_id, found["blocked_by"])

    def _judge_unknown(self, erasure_id: str) -> None:
        """A leader of the journal that was replaced, and has not heard of it, says so in good
        faith, as every leader of Kafka's does; whoever leads now must know it."""
        leading = [
            (hosted.leader_epoch, each.broker.erasing)
            for each in self.nodes
            if each.broker is not None
            and (hosted := each.broker.partitions.find(JOURNAL)) is not None
            and hosted.is_leader
        ]
        current = max(
            (state.leader_epoch for each in self.nodes if (state := _journal_of(each)) is not None),
            default=-1,
        )
        for epoch, erasing in leading:
            is_lost = erasing.trouble is None and erasing.journal.book.get(erasure_id) is None
            if epoch == current and is_lost:
                raise Violation("ErasuresStay", f"{erasure_id} is not known in epoch {epoch}")
        self._reach.world.mark("a broker without news did not know an erasure")

    def _give_up_disks(self, erasure_id: str, blocked_by: str | None) -> Script[None]:
        """An operator says that a disk is destroyed. One that is not lost is never given up."""
        for node in self.nodes:
            if blocked_by and f"accept --broker {node.node_id}`" in blocked_by and node.disks > 1:
                content = {"broker": node.node_id, "by": "sim", "reason": "the disk is destroyed"}
                yield from self._call("POST", f"erasures/{erasure_id}/accept", content)
                self._reach.world.mark("a lost disk was given up")

    def _remove_strays(self, blocked_by: str) -> None:
        """What a broker has set aside is for an operator: who looks at it, and removes it."""
        for node_id, name in _STRAY.findall(blocked_by):
            node = self.nodes[int(node_id) - 1]
            directory = join(DATA, name)
            if node.is_up and node.fs.exists(directory):
                self._reach.world.mark("an operator removed a stray directory")
                for each in node.fs.list_dir(directory):
                    node.fs.unlink(join(directory, each))
                node.fs.fsync_dir(directory)
                node.fs.remove_dir(directory)
                node.fs.fsync_dir(DATA)

    # -- HTTP -----------------------------------------------------------------------------------

    def _call(
        self, method: str, path: str, content: dict[str, object]
    ) -> Script[tuple[int | None, Any]]:
        """Status and content; no status where the answer is lost."""
        reachable = self.makers.reachable()
        node = self._reach.dice.pick(reachable)
        request = HttpRequest(method, f"/api/v1/{path}", {}, {}, json.dumps(content).encode())
        calls: list[ApiCall] = []
        reasons: list[str] = []

        def attempt(broker: Broker) -> Page | None:
            if not calls:
                calls.append(ApiCall(broker, request))
            try:
                return calls[0].attempt()
            except NotYet as reason:
                reasons[:] = [str(reason)]
                return None

        boot, until_ms = node.boot, self._reach.world.now_ms + _CALL_MS
        while self._reach.world.now_ms < until_ms:
            if not node.is_serving or node.boot != boot:
                break
            if len(self.makers.reachable()) < len(reachable):
                # Whoever was to answer may be cut off.
                break
            page = node.call(attempt)
            if isinstance(page, Page):
                return page.status, json.loads(page.body)
            for reason in reasons:
                self._reach.world.note(f"{self._reach.name} waits: {reason}")
            yield Resting(_TRY_MS)
        yield self._reach.rest()
        return None, None


def _journal_of(node: ClusterNode) -> PartitionImage | None:
    return None if node.broker is None else node.broker.image.partition(*JOURNAL)
