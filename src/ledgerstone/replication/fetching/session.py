"""The client's side of incremental fetch sessions (KIP-227). Pure.

The leader remembers what it was asked; a request names only what changed since. So an idle fetch
costs the same with one partition and with a thousand.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    PartitionKey,
)
from ledgerstone.types import INT32_MAX


class Wish(NamedTuple):
    """What the leader was asked last about one partition."""

    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    clean_to: int = -1
    removed_to: int = -1


class Named(NamedTuple):
    """What a request names."""

    session_id: int
    epoch: int
    wishes: list[tuple[PartitionKey, Wish]]
    forgotten: list[PartitionKey]


class FollowerSession:
    """`ask_all` or `ask_changed`, then `answered` or `lost`, in turns. With `is_kept=False` every
    request stands alone: for a fetcher that will soon be gone."""

    def __init__(self, *, is_kept: bool = True) -> None:
        self.session_id = NO_SESSION
        self._first_epoch = INITIAL_EPOCH if is_kept else FINAL_EPOCH
        self.epoch = self._first_epoch
        self._asked: dict[PartitionKey, Wish] = {}

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self.epoch == self._first_epoch

    def asked(self, key: PartitionKey) -> Wish | None:
        return self._asked.get(key)

    def __len__(self) -> int:
        return len(self._asked)

    def ask_all(self, wishes: Mapping[PartitionKey, Wish]) -> Named:
        self._asked = dict(wishes)
        return Named(self.session_id, self.epoch, list(wishes.items()), [])

    def ask_changed(
        self, changed: Iterable[PartitionKey], wishes: Mapping[PartitionKey, Wish]
    ) -> Named:
        """`wishes` has those of the changed partitions that are still wanted."""
        named, forgotten = [], []
        for key in changed:
            wish = wishes.get(key)
            if wish is None:
                if self._asked.pop(key, None) is not None:
                    forgotten.append(key)
            elif self._asked.get(key) != wish:
                self._asked[key] = wish
                named.append((key, wish))
        return Named(self.session_id, self.epoch, named, forgotten)

    def answered(
        self, error_code: int, session_id: int, told: Iterable[PartitionKey]
    ) -> str | None:
        """Why the answer is of no use; the next request then names everything."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._start_over(NO_SESSION)
            return "the leader does not know the fetch session"
        if error_code != ErrorCode.NONE:
            # The leader ends a session that a full request names.
            self._start_over(self.session_id)
            return f"the leader answered error {error_code}"
        keys = set(told)
        if not keys <= self._asked.keys() or (self.is_full and len(keys) < len(self._asked)):
            self._start_over(session_id or self.session_id)
            return "the leader answered other partitions than it was asked for"
        if session_id == NO_SESSION:
            # It has no room for one, or has just ended it. The next full request asks again.
            self._start_over(NO_SESSION)
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == INT32_MAX else self.epoch + 1
        return None

    def lost(self) -> None:
        """No answer came: whether the leader took the request is not known."""
        self._start_over(self.session_id)

    def _start_over(self, session_id: int) -> None:
        self.session_id, self.epoch = session_id, self._first_epoch
