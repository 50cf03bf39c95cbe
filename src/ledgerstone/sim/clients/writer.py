"""A transactional producer on its own: inputs for the workers, and keys of a compacted topic.

Every transaction has at least one input, which no pass ever takes: it tells how the whole ended.
"""

from ledgerstone.sim.attempts import TxnAttempt
from ledgerstone.sim.clients.dialects import CannotCommit, Fenced
from ledgerstone.sim.clients.producer import Keys
from ledgerstone.sim.clients.script import Player, Resting, Script
from ledgerstone.sim.clients.transactional import Parcel, TxnClient
from ledgerstone.types import TopicPartition


class TxnWriter:
    def __init__(
        self,
        producer: TxnClient,
        *,
        inputs: list[TopicPartition],
        ledger: TopicPartition,
        keys: Keys,
        transactions: int,
        pace_ms: int,
        abort_percent: int,
        dawdle_percent: int,
    ) -> None:
        self.name = producer.client
        self.producer, self.book = producer, producer.book
        self._dice = producer.wire.world.dice(f"workload/{self.name}")
        self._inputs, self._ledger, self._keys = inputs, ledger, keys
        self.left = transactions
        self._pace_ms = pace_ms
        self._abort_percent, self._dawdle_percent = abort_percent, dawdle_percent
        self._process = producer.wire.gate
        self._player = Player(self._process, self._play())

    @property
    def is_done(self) -> bool:
        return self._player.is_done or self._process.is_dead

    def die(self) -> None:
        """For good: nobody but the coordinator ends what it has begun."""
        self._process.die()
        self.producer.wire.hang_up()

    def stop(self) -> None:
        self.left = 0

    def _play(self) -> Script[None]:
        dice = self._dice
        yield Resting(dice.below(self._pace_ms + 1))
        yield from self.producer.start()
        while self.left:
            self.left -= 1
            if dice.chance(15):
                # As a process that was started again, with the same id.
                yield from self.producer.start()
            try:
                yield from self._transaction()
            except Fenced:
                if not (yield from self.producer.start_again()):
                    return
            yield Resting(dice.below(2 * self._pace_ms + 1))

    def _transaction(self) -> Script[None]:
        dice, producer = self._dice, self.producer
        attempt = self.book.begin(producer.transactional_id, self.name)
        parcels = self._parcels(attempt)
        try:
            yield from producer.announce(attempt, parcels)
            half = dice.below(len(parcels) + 1)
            yield from producer.write(attempt, parcels[:half])
            if dice.chance(self._dawdle_percent):
                yield Resting(dice.below(2 * producer.timeout_ms))
            yield from producer.write(attempt, parcels[half:])
            yield from producer.end(attempt, commit=not dice.chance(self._abort_percent))
        except CannotCommit:
            yield from producer.end(attempt, commit=False)

    def _parcels(self, attempt: TxnAttempt) -> list[Parcel]:
        dice = self._dice
        parcels = []
        for tp in [dice.pick(self._inputs) for _ in range(dice.between(1, 2))]:
            keys = [dice.pick(self._keys.names) for _ in range(dice.between(1, 3))]
            serials = [
                self.book.write(attempt, tp, key, dice.random_bytes(dice.between(1, 20)))
                for key in keys
            ]
            parcels.append(Parcel(tp, serials))
        for _ in range(dice.below(3)):
            key = dice.pick(self._keys.names)
            is_tombstone = dice.chance(self._keys.tombstone_percent)
            value = None if is_tombstone else dice.random_bytes(dice.between(1, 40))
            parcels.append(
                Parcel(self._ledger, [self.book.write(attempt, self._ledger, key, value)])
            )
        return parcels
