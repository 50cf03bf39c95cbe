"""The open transaction that keeps passes from a log. Pure.

The partition knows the producer; only the coordinator knows the transactional id and the time. A
transaction that no coordinator knows hangs: it ends when an operator ends it.
"""

from typing import NamedTuple

from ledgerstone.time_text import iso_time


class TxnOwner(NamedTuple):
    """What a coordinator knows of a producer's open transaction."""

    transactional_id: str
    since_ms: int


class OpenTxn(NamedTuple):
    producer_id: int
    first_offset: int
    owner: TxnOwner | None = None

    def __str__(self) -> str:
        if self.owner is None:
            return (
                f"producer {self.producer_id} has had a transaction open since offset "
                f"{self.first_offset}, and no coordinator here knows it"
            )
        transactional_id, since_ms = self.owner
        return (
            f"transactional id {transactional_id} (producer {self.producer_id}) has had a "
            f"transaction open since offset {self.first_offset}, {iso_time(since_ms)}"
        )
