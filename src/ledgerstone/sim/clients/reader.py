"""A consumer without a group: reads to the end, goes back to somewhere, reads again."""

from ledgerstone.sim.attempts import TxnBook
from ledgerstone.sim.clients.polling import FETCH_VERSION, fetch_request, polled
from ledgerstone.sim.clients.script import Asking, Player, Resting, Script
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.types import TopicPartition

_TIMEOUT_MS = 5_000
_WAIT_MS = 1_000
_SIZES = (1, 150, 700, 1 << 16)


class TxnReader:
    def __init__(
        self, wire: Wire, book: TxnBook, *, partitions: list[TopicPartition], is_committed: bool
    ) -> None:
        self.name, self.wire, self.book = wire.name, wire, book
        self.is_committed = is_committed
        self._dice = wire.world.dice(f"workload/{wire.name}")
        self.positions = dict.fromkeys(partitions, 0)
        self._goes_back = True
        self._player = Player(wire.gate, self._play())

    def stop(self) -> None:
        """From now on it only goes forward."""
        self._goes_back = False

    def behind(self) -> list[str]:
        """Partitions that it has not read to their end."""
        model = self.book.model
        return [
            f"{self.name} reads {tp} at {position} of {model.end_offset_of(tp)}"
            for tp, position in self.positions.items()
            if position < model.end_offset_of(tp)
        ]

    def _play(self) -> Script[None]:
        dice = self._dice
        while True:
            request = fetch_request(
                self.positions,
                is_committed=self.is_committed,
                max_bytes=dice.pick(_SIZES),
                wait_ms=_WAIT_MS,
            )
            answer = yield Asking(self.wire, request, FETCH_VERSION, _TIMEOUT_MS)
            if answer is not None:
                for each in polled(
                    self.book, self.name, self.positions, answer, is_committed=self.is_committed
                ):
                    self.positions[each.topic_partition] = each.next_offset
            if self._goes_back and dice.chance(25):
                tp = dice.pick(list(self.positions))
                self.positions[tp] = dice.below(self.positions[tp] + 1)
            yield Resting(dice.between(50, 600))
