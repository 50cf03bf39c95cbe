"""The clock of a broker, or of all brokers of a cluster, advanced by a test. Shell, over threads.

Only wall time is advanced: records, retention, horizons and deadlines of erasures follow it;
sessions and timeouts of clients do not. Otherwise it runs as the real clock does.
"""

from datetime import UTC, datetime, timedelta

from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.system import SystemClock
from ledgerstone.testing.on_the_loop import OnTheLoop


class VirtualClock:
    def __init__(self, *brokers: OnTheLoop) -> None:
        self._brokers = brokers
        # Outlives the broker: after a restart it is still ahead.
        self.source = MovableClock(SystemClock())

    @property
    def now_ms(self) -> int:
        return self.source.now_ms()

    @property
    def now(self) -> datetime:
        """The broker's time, in UTC."""
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> datetime:
        """Advances the clock, lets the broker check at once what is due, and returns the new time.

        Due work happens by itself, but not within this call; `await_compaction` waits for it."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
        step_ms = step // timedelta(milliseconds=1)
        if step_ms < 0:
            raise ValueError(f"{step}: time does not go back")

        def move(running: RunningBroker) -> None:
            self.source.advance(step_ms)
            notice(running)

        def notice(running: RunningBroker) -> None:
            running.broker.clock_moved()
            running.runtime.wake()

        running = [each for each in self._brokers if each.is_running]
        if not running:
            self.source.advance(step_ms)
        for number, each in enumerate(running):
            each.on_the_loop(notice if number else move)
        return self.now

    def __repr__(self) -> str:
        return f"<clock {self.now:%Y-%m-%d %H:%M:%S} UTC, {self.source.ahead_ms} ms ahead>"
