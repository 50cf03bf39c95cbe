"""The everyday mix: idempotent producers, a group that reads, operators, erasures.

A compacted topic has half of the producers and the erasures, a plain one the others and the group.
"""

from ledgerstone.records.batch import Codec
from ledgerstone.sim.clients.admin import Admin, Eraser
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.member import Member
from ledgerstone.sim.clients.producer import Keys, Producer
from ledgerstone.sim.invariants import all_checkers
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.workloads.workload import Scene, WorldChecker, wire_of
from ledgerstone.types import TopicPartition

PLAIN = [TopicPartition("plain", 0), TopicPartition("plain", 1)]
COMPACT = [TopicPartition("compact", 0)]


class MixedWorkload:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.world, self.config = scene.world, scene.config
        self.checkers: list[WorldChecker] = [*all_checkers(scene.world)]
        self.models: list[NodeModel] = []
        self.producers: list[Producer] = []
        self.members: list[Member] = []
        self.admins: list[Admin] = []
        self.erasers: list[Eraser] = []

    def settings(self) -> dict[str, str]:
        return {}

    def add_clients(self, model: NodeModel) -> None:
        config, node = self.config, model.node
        self.models.append(model)
        admin = Admin(
            self.world,
            wire_of(self._scene, f"{node.name}-admin", node),
            model,
            extra_topics=config.extra_topics,
            every_ms=3_000,
        )
        self.admins.append(admin)
        node.start()
        plain = {"retention.ms": "-1", "segment.bytes": str(config.segment_bytes)}
        compact = {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.segment_bytes),
            "delete.retention.ms": str(config.delete_retention_ms),
            "min.cleanable.dirty.ratio": str(config.dirty_percent / 100),
            "file.delete.delay.ms": "500",
        }
        admin.create("compact", 1, compact, lambda: self._add_writers(model))
        admin.create("plain", len(PLAIN), plain, lambda: self._add_members(model))

    def _add_writers(self, model: NodeModel) -> None:
        """To both topics; the keys to be erased are a few of the compacted one's."""
        config, node = self.config, model.node
        doomed = [b"erase-me-%d" % n for n in range(config.erasures)]
        names = [b"key-%d" % n for n in range(config.keys)]
        writers = []
        for number in range(config.producers):
            is_compact = number % 2 == 0
            producer = Producer(
                self.world,
                wire_of(self._scene, f"{node.name}-p{number}", node),
                model,
                partitions=COMPACT if is_compact else PLAIN,
                keys=Keys(
                    names=[*names, *doomed] if is_compact else names,
                    tombstone_percent=config.tombstone_percent if is_compact else 0,
                ),
                batches=config.batches,
                pace_ms=config.pace_ms,
                max_in_flight=config.in_flight,
                codecs=(Codec.NONE, Codec.GZIP) if config.compresses else (Codec.NONE,),
            )
            self.producers.append(producer)
            if is_compact:
                writers.append(producer)
        eraser = Eraser(
            self.world,
            f"{node.name}-eraser",
            model,
            topic="compact",
            producers=writers,
            keys=list(doomed),
            every_ms=2_500,
        )
        self.erasers.append(eraser)

    def _add_members(self, model: NodeModel) -> None:
        node, book = model.node, GroupBook("g")
        for number in range(self.config.members):
            name = f"{node.name}-m{number}"
            member = Member(
                self.world,
                wire_of(self._scene, name, node),
                wire_of(self._scene, f"{name}-reads", node),
                model,
                book=book,
                partitions=PLAIN,
                joins_at_ms=number * 700,
            )
            self.members.append(member)

    # -- running ------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> None:
        if self.members:
            member = self.members[fault.number("which") % len(self.members)]
            member.die(fault.number("down"))

    def heal(self) -> None:
        for producer in self.producers:
            producer.stop()
        for admin in self.admins:
            admin.stop()
        for eraser in self.erasers:
            eraser.stop()

    def unfinished(self) -> list[str]:
        left = [
            f"{each.name} has unanswered batches" for each in self.producers if not each.is_done
        ]
        left += [f"{each.wire.name} is not answered" for each in self.admins if not each.is_done]
        for eraser in self.erasers:
            left += [f"erasure {each} has no receipt" for each in eraser.open]
            if not eraser.is_done:
                left.append(f"{eraser.name} waits")
        return left or self._unread()

    def end(self, model: NodeModel) -> None:
        """The checkers have looked; nothing else is demanded."""

    def _unread(self) -> list[str]:
        """Each group reads to the end of what it subscribed."""
        left = []
        for node in (model.node for model in self.models):
            members = [each for each in self.members if each.model.node is node]
            if not members:
                continue
            if node.broker is None:
                left.append(f"{node.name} is down")
                continue
            owners: dict[TopicPartition, int] = {}
            for member in members:
                if member.membership.generation_id == member.book.last_generation_id:
                    for tp in member.membership.owned:
                        owners[tp] = member.positions.get(tp, 0)
            for tp in PLAIN:
                partition = node.broker.partitions.find(tp)
                if partition is None or owners.get(tp, -1) < partition.log.log_end_offset:
                    left.append(f"{node.name} {tp} is read up to {owners.get(tp)}")
        return left
