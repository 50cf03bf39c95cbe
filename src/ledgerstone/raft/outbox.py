"""Collects what a step decided, until `ready` takes it. Pure."""

from ledgerstone.raft.events import Leadership, LogSync, Ready, Reply, Send
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.replica import OffsetAndEpoch


class Outbox:
    __slots__ = (
        "_freeze",
        "_hard_state",
        "_high_watermark",
        "_is_empty",
        "_leadership",
        "_load",
        "_messages",
        "_sync",
    )

    def __init__(self) -> None:
        self._messages: list[Send | Reply] = []
        self._clear()

    def _clear(self) -> None:
        self._hard_state: HardState | None = None
        self._sync: LogSync | None = None
        self._freeze: OffsetAndEpoch | None = None
        self._load: OffsetAndEpoch | None = None
        self._high_watermark: int | None = None
        self._leadership: Leadership | None = None
        self._messages = []
        self._is_empty = True

    def keep(self, state: HardState) -> None:
        """The last one of a step is enough: no message left in between."""
        self._hard_state = state
        self._is_empty = False

    def send(self, message: Send | Reply) -> None:
        self._messages.append(message)
        self._is_empty = False

    def sync(self, sync: LogSync) -> None:
        self._sync = sync
        self._is_empty = False

    def freeze(self, snapshot_id: OffsetAndEpoch) -> None:
        self._freeze = snapshot_id
        self._is_empty = False

    def load(self, snapshot_id: OffsetAndEpoch) -> None:
        self._load = snapshot_id
        self._is_empty = False

    def commit(self, high_watermark: int) -> None:
        self._high_watermark = high_watermark
        self._is_empty = False

    def lead(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._is_empty = False

    def take(self) -> Ready | None:
        if self._is_empty:
            return None
        ready = Ready(
            hard_state=self._hard_state,
            messages=tuple(self._messages),
            sync=self._sync,
            freeze=self._freeze,
            load=self._load,
            high_watermark=self._high_watermark,
            leadership=self._leadership,
        )
        self._clear()
        return ready
