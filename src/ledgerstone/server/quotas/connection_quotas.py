"""How fast connections may come: on the whole broker, on a listener, from an address. Pure.

Above the rate of the broker or of the listener, the listener waits: nobody is refused. An address
above its own rate is: its socket is held unread for the throttle time, then closed.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listener_keys import own_values
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.quotas.counters import FORGET_AFTER_MS, MOST_COUNTERS
from ledgerstone.quotas.entities import EntityType, QuotaKey, plain_address
from ledgerstone.quotas.rate import NO_BOUND
from ledgerstone.quotas.windows import Windows
from ledgerstone.server.quotas.connection_caps import protected_listener
from ledgerstone.types import INT32_MAX

_RATE_KEY: Final = "max.connection.creation.rate"


class EntryVerdict(NamedTuple):
    """What to do with a socket that was accepted, after `wait_ms`."""

    wait_ms: int = 0
    is_refused: bool = False


_ENTER: Final = EntryVerdict()


class ConnectionRate:
    __slots__ = ("bound", "throttle_total_ms", "throttled", "windows")

    def __init__(self, bound: float, windows: Windows) -> None:
        self.bound = bound
        self.windows = windows
        self.throttled = 0
        self.throttle_total_ms = 0

    def record(self, now_ms: int, longest_ms: int) -> int:
        wait_ms = self.windows.throttle_ms(1, self.bound, now_ms, longest_ms)
        if wait_ms:
            self.throttled += 1
            self.throttle_total_ms += wait_ms
        return wait_ms

    def take_back(self, now_ms: int) -> None:
        self.windows.record(-1, now_ms)


class ConnectionQuotas:
    def __init__(self, config: BrokerConfig) -> None:
        self._samples = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._config = config
        self._protected = protected_listener(config)
        self.broker: ConnectionRate | None = None
        self.listeners: dict[str, ConnectionRate] = {}
        self.addresses: dict[str, ConnectionRate] = {}
        self._default: float = NO_BOUND
        self._by_address: Mapping[str, float] = {}
        self.is_active = False
        self.configure(config.raw)

    def configure(self, values: Mapping[str, str]) -> None:
        """The broker's settings as they are now."""
        rate = int(values.get(_RATE_KEY, INT32_MAX))
        if rate >= INT32_MAX:
            self.broker = None
        elif self.broker is None:
            self.broker = self._rate(rate)
        else:
            self.broker.bound = rate
        limits = {name: int(text) for name, text in own_values(values, _RATE_KEY).items()}
        self.listeners = {
            name: self.listeners.get(name) or self._rate(limit) for name, limit in limits.items()
        }
        for name, limit in limits.items():
            self.listeners[name].bound = limit
        self._note_active()

    def _note_active(self) -> None:
        has_own = self.broker is not None or bool(self.listeners)
        self.is_active = has_own or bool(self._by_address) or self._default < NO_BOUND

    def follow(self, image: MetadataImage) -> None:
        limits: dict[str, float] = {}
        self._default = NO_BOUND
        for entity, values in image.client_quotas.items():
            rate = values.get(QuotaKey.CONNECTION_CREATION_RATE)
            ((kind, name), *_) = entity.parts
            if rate is None or kind != EntityType.IP:
                continue
            if name is None:
                self._default = rate
            else:
                limits[plain_address(name) or name] = rate
        self._by_address = limits
        for address, known in self.addresses.items():
            known.bound = limits.get(address, self._default)
        self._note_active()

    def admit(self, listener: str, host: str, now_ms: int) -> EntryVerdict:
        """A socket was accepted."""
        if not self.is_active:
            return _ENTER
        passed = self._rates_of(listener)
        wait_ms = 0
        for rate in passed:
            wait_ms = max(wait_ms, rate.record(now_ms, self._window_ms))
        address = self._address(plain_address(host) or host)
        if address is not None and (refused_ms := address.record(now_ms, self._window_ms)):
            for rate in (address, *passed):
                rate.take_back(now_ms)
            return EntryVerdict(refused_ms, is_refused=True)
        return EntryVerdict(wait_ms) if wait_ms else _ENTER

    def _rates_of(self, listener: str) -> list[ConnectionRate]:
        rates = []
        if self.broker is not None and listener != self._protected:
            rates.append(self.broker)
        if (own := self.listeners.get(listener)) is not None:
            rates.append(own)
        return rates

    def _address(self, address: str) -> ConnectionRate | None:
        bound = self._by_address.get(address, self._default)
        if bound >= NO_BOUND:
            return None
        found = self.addresses.get(address)
        if found is None:
            if len(self.addresses) >= MOST_COUNTERS:
                # Whoever has that many addresses shares the last one's counter.
                return next(reversed(self.addresses.values()))
            found = self.addresses[address] = self._rate(bound)
        return found

    def _rate(self, bound: float) -> ConnectionRate:
        return ConnectionRate(bound, Windows(self._samples, self._window_ms))

    def forget_idle(self, now_ms: int) -> None:
        idle = [
            address
            for address, each in self.addresses.items()
            if now_ms - each.windows.last_ms >= FORGET_AFTER_MS
        ]
        for address in idle:
            del self.addresses[address]
