"""How long a producer gets no acknowledgement. Shell."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, Message, Producer

RATE: Final = 200
LIMIT_S: Final = 90.0
ACKS: Final = 100


class GapMeter:
    """Sends a record every few milliseconds, acks=all, and notes when each is acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._last = time.perf_counter()
        self._longest = 0.0
        self._acked = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.begin()
        self.wait_for_acks()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.flush(10)

    def begin(self) -> None:
        """Forgets what was before."""
        with self._lock:
            self._longest, self._acked, self._last = 0.0, 0, time.perf_counter()

    def wait_for_acks(self) -> None:
        """Until it goes on: some of what was sent before a fault may be acknowledged after it."""
        deadline = time.monotonic() + LIMIT_S
        seen, since = -1, time.monotonic()
        while time.monotonic() < deadline:
            with self._lock:
                acked = self._acked
            # Steady for a while: neither the last acks of the old leader nor a single one.
            if acked >= ACKS and acked - seen >= RATE // 4:
                return
            if time.monotonic() - since > 0.5:
                seen, since = acked, time.monotonic()
            time.sleep(0.05)
        raise RuntimeError(f"{self._acked} records were acknowledged in {LIMIT_S} s")

    @property
    def longest_s(self) -> float:
        with self._lock:
            return max(self._longest, time.perf_counter() - self._last)

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._is_over.is_set():
            due += 1 / RATE
            with contextlib.suppress(BufferError):
                self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=self._note)
            self._producer.poll(0)
            self._is_over.wait(max(0.0, due - time.perf_counter()))

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            return
        now = time.perf_counter()
        with self._lock:
            self._longest = max(self._longest, now - self._last)
            self._last = now
            self._acked += 1
