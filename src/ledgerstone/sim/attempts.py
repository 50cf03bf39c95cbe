"""What clients know of their transactions, and what therefore must be true.

An attempt is one transaction of one client: the records it wrote, the inputs they were made from,
the offsets it sent, and what was asked for at its end. Nothing here says how it ended: the logs do
(`decisions`), and what they say must agree with what clients were told.
"""

from typing import Literal, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

Told = Literal["committed", "aborted"]


class WorkerInput(NamedTuple):
    """A record that a worker has read."""

    topic_partition: TopicPartition
    offset: int
    serial: int


@dataclass(slots=True, eq=False)
class TxnAttempt:
    number: int
    transactional_id: str
    # One process; the next one with the same id has another name.
    client: str
    begun_ms: int
    boot: int
    serials: list[int] = field(default_factory=list)
    inputs: list[WorkerInput] = field(default_factory=list)
    # Positions that were sent with it, whether or not the broker took them.
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    # When COMMIT was first asked for.
    commit_asked_ms: int | None = None
    told: Told | None = None
    # EndTxn was sent, of either kind.
    is_ending: bool = False

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.client}"


class Life(NamedTuple):
    """A process was told its producer id and epoch: whoever had the id before is a zombie."""

    client: str
    producer_id: int
    epoch: int
    since_ms: int


class SeenRange(NamedTuple):
    """Everything that a reader was given between two positions."""

    reader: str
    topic_partition: TopicPartition
    start: int
    end: int
    is_committed: bool
    serials: tuple[int, ...]


@dataclass(slots=True)
class TxnBook:
    """Of one node."""

    model: NodeModel
    # `transactional.id.expiration.ms`; clocks may jump further.
    id_lives_ms: int
    attempts: list[TxnAttempt] = field(default_factory=list)
    by_serial: dict[int, TxnAttempt] = field(default_factory=dict)
    # The input that an output was made from, by serial.
    origins: dict[int, int] = field(default_factory=dict)
    lives: dict[str, list[Life]] = field(default_factory=dict)
    # Ids and epochs that some client was told.
    known_ids: dict[tuple[int, int], None] = field(default_factory=dict)
    # InitProducerId that got no answer may come late and fence whoever sent it.
    inits_in_doubt: dict[str, int] = field(default_factory=dict)
    # When InitProducerId was last sent. As in Kafka, one that a zombie sends with its old epoch
    # aborts what is open before it is refused.
    last_init_ms: dict[str, int] = field(default_factory=dict)
    # What readers were given, to be compared with the logs at the next look.
    ranges: list[SeenRange] = field(default_factory=list)

    def begin(self, transactional_id: str, client: str) -> TxnAttempt:
        model = self.model
        attempt = TxnAttempt(
            len(self.attempts), transactional_id, client, model.world.now_ms, model.node.boot
        )
        self.attempts.append(attempt)
        return attempt

    def write(
        self,
        attempt: TxnAttempt,
        tp: TopicPartition,
        key: bytes,
        value: bytes | None,
        origin: WorkerInput | None = None,
    ) -> int:
        """The serial of a record that the attempt is about to send."""
        serial = self.model.write(tp, key, value, attempt.client)
        attempt.serials.append(serial)
        self.by_serial[serial] = attempt
        if origin is not None:
            attempt.inputs.append(origin)
            self.origins[serial] = origin.serial
        return serial

    def ask_commit(self, attempt: TxnAttempt) -> None:
        if attempt.commit_asked_ms is None:
            attempt.commit_asked_ms = self.model.world.now_ms

    def tell(self, attempt: TxnAttempt, told: Told) -> None:
        attempt.told = told

    def started(self, transactional_id: str, client: str, producer_id: int, epoch: int) -> None:
        """InitProducerId was answered."""
        lives = self.lives.setdefault(transactional_id, [])
        pair = (producer_id, epoch)
        others = [
            name
            for name, each in self.lives.items()
            if name != transactional_id and any(life.producer_id == producer_id for life in each)
        ]
        if others:
            raise Violation("ProducerIdsAreUnique", f"{pair} for {transactional_id} and {others}")
        if any((life.producer_id, life.epoch) == pair for life in lives):
            raise Violation("EpochsRise", f"{transactional_id} was given {pair} twice")
        # Whoever stood still may read its answer when a successor has long had the next one.
        newer = [life.producer_id == producer_id and life.epoch > epoch for life in lives]
        place = newer.index(True) if True in newer else len(lives)
        lives.insert(place, Life(client, producer_id, epoch, self.model.world.now_ms))
        self.known_ids[pair] = None

    def replaced_ms(
        self, transactional_id: str, client: str, begun_ms: int | None = None
    ) -> int | None:
        """Since when another process has its transactional id; None: it is the latest. A process
        may start again, and have it again: `begun_ms` says which start is meant, or the last."""
        found: int | None = None
        is_after = False
        for life in self.lives.get(transactional_id, ()):
            if life.client != client:
                if is_after and found is None:
                    found = life.since_ms
            elif begun_ms is None or life.since_ms <= begun_ms:
                is_after, found = True, None
        return found

    def attempt_replaced_ms(self, attempt: TxnAttempt) -> int | None:
        return self.replaced_ms(attempt.transactional_id, attempt.client, attempt.begun_ms)

    def committed_positions(self) -> dict[TopicPartition, int]:
        """How far the group has come, as clients were told so far."""
        found: dict[TopicPartition, int] = {}
        for attempt in self.attempts:
            if attempt.told == "committed":
                for tp, position in attempt.offsets.items():
                    found[tp] = max(position, found.get(tp, 0))
        return found

    def check_position(self, who: str, tp: TopicPartition, position: int, at_least: int) -> None:
        """A group said where it stands; commits that were answered before it was asked count."""
        if position < at_least:
            raise Violation(
                "PositionsStay", f"{who} is sent to {position} of {tp}, {at_least} is committed"
            )
        known = {
            attempt.offsets.get(tp)
            for attempt in self.attempts
            if attempt.commit_asked_ms is not None
        }
        if position > 0 and position not in known:
            raise Violation("PositionsStay", f"{who} is sent to {position} of {tp}: never asked")

    def check_accepted(self, attempt: TxnAttempt, what: str, sent_ms: int) -> None:
        """A broker took a request that was sent then."""
        replaced_ms = self.attempt_replaced_ms(attempt)
        if replaced_ms is not None and sent_ms > replaced_ms:
            raise Violation(
                "ZombiesAreFenced",
                f"{what} of {attempt} was taken, sent at {sent_ms}, replaced at {replaced_ms}",
            )

    def check_bump(
        self, transactional_id: str, client: str, sent_ms: int, *, is_same_id: bool
    ) -> None:
        """InitProducerId was answered though it named an id and epoch of this process. Where the
        transactional id has expired meanwhile, it is made anew, with another producer id."""
        replaced_ms = self.replaced_ms(transactional_id, client)
        if is_same_id and replaced_ms is not None and sent_ms > replaced_ms:
            raise Violation("ZombiesAreFenced", f"{client} got a new epoch and was replaced")

    def check_fence(
        self, attempt: TxnAttempt, why: str, timeout_ms: int, *, is_forgotten: bool
    ) -> None:
        """A client was refused for good: only a successor, a timeout or its own late request
        explains that."""
        if self.attempt_replaced_ms(attempt) is not None:
            self.model.world.mark("a zombie was fenced")
            return
        if self.inits_in_doubt.get(attempt.transactional_id):
            return
        if self.last_init_ms.get(attempt.transactional_id, -1) >= attempt.begun_ms:
            self.model.world.mark("a zombie aborted a transaction of its successor")
            return
        clock = self.model.node.clock
        if is_forgotten and clock.highest_wall_ms(0) - clock.lowest_wall_ms(0) >= self.id_lives_ms:
            self.model.world.mark("a transactional id expired")
            return
        open_ms = clock.highest_wall_ms(attempt.begun_ms) - clock.lowest_wall_ms(attempt.begun_ms)
        if open_ms >= timeout_ms:
            self.model.world.mark("a transaction timed out")
            return
        raise Violation("FencedForAReason", f"{attempt} got {why} after {open_ms} ms")
