"""Transactions end to end: writers fill `input`, workers turn each input into one output.

Writers also keep keys of `ledger`, which is compacted. Readers of both isolation levels look on.
Workers die, come back, or stand still while another process takes their place: zombies.
"""

from ledgerstone.dataclasses import dataclass
from ledgerstone.records.batch import Codec
from ledgerstone.sim.attempts import TxnBook
from ledgerstone.sim.clients.admin import Admin
from ledgerstone.sim.clients.dialects import JAVA_3, JAVA_4, LIBRDKAFKA, Dialect
from ledgerstone.sim.clients.gate import ClientProcess
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.producer import Keys, Producer
from ledgerstone.sim.clients.reader import TxnReader
from ledgerstone.sim.clients.transactional import TxnClient
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.clients.worker import TxnWorker
from ledgerstone.sim.clients.writer import TxnWriter
from ledgerstone.sim.crash_points import points_on_disk
from ledgerstone.sim.invariants import (
    LogBounds,
    LogsHoldFacts,
    MachineInvariants,
    NoBusyLoop,
    TopicsStay,
)
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.node import Node
from ledgerstone.sim.script_text import Fault
from ledgerstone.sim.txn_invariants import AtRest, LogCourt, StableOffsets, unfinished, verdict_of
from ledgerstone.sim.workloads.workload import Scene, WorldChecker, wire_of
from ledgerstone.types import TopicPartition

INPUT = [TopicPartition("input", number) for number in range(2)]
OUTPUT = [TopicPartition("output", number) for number in range(3)]
LEDGER = TopicPartition("ledger", 0)
_DIALECTS: dict[int, tuple[Dialect, ...]] = {
    1: (LIBRDKAFKA, JAVA_3),
    2: (JAVA_4,),
    3: (JAVA_4, LIBRDKAFKA, JAVA_4, JAVA_3),
}


@dataclass(slots=True)
class _Slot:
    """A place for a worker: one transactional id, one process after the other."""

    number: int
    model: NodeModel
    dialect: Dialect
    worker: TxnWorker
    lives: int = 1

    @property
    def is_empty(self) -> bool:
        return self.worker.gate.is_dead


class TransactionsWorkload:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.world, self.config = scene.world, scene.config
        self.books: dict[str, TxnBook] = {}
        self.checkers: list[WorldChecker] = [
            LogBounds(),
            NoBusyLoop(scene.world),
            MachineInvariants(),
            TopicsStay(),
            LogsHoldFacts(plain=("input", "output"), compact=()),
            StableOffsets(),
            LogCourt(self.books),
        ]
        self._groups: dict[str, GroupBook] = {}
        self._slots: list[_Slot] = []
        self._zombies: list[TxnWorker] = []
        self._writers: list[TxnWriter] = []
        self._producers: list[Producer] = []
        self._readers: list[TxnReader] = []
        self._admins: list[Admin] = []
        self._is_healed = False

    def settings(self) -> dict[str, str]:
        return {
            "transaction.state.log.num.partitions": str(self.config.state_partitions),
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
            "transactional.id.expiration.ms": str(self.config.id_lives_ms),
        }

    # -- making -------------------------------------------------------------------------------

    def add_clients(self, model: NodeModel) -> None:
        config, node = self.config, model.node
        book = self.books[node.name] = TxnBook(model, config.id_lives_ms)
        self._groups[node.name] = GroupBook("g")
        node.on_start.append(lambda _: self._mark_points(book))
        admin = Admin(
            self.world,
            wire_of(self._scene, f"{node.name}-admin", node),
            model,
            extra_topics=0,
            every_ms=3_000,
        )
        self._admins.append(admin)
        node.start()
        plain = {"retention.ms": "-1", "segment.bytes": str(config.segment_bytes)}
        compact = {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.segment_bytes),
            "delete.retention.ms": str(config.delete_retention_ms),
            "min.cleanable.dirty.ratio": str(config.dirty_percent / 100),
            "file.delete.delay.ms": "500",
        }

        def make_ledger() -> None:
            admin.create(LEDGER.topic, 1, compact, lambda: self._begin(book))

        def make_output() -> None:
            admin.create("output", len(OUTPUT), plain, make_ledger)

        admin.create("input", len(INPUT), plain, make_output)

    def _mark_points(self, book: TxnBook) -> None:
        if book.model.node.boot > 1:
            for point in points_on_disk(book):
                self.world.mark(point)

    def _begin(self, book: TxnBook) -> None:
        config, model = self.config, book.model
        keys = Keys(
            names=[b"key-%d" % n for n in range(config.keys)],
            tombstone_percent=config.tombstone_percent,
        )
        dialects = _DIALECTS[config.protocols]
        for number in range(config.writers):
            name = f"{model.node.name}-t{number}"
            producer = self._producer(
                book,
                name,
                name,
                dialects[(number + 1) % len(dialects)],
                ClientProcess(self.world, name),
            )
            self._writers.append(
                TxnWriter(
                    producer,
                    inputs=INPUT,
                    ledger=LEDGER,
                    keys=keys,
                    transactions=config.transactions,
                    pace_ms=config.pace_ms,
                    abort_percent=config.abort_percent,
                    dawdle_percent=config.dawdle_percent,
                )
            )
        for number in range(config.producers):
            self._producers.append(
                Producer(
                    self.world,
                    wire_of(self._scene, f"{model.node.name}-p{number}", model.node),
                    model,
                    partitions=INPUT,
                    keys=Keys(names=keys.names, tombstone_percent=0),
                    batches=config.batches,
                    pace_ms=config.pace_ms,
                    max_in_flight=config.in_flight,
                    codecs=(Codec.NONE,),
                )
            )
        for number in range(config.workers):
            dialect = dialects[number % len(dialects)]
            worker = self._worker(book, number, 0, dialect)
            self._slots.append(_Slot(number, model, dialect, worker))
        for number in range(config.readers):
            self._readers.append(
                TxnReader(
                    wire_of(self._scene, f"{model.node.name}-r{number}", model.node),
                    book,
                    partitions=[*INPUT, *OUTPUT, LEDGER],
                    is_committed=number == 0,
                )
            )

    def _producer(
        self,
        book: TxnBook,
        client: str,
        transactional_id: str,
        dialect: Dialect,
        gate: ClientProcess,
    ) -> TxnClient:
        return TxnClient(
            self._wire(f"{client}-txn", book.model.node, gate),
            book,
            client=client,
            transactional_id=transactional_id,
            dialect=dialect,
            timeout_ms=self.config.txn_timeout_ms,
            impatience_percent=self.config.impatience_percent,
            echoes=wire_of(self._scene, f"{client}-echo", book.model.node),
            echo_percent=self.config.echo_percent,
            dice=self.world.dice(f"workload/{client}/producer"),
        )

    def _worker(self, book: TxnBook, number: int, life: int, dialect: Dialect) -> TxnWorker:
        config, node = self.config, book.model.node
        name = f"{node.name}-w{number}.{life}"
        gate = ClientProcess(self.world, name)
        return TxnWorker(
            self._producer(book, name, f"{node.name}-w{number}", dialect, gate),
            self._wire(name, node, gate),
            self._wire(f"{name}-reads", node, gate),
            group=self._groups[node.name],
            inputs=INPUT,
            outputs=OUTPUT,
            joins_at_ms=0 if life else number * 700,
            abort_percent=config.abort_percent,
            dawdle_percent=config.dawdle_percent,
        )

    def _wire(self, name: str, node: Node, gate: ClientProcess) -> Wire:
        return Wire(self.world, self._scene.network, name, node, gate)

    # -- running ------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> None:
        which = fault.number("which") % max(len(self._slots) + len(self._writers), 1)
        if which >= len(self._slots):
            if self._writers and fault.kind == "client":
                self._writers[which - len(self._slots)].die()
            return
        slot = self._slots[which]
        if fault.kind == "zombie":
            self.world.mark("a worker stood still")
            slot.worker.gate.stand_still(fault.number("ms"))
            self._zombies.append(slot.worker)
            if fault.number("replaced"):
                self.world.mark("a worker became a zombie")
                self._replace(slot)
        elif not slot.is_empty:
            slot.worker.die()
            self.world.after(
                fault.number("down"), f"{slot.worker.name} is back", lambda: self._replace(slot)
            )

    def _replace(self, slot: _Slot) -> None:
        book = self.books[slot.model.node.name]
        slot.worker = self._worker(book, slot.number, slot.lives, slot.dialect)
        slot.lives += 1

    def heal(self) -> None:
        self._is_healed = True
        for zombie in self._zombies:
            zombie.gate.wake()
        for producer in self._producers:
            producer.stop()
        for writer in self._writers:
            writer.stop()
        for reader in self._readers:
            reader.stop()

    def unfinished(self) -> list[str]:
        left = [f"{each.name} is at work" for each in self._producers if not each.is_done]
        left += [f"{each.name} is at work" for each in self._writers if not each.is_done]
        left += [f"{each.wire.name} is not answered" for each in self._admins if not each.is_done]
        for reader in self._readers:
            left += reader.behind()
        if not left:
            for book in self.books.values():
                left += unfinished(book, verdict_of(book))
        return left

    def end(self, model: NodeModel) -> None:
        book = self.books[model.node.name]
        AtRest().judge(book, verdict_of(book))
