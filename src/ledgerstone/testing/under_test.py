"""The broker that passes are requested of and assertions are made about. Shell."""

from typing import Any, Protocol

from ledgerstone.testing.local_api import LocalApi
from ledgerstone.testing.on_the_loop import OnTheLoop
from ledgerstone.testing.reading import TopicRecord
from ledgerstone.testing.virtual_clock import VirtualClock


class ServesApi(OnTheLoop, Protocol):
    """A broker that can be asked for passes."""

    api: LocalApi


class BrokerUnderTest(ServesApi, Protocol):
    clock: VirtualClock

    def where(self, topic: str, key: bytes | str) -> dict[str, Any]: ...

    def records(self, topic: str) -> list[TopicRecord]: ...

    def state(self, topic: str) -> dict[bytes, bytes]: ...
