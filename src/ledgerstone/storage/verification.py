"""Transactions that a partition leader has not seen yet, while their coordinator is asked. Pure.

A leader writes the first batch of a transaction only if the coordinator knows that the partition
belongs to it (KIP-890); otherwise no marker would ever end it. The answer may be late: meanwhile
the transaction may have been aborted, and another begun. So each question gets a guard, an object
of its own, and the append must bring the guard that is still in place. A marker removes it, and so
does the first batch. Contract in README.md.
"""

from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import InvalidTxnState, OutOfOrderSequence
from ledgerstone.records.batch import BatchHeader

# A client may name a new producer id with each request. About 300 bytes each.
MAX_VERIFICATIONS: Final = 10_000


class VerificationGuard:
    """Nothing but itself: no two are the same."""

    __slots__ = ()


class TxnTerms(NamedTuple):
    """On which terms a batch of a transaction is appended. Appends without terms are not verified:
    those of tools, and of tests."""

    # What the coordinator's answer was asked with; None where no question was needed.
    guard: VerificationGuard | None = None
    must_be_verified: bool = False
    # Of the client that a marker is written for; 2: every transaction has its own producer epoch.
    transaction_version: int = 0


@dataclass(slots=True)
class Verification:
    """Of one producer. The lowest sequence holds back later batches while an earlier one is
    retried: written first, they would shut it out for good."""

    producer_epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool
    started_ms: int
    guard: VerificationGuard = field(default_factory=VerificationGuard)

    def asked_again(self, producer_epoch: int, sequence: int) -> None:
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def check_sequence(self, header: BatchHeader, *, has_batches: bool) -> None:
        sequence = header.base_sequence
        if self.supports_epoch_bump and sequence != 0 and not has_batches:
            # Transactions of version 2 have an epoch each, so each starts at 0.
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {sequence} first in a transaction of "
                "version 2, expected 0"
            )
        if sequence > self.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {sequence} while "
                f"{self.lowest_sequence} is still being verified"
            )


class Verifications:
    """Of one partition, by producer id, oldest first."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def start(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        *,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> VerificationGuard:
        entry = self._by_producer.get(producer_id)
        if entry is None:
            if len(self._by_producer) >= MAX_VERIFICATIONS:
                self._forget_oldest()
            entry = Verification(producer_epoch, sequence, supports_epoch_bump, now_ms)
            self._by_producer[producer_id] = entry
        else:
            entry.asked_again(producer_epoch, sequence)
        return entry.guard

    def check(self, producer_id: int, guard: VerificationGuard | None) -> None:
        """Raises unless `guard` is the one in place."""
        entry = self._by_producer.get(producer_id)
        if entry is None or guard is not entry.guard:
            raise InvalidTxnState(
                f"producer {producer_id} has no transaction here, and none was verified"
            )

    def data_written(self, producer_id: int) -> None:
        """From now on the open transaction itself is the proof."""
        if self._by_producer:
            self._by_producer.pop(producer_id, None)

    def marker_written(self, producer_id: int, producer_epoch: int) -> None:
        entry = self._by_producer.get(producer_id)
        if entry is None:
            return
        # Under version 2 a marker has the epoch of the next transaction, whose verification may
        # have begun already.
        is_next = entry.supports_epoch_bump and producer_epoch == entry.producer_epoch
        if not is_next:
            del self._by_producer[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        for producer_id, entry in list(self._by_producer.items()):
            if now_ms - entry.started_ms >= expiration_ms:
                del self._by_producer[producer_id]

    def _forget_oldest(self) -> None:
        """Their answers come to nothing: the append is refused, and a retry asks again."""
        for producer_id in list(self._by_producer)[: MAX_VERIFICATIONS // 10]:
            del self._by_producer[producer_id]
