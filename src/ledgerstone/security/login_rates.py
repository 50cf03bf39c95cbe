"""How often somebody may guess: failures of a user and of a network, in a minute. Pure.

An attempt counts as failed when it begins, and is taken back if it succeeds: so a burst of attempts
at once is bounded like one after the other. Beyond the limit each failure makes the next attempt
wait, twice as long as the one before. What is kept is bounded in number, and each of it in bytes.
"""

import hashlib
import ipaddress
from typing import Final

from ledgerstone.dataclasses import dataclass, field

MOST_FAILURES: Final = 5
WINDOW_MS: Final = 60_000
FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 30_000
# Of users, and of networks; who failed longest ago is forgotten first.
MOST_KEPT: Final = 4096
_IPV4_BITS: Final = 24
_IPV6_BITS: Final = 64


@dataclass(slots=True)
class _Failures:
    times_ms: list[int] = field(default_factory=list)
    wait_ms: int = 0
    blocked_until_ms: int = 0

    def forget_old(self, now_ms: int) -> None:
        self.times_ms = [each for each in self.times_ms if now_ms - each < WINDOW_MS]
        if not self.times_ms:
            self.wait_ms = self.blocked_until_ms = 0

    def add(self, now_ms: int) -> None:
        self.times_ms = [*self.times_ms[-2 * MOST_FAILURES :], now_ms]
        if len(self.times_ms) >= MOST_FAILURES:
            self.wait_ms = min(max(2 * self.wait_ms, FIRST_WAIT_MS), LONGEST_WAIT_MS)
            self.blocked_until_ms = now_ms + self.wait_ms

    def take_back(self, at_ms: int) -> None:
        if at_ms in self.times_ms:
            self.times_ms.remove(at_ms)
        if len(self.times_ms) < MOST_FAILURES:
            self.wait_ms = self.blocked_until_ms = 0


class LoginRates:
    """Times are monotonic."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Failures] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, name: str | None, host: str, now_ms: int) -> int:
        """How long to wait first; 0: go on, and say `succeeded` if it does. `name` is None where
        the credentials do not say one before they are checked."""
        found = [self._kept[key] for key in _keys(name, host) if key in self._kept]
        for each in found:
            each.forget_old(now_ms)
        wait_ms = max((each.blocked_until_ms - now_ms for each in found), default=0)
        if wait_ms > 0:
            return wait_ms
        for key in _keys(name, host):
            failures = self._kept.pop(key, None) or _Failures()
            failures.add(now_ms)
            self._kept[key] = failures
        while len(self._kept) > 2 * MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return 0

    def succeeded(self, name: str | None, host: str, began_ms: int) -> None:
        """Takes back what `begin` counted. Failures of before stay."""
        for key in _keys(name, host):
            failures = self._kept.get(key)
            if failures is not None:
                failures.take_back(began_ms)
                if not failures.times_ms:
                    del self._kept[key]


def network_of(host: str) -> str:
    """Whoever has one address of it easily has the others, too."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:64]
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    bits = _IPV4_BITS if address.version == 4 else _IPV6_BITS
    return str(ipaddress.ip_network((address, bits), strict=False))


def _keys(name: str | None, host: str) -> list[bytes]:
    """Digests, so that a long name costs no more than a short one."""
    texts = [f"network {network_of(host)}"]
    if name is not None:
        texts.append(f"user {name}")
    return [
        hashlib.blake2b(each.encode("utf-8", "replace"), digest_size=16).digest() for each in texts
    ]
