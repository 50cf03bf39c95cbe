"""Running a consumer under test to the end of its topic. Shell.

A consumer is foreign code: it may raise, hang, or return something that is not a state. Each of
these is reported as a finding. It runs in a thread, away from event loops, and can be abandoned.
"""

import asyncio
import inspect
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol

from ledgerstone.testing.conformance.task import (
    Consume,
    ConsumerTask,
    RunningConsumer,
    Start,
    State,
)
from ledgerstone.testing.findings import show
from ledgerstone.testing.waiting import WaitedInVain, wait_until


class ConsumerFailed(AssertionError):
    """The consumer produced no state."""


class Driver(Protocol):
    def read(self, task: ConsumerTask, fences: Mapping[bytes, bytes]) -> State:
        """The consumer's state once it has read everything up to the fences."""
        ...

    def stop(self) -> None:
        """Stops the consumer for a while."""
        ...


class CalledConsumer:
    """A function that reads to the end and returns."""

    def __init__(self, consume: Consume, timeout_s: float) -> None:
        self._consume = consume
        self._timeout_s = timeout_s

    def read(self, task: ConsumerTask, fences: Mapping[bytes, bytes]) -> State:
        answer: Future[State] = Future()

        def run() -> None:
            try:
                answer.set_result(_called(self._consume, task))
            except BaseException as error:  # noqa: BLE001 - a border: it is raised by whoever waits
                answer.set_exception(error)

        threading.Thread(target=run, name="consumer under test", daemon=True).start()
        try:
            state = answer.result(self._timeout_s)
        except TimeoutError as error:
            if answer.done():
                raise ConsumerFailed(f"the consumer raised {error!r}") from error
            raise ConsumerFailed(
                f"the consumer has not returned within {self._timeout_s:g} s; it should read "
                f"{task.topic} up to these offsets, by partition: {task.end_offsets}"
            ) from None
        except Exception as error:
            raise ConsumerFailed(f"the consumer raised {error!r}") from error
        return _checked(state)

    def stop(self) -> None:
        return


class StartedConsumer:
    """A consumer that runs on its own and can be queried. It is done when it shows the fences."""

    def __init__(self, start: Start, timeout_s: float) -> None:
        self._start = start
        self._timeout_s = timeout_s
        self._running: RunningConsumer | None = None

    def read(self, task: ConsumerTask, fences: Mapping[bytes, bytes]) -> State:
        running = self._running = self._running or self._started(task)
        seen: State = {}

        def at_the_end() -> bool:
            nonlocal seen
            seen = _checked(running.state())
            return all(seen.get(key) == value for key, value in fences.items())

        def describe() -> str:
            missing = [show(key) for key, value in fences.items() if seen.get(key) != value]
            return f"{len(seen)} keys; not there yet: {', '.join(missing)}"

        try:
            wait_until(at_the_end, "the consumer has the last records", self._timeout_s, describe)
        except WaitedInVain as error:
            raise ConsumerFailed(str(error)) from None
        except ConsumerFailed:
            raise
        except Exception as error:
            raise ConsumerFailed(f"state() raised {error!r}") from error
        return seen

    def _started(self, task: ConsumerTask) -> RunningConsumer:
        try:
            return self._start(task)
        except Exception as error:
            raise ConsumerFailed(f"start() raised {error!r}") from error

    def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()


def _called(consume: Consume, task: ConsumerTask) -> State:
    state = consume(task)
    if inspect.isawaitable(state):

        async def finish() -> State:
            return await state

        return asyncio.run(finish())
    return state


def _checked(state: object) -> State:
    if not isinstance(state, Mapping):
        raise ConsumerFailed(f"the consumer's state is a {type(state).__name__}, not a mapping")
    for key, value in state.items():
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise ConsumerFailed(f"a state maps bytes to bytes; here {key!r} has {value!r}")
    return dict(state)
