"""Read, process, write: one output for each input, and the positions in the same transaction.

A worker belongs to a group. What it reads is committed; what it writes and how far it has read are
committed together or not at all. After anything but a commit it asks the group where to go on.
"""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from ledgerstone.sim.attempts import TxnAttempt, WorkerInput
from ledgerstone.sim.clients.dialects import CannotCommit, Fenced
from ledgerstone.sim.clients.group_book import GroupBook
from ledgerstone.sim.clients.membership import TIMEOUT_MS, WAIT, Membership
from ledgerstone.sim.clients.polling import FETCH_VERSION, fetch_request, polled
from ledgerstone.sim.clients.script import Asking, Player, Resting, Script
from ledgerstone.sim.clients.transactional import GroupPlace, Parcel, TxnClient
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_OFFSET_FETCH_VERSION = 8
_BACKOFF_MS = 200
_FETCH_WAIT_MS = 500
_MAX_INPUTS = 6


class TxnWorker:
    """One process. The next one with the same transactional id is another worker."""

    def __init__(
        self,
        producer: TxnClient,
        joining: Wire,
        reading: Wire,
        *,
        group: GroupBook,
        inputs: list[TopicPartition],
        outputs: list[TopicPartition],
        joins_at_ms: int,
        abort_percent: int,
        dawdle_percent: int,
    ) -> None:
        self.name = producer.client
        self.producer, self.book, self.reading = producer, producer.book, reading
        self.gate = producer.wire.gate
        self._joining = joining
        self._dice = producer.wire.world.dice(f"workload/{self.name}")
        self._outputs = outputs
        self._abort_percent, self._dawdle_percent = abort_percent, dawdle_percent
        self.positions: dict[TopicPartition, int] = {}
        # The turn that `positions` were asked for; 0: they are not known.
        self._known_turn = 0
        self.membership = Membership(
            producer.wire.world,
            joining,
            self.book.model,
            book=group,
            partitions=inputs,
            joins_at_ms=joins_at_ms,
            on_assigned=lambda turn: None,
        )
        self._player = Player(self.gate, self._play())

    def die(self) -> None:
        """The process ends; its system closes what it had open."""
        self.gate.die()
        self.membership.stop()
        self.reading.hang_up()
        self.producer.wire.hang_up()

    def _play(self) -> Script[None]:
        yield from self.producer.start()
        while True:
            membership = self.membership
            if not membership.owned:
                yield Resting(_BACKOFF_MS)
                continue
            turn, place = membership.turn, self._place()
            try:
                if self._known_turn != turn:
                    yield from self._find_positions(turn)
                    continue
                inputs, positions = yield from self._poll()
                if not inputs:
                    self.positions.update(positions)
                    continue
                is_committed = yield from self._process(inputs, positions, place)
                self.positions.update(positions)
                if not is_committed:
                    self._known_turn = 0
            except Fenced:
                self._known_turn = 0
                if not (yield from self.producer.start_again()):
                    self.gate.world.note(f"{self.name} retires")
                    self.die()
                    return
            yield Resting(self._dice.below(300))

    def _place(self) -> GroupPlace:
        membership = self.membership
        return GroupPlace(membership.book.group, membership.generation_id, membership.member_id)

    # -- reading ------------------------------------------------------------------------------

    def _find_positions(self, turn: int) -> Script[None]:
        """Waits for transactions of whoever had the partitions before: `require_stable`."""
        owned = list(self.membership.owned)
        topics: dict[str, list[int]] = {}
        for tp in owned:
            topics.setdefault(tp.topic, []).append(tp.partition)
        group = OffsetFetchRequestGroup(
            group_id=self.membership.book.group,
            topics=[
                OffsetFetchRequestGroupTopic(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ],
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        expected = self.book.committed_positions()
        answer = yield Asking(self.reading, request, _OFFSET_FETCH_VERSION, TIMEOUT_MS)
        found = self._positions_in(answer)
        if found is None:
            yield Resting(_BACKOFF_MS)
            return
        for tp, position in found.items():
            self.book.check_position(self.name, tp, position, expected.get(tp, -1))
        if turn == self.membership.turn:
            self.positions = {tp: max(position, 0) for tp, position in found.items()}
            self._known_turn = turn

    def _positions_in(self, answer: object) -> dict[TopicPartition, int] | None:
        """None: not now."""
        if answer is None:
            return None
        group = answer.groups[0]  # type: ignore[attr-defined]
        codes = [group.error_code]
        codes += [each.error_code for topic in group.topics for each in topic.partitions]
        found = {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
        }
        for code in codes:
            if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.gate.world.mark("a worker waited for a transaction before it")
                return None
            if code in WAIT:
                return None
            if code != ErrorCode.NONE:
                raise Violation("GroupAnswers", f"OffsetFetch got {ErrorCode(code).name}")
        return found

    def _poll(self) -> Script[tuple[list[WorkerInput], dict[TopicPartition, int]]]:
        request = fetch_request(
            self.positions, is_committed=True, max_bytes=1 << 16, wait_ms=_FETCH_WAIT_MS
        )
        answer = yield Asking(self.reading, request, FETCH_VERSION, TIMEOUT_MS)
        inputs: list[WorkerInput] = []
        positions: dict[TopicPartition, int] = {}
        if answer is None:
            yield Resting(_BACKOFF_MS)
            return inputs, positions
        for each in polled(self.book, self.name, self.positions, answer, is_committed=True):
            tp, taken = each.topic_partition, each.records[: _MAX_INPUTS - len(inputs)]
            inputs += [WorkerInput(tp, record.offset, record.serial) for record in taken]
            is_whole = len(taken) == len(each.records)
            if is_whole:
                positions[tp] = each.next_offset
            elif taken:
                positions[tp] = taken[-1].offset + 1
        return inputs, positions

    # -- writing ------------------------------------------------------------------------------

    def _process(
        self, inputs: list[WorkerInput], positions: dict[TopicPartition, int], place: GroupPlace
    ) -> Script[bool]:
        """Whether it was committed."""
        producer, dice = self.producer, self._dice
        attempt = self.book.begin(producer.transactional_id, self.name)
        attempt.offsets = {
            tp: position
            for tp, position in positions.items()
            if any(each.topic_partition == tp for each in inputs)
        }
        parcels = self._parcels(attempt, inputs)
        offsets_first = dice.chance(30)
        try:
            if offsets_first:
                yield from producer.send_offsets(attempt, place)
            yield from producer.announce(attempt, parcels)
            yield from producer.write(attempt, parcels)
            if not offsets_first:
                yield from producer.send_offsets(attempt, place)
            if dice.chance(self._dawdle_percent):
                yield Resting(dice.below(2 * producer.timeout_ms))
            commit = not dice.chance(self._abort_percent)
            yield from producer.end(attempt, commit=commit)
        except CannotCommit:
            yield from producer.end(attempt, commit=False)
            return False
        return commit

    def _parcels(self, attempt: TxnAttempt, inputs: list[WorkerInput]) -> list[Parcel]:
        places: dict[TopicPartition, list[int]] = {}
        for each in inputs:
            tp = self._dice.pick(self._outputs)
            value = b"%d" % each.serial
            serial = self.book.write(attempt, tp, b"", value, origin=each)
            places.setdefault(tp, []).append(serial)
        parcels = []
        for tp, serials in places.items():
            cut = self._dice.between(1, len(serials))
            parcels.append(Parcel(tp, serials[:cut]))
            if serials[cut:]:
                parcels.append(Parcel(tp, serials[cut:]))
        return parcels
