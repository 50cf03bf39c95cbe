"""A broker in a thread, as the helpers around it see it: something that runs on its loop. Shell."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from ledgerstone.server.bootstrap import RunningBroker

T = TypeVar("T")


class OnTheLoop(Protocol):
    @property
    def is_running(self) -> bool: ...

    def on_the_loop(self, ask: Callable[[RunningBroker], T]) -> T: ...
