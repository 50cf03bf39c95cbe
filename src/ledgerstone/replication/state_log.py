"""A log as the memory of a machine: what is appended counts once it is committed. Grade D, through
the append it is handed.

Machines that must survive their process (the controller, group shards, the journal of erasures)
append what they decide, each decision with a token of its owner's. The owner says how far the log
is committed, and learns which tokens are; after a lost leadership, which are not and never will be
here. With one replica the high watermark follows the append in the same turn, and so do the tokens.

Tokens leave in the order in which they came, each once at most. A decision without records may rest
on records before it, so it waits for them too.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ledgerstone.records.builder import RecordParts
from ledgerstone.records.own_batch import OwnBatch, own_batch
from ledgerstone.storage.log import AppendResult

T = TypeVar("T")


class Append(Protocol):
    def __call__(self, batch: OwnBatch, /) -> AppendResult:
        """As the log's leader, whole or not at all."""
        ...


class Appended(NamedTuple):
    first_offset: int
    size: int
    tombstone_count: int


class StateLog(Generic[T]):
    """Invariant: the offsets that tokens wait for never fall."""

    __slots__ = ("_append", "_waiting")

    def __init__(self, append: Append) -> None:
        self._append = append
        self._waiting: deque[tuple[int, T]] = deque()

    def append(self, records: Sequence[RecordParts], token: T) -> Appended:
        """One batch. What the log refuses raises, and the token is not kept."""
        return self.append_batch(own_batch(records), token)

    def append_batch(self, batch: OwnBatch, token: T, append: Append | None = None) -> Appended:
        """A batch with a producer, or one that is appended in another way than the others."""
        result = (append or self._append)(batch)
        self._waiting.append((result.last_offset + 1, token))
        return Appended(result.first_offset, len(batch.data), result.tombstone_count)

    def after_pending(self, token: T) -> None:
        """For a decision without records: it is committed with the last one before it."""
        self._waiting.append((self._waiting[-1][0] if self._waiting else 0, token))

    def committed(self, high_watermark: int) -> list[T]:
        """Tokens whose records, and all before them, lie below the high watermark."""
        waiting = self._waiting
        if waiting and waiting[-1][0] <= high_watermark:
            tokens = [token for _, token in waiting]
            waiting.clear()
            return tokens
        tokens = []
        while waiting and waiting[0][0] <= high_watermark:
            tokens.append(waiting.popleft()[1])
        return tokens

    def let_go(self, is_over: Callable[[T], bool]) -> None:
        """Of decisions without records that nobody waits for any more: the log may stand still for
        as long as replicas are missing. They are not named again."""
        self._waiting = deque(each for each in self._waiting if not is_over(each[1]))

    def lost(self) -> list[T]:
        """Leadership is lost: these tokens will not be named again. Their records may still be
        committed by the next leader."""
        tokens = [token for _, token in self._waiting]
        self._waiting.clear()
        return tokens

    def __len__(self) -> int:
        """How many decisions are not committed yet."""
        return len(self._waiting)

    def tokens(self) -> list[T]:
        return [token for _, token in self._waiting]
