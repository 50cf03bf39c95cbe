"""Checks passwords that came over HTTP: in threads, bounded, and not too often. Grade S.

A check costs milliseconds on purpose. Two run at a time, 32 may wait or be held back after they
failed; whoever comes on top is told to come again. The same name and password at the same time is
one check, and a right one is remembered for a minute.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.security.login_rates import LoginRates
from ledgerstone.security.passwords import NamedPassword, Passwords
from ledgerstone.server.http.server import BadRequest
from ledgerstone.server.throttle import LogThrottle

_LOG: Final = logging.getLogger(__name__)
MOST_IN_WORK: Final = 32
_THREADS: Final = 2


class LoginWork:
    """`on_outcome` hears of each check: the address, how it was said, whether it was right."""

    def __init__(
        self,
        passwords: Passwords,
        clock: Clock,
        *,
        delay_ms: int,
        on_outcome: Callable[[str, str, bool], None],
    ) -> None:
        self.passwords = passwords
        self.rates = LoginRates()
        self._clock = clock
        self._delay_ms = delay_ms
        self._on_outcome = on_outcome
        self._threads: ThreadPoolExecutor | None = None
        self._checks: dict[bytes, asyncio.Task[bool]] = {}
        self._in_work = 0
        self._lines = LogThrottle()

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def is_right(self, given: NamedPassword, host: str) -> bool:
        """BadRequest where it is not even looked at: too often, or too many at once."""
        passwords, now_ms = self.passwords, self._clock.monotonic_ms()
        if passwords.is_remembered(given, now_ms):
            return True
        if self._in_work >= MOST_IN_WORK:
            raise BadRequest(503, "too many logins at once; try again", (("Retry-After", "1"),))
        self._in_work += 1
        try:
            key = passwords.key_of(given)
            check = self._checks.get(key)
            if check is None:
                self.begin(given.name, host, now_ms)
                check = asyncio.create_task(self._check(given, host, now_ms))
                self._checks[key] = check
                check.add_done_callback(lambda _: self._checks.pop(key, None))
            is_right = await asyncio.shield(check)
            if not is_right:
                # Guessing is to take its time.
                await asyncio.sleep(self._delay_ms / 1000)
        finally:
            self._in_work -= 1
        return is_right

    def begin(self, name: str | None, host: str, now_ms: int) -> None:
        """An attempt, which counts as failed until `succeeded`. BadRequest: too many failed."""
        wait_ms = self.rates.begin(name, host, now_ms)
        if wait_ms:
            seconds = str(-(-wait_ms // 1000))
            reason = f"too many failed logins; try again in {seconds} s"
            raise BadRequest(429, reason, (("Retry-After", seconds),))

    def failed(self, host: str, how: str, reason: str) -> None:
        self._on_outcome(host, how, False)
        suppressed = self._lines.admit(how, self._clock.monotonic_ms())
        if suppressed is not None:
            _LOG.info(
                "Failed authentication with %s on the HTTP port by %s (%s) suppressed=%d",
                host, how, reason, suppressed,
            )  # fmt: skip

    async def _check(self, given: NamedPassword, host: str, began_ms: int) -> bool:
        passwords = self.passwords
        is_right = passwords.is_plain_user(given)
        if not is_right:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, "ledgerstone-login")
            check = passwords.check(given)
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._threads, check.is_right)
        if is_right:
            self.rates.succeeded(given.name, host, began_ms)
            passwords.remember(given, self._clock.monotonic_ms())
            self._on_outcome(host, "BASIC", True)
        else:
            self.failed(host, "BASIC", "name and password do not fit")
        return is_right
