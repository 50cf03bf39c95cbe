"""The broker's quotas as an agent: follows the metadata, forgets who is silent. Grade D."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage, ResourceType
from ledgerstone.server.effects import Effect
from ledgerstone.server.quotas.client_quotas import ClientQuotas
from ledgerstone.server.quotas.connection_quotas import ConnectionQuotas
from ledgerstone.server.results import Result

_LOG: Final = logging.getLogger(__name__)
_LOOK_MS: Final = 60_000


class QuotaAgent:
    """`Agent`."""

    def __init__(
        self,
        *,
        clock: Clock,
        image: Callable[[], MetadataImage],
        clients: ClientQuotas,
        connections: ConnectionQuotas,
        settings: Callable[[], Mapping[str, str]],
        set_caps: Callable[[Mapping[str, str]], None],
    ) -> None:
        """`settings` are the broker's as they are now; `set_caps` is told of them."""
        self.clients = clients
        self.connections = connections
        self._clock = clock
        self._image = image
        self._settings = settings
        self._set_caps = set_caps
        self._next_look_ms = clock.monotonic_ms() + _LOOK_MS
        # Counters whose clients were told about.
        self._told: set[tuple[str | None, str | None]] = set()

    @property
    def _is_active(self) -> bool:
        return self.clients.is_active or self.connections.is_active

    @property
    def next_deadline_ms(self) -> int | None:
        return self._next_look_ms if self._is_active else None

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        if self._is_active and now_ms >= self._next_look_ms:
            self._next_look_ms = now_ms + _LOOK_MS
            self.clients.forget_idle(now_ms)
            self.connections.forget_idle(now_ms)
            self._tell()
        return []

    def _tell(self) -> None:
        """Kafka lets such a consumer wait in silence, for ever."""
        for counter in self.clients.fetch:
            notes = counter.throttled
            if notes is not None and notes.too_large and counter.key not in self._told:
                self._told.add(counter.key)
                _LOG.warning(
                    "consumer waits for a batch that its quota never lets pass user=%s client-id=%s"
                    " bytes=%d consumer_byte_rate=%d",
                    *counter.key,
                    notes.too_large,
                    counter.bound,
                )

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        if delta.quotas_changed:
            self._told.clear()
            self._follow_quotas()
        if any(each.resource_type == ResourceType.BROKER for each in delta.configs_changed):
            self._follow_settings()
        return []

    def load(self) -> None:
        """What is committed at the start."""
        self._follow_quotas()
        self._follow_settings()

    def _follow_quotas(self) -> None:
        image = self._image()
        self.clients.follow(image)
        self.connections.follow(image)

    def _follow_settings(self) -> None:
        values = self._settings()
        self.connections.configure(values)
        self._set_caps(values)
