"""Producer ids for idempotent producers, from blocks that the controller hands out. Grade D.

A block is remembered in the metadata before an id of it is used, so none is given twice, whatever
crashes. Requests that come while a block is asked for share it. Where the controller cannot be
reached they wait for `PATIENCE_MS` and are told to come again; the block is still asked for.
Differs from Kafka, which tells them at once.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result

PATIENCE_MS: Final = 5_000
_UNREGISTERED: Final = -1

AskController = Callable[[ApiMessage, Callable[[ApiMessage], None]], None]
# Called with an id, or with None where the controller has given no block.
OnDrawn = Callable[[int | None], None]


class _Waiting(NamedTuple):
    on_drawn: OnDrawn
    until_ms: int  # monotonic


class ProducerIds:
    """An agent (`server.agent`)."""

    def __init__(
        self, ask: AskController, image: Callable[[], MetadataImage], broker_id: int, clock: Clock
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._image = image
        self._broker_id = broker_id
        self._block = range(0)
        self._waiting: deque[_Waiting] = deque()
        self._is_asked = False

    def draw(self, on_drawn: OnDrawn) -> None:
        self._waiting.append(_Waiting(on_drawn, self._clock.monotonic_ms() + PATIENCE_MS))
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._block:
            producer_id, self._block = self._block[0], self._block[1:]
            self._waiting.popleft().on_drawn(producer_id)
        if self._waiting and not self._is_asked:
            self._ask_for_block()

    def _ask_for_block(self) -> None:
        # Unregistered: the controller refuses, and the producer asks again.
        registered = self._image().brokers.get(self._broker_id)
        epoch = _UNREGISTERED if registered is None else registered.broker_epoch
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=epoch)
        self._is_asked = True
        try:
            self._ask(request, self._answered)
        except BaseException:
            # The caller is told by the error; it is the only one that waits.
            self._is_asked = False
            self._waiting.clear()
            raise

    def _answered(self, response: ApiMessage) -> None:
        assert isinstance(response, AllocateProducerIdsResponse)
        self._is_asked = False
        if response.error_code:
            waiting, self._waiting = self._waiting, deque()
            for each in waiting:
                each.on_drawn(None)
            return
        first = response.producer_id_start
        self._block = range(first, first + response.producer_id_len)
        self._hand_out()

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._waiting[0].until_ms if self._waiting else None

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        while self._waiting and self._waiting[0].until_ms <= now_ms:
            self._waiting.popleft().on_drawn(None)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"producer ids asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []
