"""A controller says what it is and where: once for each process, again if it is forgotten. Grade D.

The active controller writes it down, so that nobody raises a feature beyond what a controller
knows. Whether the node votes has nothing to do with it.
"""

from collections.abc import Callable
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ledgerstone.server.broker_life.agent import DISK_REFUSED, AskController
from ledgerstone.server.effects import Effect
from ledgerstone.server.results import Result

_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 30_000
# For the record to come back with the metadata.
_SETTLE_MS: Final = 1_000


class ControllerRegistering:
    """`Agent`."""

    def __init__(
        self,
        request: ControllerRegistrationRequest,
        *,
        clock: Clock,
        ask: AskController,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._request = request
        self._clock = clock
        self._ask = ask
        self._image = image
        self._next_ms: int | None = clock.monotonic_ms()
        self._pause_ms = _FIRST_PAUSE_MS
        self._is_in_flight = False

    @property
    def next_deadline_ms(self) -> int | None:
        return None if self._is_in_flight else self._next_ms

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        if self._is_in_flight or self._next_ms is None or now_ms < self._next_ms:
            return []
        if self._is_registered:
            self._next_ms = None
            return []
        self._is_in_flight = True
        try:
            self._ask(self._request, self._answered)
        except DISK_REFUSED:
            self._failed()
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        if self._next_ms is None and not self._is_registered:
            self._next_ms = self._clock.monotonic_ms()
        return []

    @property
    def _is_registered(self) -> bool:
        known = self._image().controllers.get(self._request.controller_id)
        return known is not None and known.incarnation_id == self._request.incarnation_id

    def _answered(self, answer: ApiMessage) -> None:
        assert isinstance(answer, ControllerRegistrationResponse), answer
        if answer.error_code:
            self._failed()
            return
        self._is_in_flight = False
        self._pause_ms = _FIRST_PAUSE_MS
        self._next_ms = self._clock.monotonic_ms() + _SETTLE_MS

    def _failed(self) -> None:
        self._is_in_flight = False
        self._next_ms = self._clock.monotonic_ms() + self._pause_ms
        self._pause_ms = min(self._pause_ms * 2, _LONGEST_PAUSE_MS)
