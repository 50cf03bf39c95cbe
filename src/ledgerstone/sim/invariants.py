"""What must hold: cheap checks after every step, costly ones at quiet points and at the end.

A checker has a name, which is what a failing script is shrunk by. `step` may look at numbers only;
`look` reads a whole node, right after each start and now and then; `end` also demands that what
was asked for has come to its end.
"""

from contextlib import suppress
from typing import NoReturn

from ledgerstone.erasure.erasure import Stage
from ledgerstone.errors import CorruptRecord, KafkaError, StorageError
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.sim.model import FoundRecord, NodeModel, read_records
from ledgerstone.sim.node import Node
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

# Ticks of one broker in one virtual second; it has ten or twenty when it works hard.
BUSY_TICKS = 500


class Checker:
    """Base: does nothing. `fail` names the checker."""

    def step(self, model: NodeModel) -> None: ...

    def look(self, model: NodeModel) -> None: ...

    def fail(self, detail: str) -> NoReturn:
        raise Violation(type(self).__name__, detail)


class LogBounds(Checker):
    """log start ≤ high watermark ≤ log end; none goes back while the process lives; the leader
    epoch never does."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, TopicPartition], tuple[int, int, int, int]] = {}
        self._epochs: dict[tuple[str, bytes, int], int] = {}

    def step(self, model: NodeModel) -> None:
        node = model.node
        assert node.broker is not None
        for partition in node.broker.partitions:
            log = partition.log
            start, high, end = log.log_start_offset, log.high_watermark, log.log_end_offset
            place = (node.name, partition.topic_partition)
            now = (node.boot, start, high, end)
            before = self._last.get(place)
            if before == now:
                continue
            self._last[place] = now
            if not start <= high <= end:
                self.fail(f"{place}: start {start}, high watermark {high}, end {end}")
            lives_on = before is not None and before[0] == node.boot
            if before is not None and lives_on and any(map(int.__gt__, before, now)):
                self.fail(f"{place}: {before[1:]} became {now[1:]}")
            self._check_epoch(node, partition.topic_id, place[1].partition, partition.leader_epoch)

    def _check_epoch(self, node: Node, topic_id: bytes, number: int, epoch: int) -> None:
        place = (node.name, topic_id, number)
        if epoch < self._epochs.get(place, -1):
            self.fail(f"{place}: leader epoch {self._epochs[place]} became {epoch}")
        self._epochs[place] = epoch


class NoBusyLoop(Checker):
    """Ticks in one virtual second are bounded: a broker never spins."""

    def __init__(self, world: World) -> None:
        self._world = world
        # By node: the second that is counted, and how many ticks there were before it.
        self._counted: dict[str, tuple[int, int]] = {}

    def step(self, model: NodeModel) -> None:
        node = model.node
        second = self._world.now_ms // 1000
        counted = self._counted.get(node.name)
        if counted is None or counted[0] != second:
            self._counted[node.name] = (second, node.ticks)
        elif node.ticks - counted[1] > BUSY_TICKS:
            self.fail(f"{node.name}: {node.ticks - counted[1]} ticks within one second")


class MachineInvariants(Checker):
    """What the broker's own machines say of themselves."""

    def look(self, model: NodeModel) -> None:
        broker = model.node.broker
        assert broker is not None
        try:
            for partition in broker.partitions:
                partition.log.check_invariants()
            broker.check_invariants()
        except AssertionError as error:
            self.fail(f"{model.node.name}: {error}")
        for tp, reason in broker.partitions.offline.items():
            # Where the disk refused to make it, it is tried again by the next start.
            if "[Errno" not in str(reason):
                self.fail(f"{model.node.name} cannot serve {tp}: {reason}")


class TopicsStay(Checker):
    """A topic that was acknowledged is there; one whose deletion was is not."""

    def look(self, model: NodeModel) -> None:
        assert model.node.broker is not None
        there = model.node.broker.image.topics
        for name, is_there in model.topics.items():
            if is_there and name not in there:
                self.fail(f"{model.node.name} lost the topic {name}")
            if not is_there and name in there:
                self.fail(f"{model.node.name} has the deleted topic {name}")


class CommitsStay(Checker):
    """A group finds the last commit that was acknowledged, or a later one that was tried."""

    def look(self, model: NodeModel) -> None:
        broker = model.node.broker
        assert broker is not None
        for (group, tp), commit in model.commits.items():
            found = broker.shards.committed_on(tp.topic).get(group, {}).get(tp.partition)
            offset = -1 if found is None else found.offset
            if broker.shards.are_loaded() and not commit.allows(offset):
                self.fail(
                    f"{group} {tp}: committed {commit.acked}, tried {commit.attempts}, "
                    f"found {offset}"
                )


class LogsHoldFacts(Checker):
    """Every fact is at its offset, once, in the order of its producer, as it was written."""

    def __init__(
        self, plain: tuple[str, ...] = ("plain",), compact: tuple[str, ...] = ("compact",)
    ) -> None:
        self._plain = plain
        self._compact = compact

    def look(self, model: NodeModel) -> None:
        broker = model.node.broker
        assert broker is not None
        for partition in broker.partitions:
            tp = partition.topic_partition
            if tp.topic not in (*self._plain, *self._compact):
                continue
            try:
                found = read_records(partition.log)
            except (KafkaError, StorageError) as error:
                self.fail(f"{tp} cannot be read: {error}")
            self._check_found(model, tp, found)
            if tp.topic in self._plain:
                self._check_plain(model, tp, found)
            else:
                self._check_compact(model, tp, found, partition.log.log_end_offset)

    def _check_found(self, model: NodeModel, tp: TopicPartition, found: list[FoundRecord]) -> None:
        previous = -1
        serials: dict[int, int] = {}
        last: dict[str, int] = {}
        for offset, serial, key, value in found:
            if offset <= previous:
                self.fail(f"{tp}: offset {offset} follows {previous}")
            previous = offset
            if serial < 0:
                if key not in model.doomed or value is not None:
                    self.fail(f"{tp}: nobody wrote {key!r} at {offset}")
                continue
            written = model.written[serial]
            if (written.topic_partition, written.key, written.value) != (tp, key, value):
                self.fail(f"{tp} offset {offset} is not record {serial} as it was written")
            if serial in serials and serial not in model.may_repeat:
                self.fail(f"{tp}: record {serial} is at {serials[serial]} and at {offset}")
            serials[serial] = offset
            if last.get(written.producer, -1) > serial and serial not in model.may_repeat:
                self.fail(
                    f"{tp}: {written.producer} wrote {serial} before {last[written.producer]}"
                )
            last[written.producer] = serial
            model.learn(tp, offset, serial)

    def _check_plain(self, model: NodeModel, tp: TopicPartition, found: list[FoundRecord]) -> None:
        there = {each.offset for each in found}
        lost = [offset for offset in model.facts.get(tp, {}) if offset not in there]
        if lost:
            self.fail(f"{tp} lost offsets {lost[:5]}")

    def _check_compact(
        self, model: NodeModel, tp: TopicPartition, found: list[FoundRecord], end_offset: int
    ) -> None:
        facts = model.facts.get(tp, {})
        latest: dict[bytes, int] = {}
        for offset in sorted(facts):
            latest[model.written[facts[offset]].key] = offset
        in_log = {each.key: each.offset for each in found}
        in_doubt = model.keys_in_doubt(tp)
        for key, offset in latest.items():
            if key in model.doomed or (key in in_doubt and key not in in_log):
                continue
            if offset >= end_offset:
                self.fail(f"{tp} ends at {end_offset}, {key!r} was at {offset}")
            if key in in_log:
                if in_log[key] != offset:
                    self.fail(f"{tp}: {key!r} ends at {in_log[key]}, not at {offset}")
            else:
                self._check_gone(model, tp, key, facts[offset])

    def _check_gone(self, model: NodeModel, tp: TopicPartition, key: bytes, serial: int) -> None:
        """A key may be gone once it was deleted and its tombstone has outlived its readers."""
        written, clock = model.written[serial], model.node.clock
        if written.value is not None:
            self.fail(f"{tp}: {key!r} is lost, record {serial}")
        lived_ms = clock.highest_wall_ms(written.sent_ms) - clock.lowest_wall_ms(written.sent_ms)
        if lived_ms < model.delete_retention_ms:
            self.fail(f"{tp}: the tombstone {serial} of {key!r} went after {lived_ms} ms")
        model.world.mark("a tombstone was dropped in time")


class ReceiptsAreTrue(Checker):
    """Of a key with a receipt no file of the broker holds a trace, compressed ones included: not
    as the broker sees its disk, and not as it would come back after power loss."""

    def __init__(self) -> None:
        self._seen_platter: dict[str, int] = {}
        self._open: dict[str, int] = {}

    def step(self, model: NodeModel) -> None:
        """The moment a receipt is written down is the moment it must be true."""
        broker = model.node.broker
        if broker is None or not model.asked:
            return
        journal = broker.erasing.journal
        count = len(journal.unfinished)
        before, self._open[model.node.name] = self._open.get(model.node.name, 0), count
        if count < before:
            for erasure_id, key in model.asked.items():
                found = journal.book.get(erasure_id)
                if found is not None and found.stage is Stage.RECEIPTED:
                    model.erased[erasure_id] = key
            self.look(model)

    def look(self, model: NodeModel) -> None:
        if not model.erased:
            return
        self._search(model, model.node.fs.files())
        # The second look costs a copy of the disk: once for each receipt.
        if self._seen_platter.get(model.node.name) != len(model.erased):
            self._seen_platter[model.node.name] = len(model.erased)
            unplugged = model.node.fs.clone()
            unplugged.power_loss("none")
            self._search(model, unplugged.files())

    def _search(self, model: NodeModel, files: dict[str, bytes]) -> None:
        for erasure_id, key in model.erased.items():
            for path, content in files.items():
                if key in content:
                    self.fail(f"{erasure_id}: {key!r} is in {path}")
                if path.endswith(".log") and key in _keys_of(content):
                    self.fail(f"{erasure_id}: {key!r} is a record of {path}")


def _keys_of(log: bytes) -> set[bytes]:
    """Up to the first bytes that are no batch: what was not synced may be anything."""
    keys: set[bytes] = set()
    with suppress(CorruptRecord):
        for position, header in iter_headers(log):
            if not header.is_control:
                keys.update(bytes(each.key or b"") for each in iter_records(log, position))
    return keys


def all_checkers(world: World) -> list[Checker]:
    return [
        LogBounds(),
        NoBusyLoop(world),
        MachineInvariants(),
        TopicsStay(),
        CommitsStay(),
        LogsHoldFacts(),
        ReceiptsAreTrue(),
    ]
