"""A whole broker for a test. Shell.

It is the real one: it serves Kafka's protocol on a port of 127.0.0.1 and keeps its files in a
directory. Only three things differ: where it runs (`thread`), what it syncs (`disk`) and where its
passes run (`worker_threads`). Methods that write and read use the port, as any client does.
"""

import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.config.broker import load_broker_config
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.listener_keys import find_key
from ledgerstone.server.bootstrap import RunningBroker
from ledgerstone.system import SystemDice
from ledgerstone.testing import checks, passes
from ledgerstone.testing.local_api import LocalApi, topic_path
from ledgerstone.testing.passes import PassResult
from ledgerstone.testing.settings import DEFAULTS, Setting, as_configs, refuse_unknown
from ledgerstone.testing.texts import Text, some_bytes
from ledgerstone.testing.thread import BrokerThread
from ledgerstone.testing.topic_access import TopicAccess
from ledgerstone.testing.virtual_clock import VirtualClock
from ledgerstone.testing.waiting import TIMEOUT_S, wait_until
from ledgerstone.web.access import Access

_ANY_PORT: Final = "127.0.0.1:0"

T = TypeVar("T")


class LedgerstoneBroker(TopicAccess):
    """Runs from `start` to `stop`; `with` does both. After a restart, data and clock are kept."""

    def __init__(
        self, directory: Path, configs: Mapping[str, Setting] | None = None, *, unique: bool = False
    ) -> None:
        super().__init__(unique=unique)
        self.directory = directory
        self._configs = {**DEFAULTS, **as_configs(configs or {})}
        self._listen, self._http_listen = _ANY_PORT, _ANY_PORT
        self._access = Access.from_dice(SystemDice())
        self._thread: BrokerThread | None = None
        self._client: Client | None = None
        self._clients: list[Client] = []  # all that were made, to be closed with the broker
        self._client_lock = threading.RLock()
        self.clock = VirtualClock(self)
        self.api = LocalApi(self)

    def __repr__(self) -> str:
        state = self.bootstrap if self.is_running else "not running"
        return f"<LedgerstoneBroker {state}, data in {self.directory}>"

    # -- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_running:
            self.stop()

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for clients; the same after a restart."""
        return self._listen

    @property
    def http(self) -> str:
        """The address of the HTTP port: API, metrics, health."""
        return f"http://{self._http_listen}"

    @property
    def page(self) -> str:
        """The address to open in a browser while a debugger pauses the test."""
        return f"{self.http}/?token={self._access.token}"

    def start(self) -> None:
        assert self._thread is None, "the broker is already running"
        refuse_unknown(
            [name for name in self._configs if find_key(name, BROKER_KEYS) is None], BROKER_KEYS
        )
        overrides = [f"{name}={value}" for name, value in self._configs.items()]
        overrides += [f"log.dirs={self.directory}", f"listeners=PLAINTEXT://{self._listen}"]
        overrides.append(f"ledgerstone.http.listener={self._http_listen}")
        loaded = load_broker_config(overrides=overrides)
        thread = BrokerThread(loaded.config, self.clock.source, self._access)
        running = thread.start()
        self._thread = thread
        self._listen = running.bootstrap
        self._http_listen = (running.http_address or "").removeprefix("http://")

    def stop(self) -> None:
        """A clean stop, as by an operator."""
        self._end(BrokerThread.stop)

    def kill(self) -> None:
        """As if its process had died: connections break, nothing is closed or saved."""
        self._end(BrokerThread.kill)

    def restart(self) -> None:
        """On the same port with the same data; stops it first if it runs."""
        if self.is_running:
            self.stop()
        self.start()

    def _end(self, how: Callable[[BrokerThread], None]) -> None:
        thread, self._thread = self._need_thread(), None
        with self._client_lock:
            self._client = None
            clients, self._clients = self._clients, []
        for client in clients:
            client.close()
        how(thread)

    def _need_thread(self) -> BrokerThread:
        if self._thread is None:
            raise RuntimeError("the broker is not running: call restart() first")
        return self._thread

    def on_the_loop(self, ask: Callable[[RunningBroker], T]) -> T:
        """For anything without a method: runs `ask` on the broker's own loop."""
        return self._need_thread().call(ask)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Our own client, shared: one user at a time."""
        self._need_thread()
        with self._client_lock:
            if self._client is None:
                self._client = self._new_client()
            yield self._client

    def _new_client(self) -> Client:
        self._need_thread()
        host, _, port = self.bootstrap.rpartition(":")
        # On the broker's clock, so that records written after `advance` are recent.
        made = Client([Endpoint(host, int(port))], clock=self.clock.source)
        self._clients.append(made)
        return made

    # -- topics ---------------------------------------------------------------------------------

    def topic(
        self, name: str, *, compacted: bool = False, partitions: int = 1, **configs: Setting
    ) -> str:
        """Makes a topic; returns its name. `delete_retention_ms=1000` sets delete.retention.ms."""
        return self._make_topic(name, as_configs(configs), compacted, partitions)

    # -- transactions ---------------------------------------------------------------------------

    def await_transactions(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until no transaction is open, as after an `advance` past their timeouts."""

        def undecided(running: RunningBroker) -> list[str]:
            return [each.transactional_id for each in running.broker.txn_shards.undecided()]

        wait_until(
            lambda: not self.on_the_loop(undecided),
            "no transaction is open",
            timeout_s,
            lambda: f"open: {', '.join(self.on_the_loop(undecided))}",
        )

    # -- deletes --------------------------------------------------------------------------------

    def compact(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> list[PassResult]:
        """One pass over each partition now, including active segments; waits for them.

        A tombstone needs two: the first drops the values it deletes; the second,
        delete.retention.ms later, the tombstone itself. `finish_deletes` does both."""
        return passes.compact(self, topic, timeout_s)

    def await_compaction(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until the broker has run every pass that it starts by itself."""
        passes.await_compaction(self, topic, timeout_s)

    def finish_deletes(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Compacts, advances the clock past delete.retention.ms, and compacts again."""
        self.compact(topic, timeout_s=timeout_s)
        retention_ms = self.on_the_loop(
            lambda running: running.broker.partition_of(topic, 0).log.config.delete_retention_ms
        )
        self.clock.advance(ms=retention_ms + 1)
        self.compact(topic, timeout_s=timeout_s)

    def where(self, topic: str, key: Text) -> dict[str, Any]:
        """Every record of a key: partition, offset, file, position and state."""
        asked = self.api.post(topic_path(topic, "where"), key=_base64(key))

        def done() -> dict[str, Any] | None:
            found = self.api.get(f"searches/{asked['search']}")
            return found if found["done"] else None

        search = wait_until(done, f"the search for {key!r} in {topic} is done")
        assert search["failure"] is None, f"the search in {topic} failed: {search['failure']}"
        answer: dict[str, Any] = search["answer"]
        assert not answer["trouble"], f"the search of {topic} is incomplete: {answer['trouble']}"
        return answer

    def erase(
        self,
        topic: str,
        key: Text,
        reason: str = "",
        *,
        abort_open: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        """Erases a key with evidence and returns the receipt; advances the clock as needed.

        `abort_open` ends open transactions that hold it up."""
        encoded = _base64(key)
        return checks.erase(self, topic, encoded, reason, timeout_s, abort_open=abort_open)

    # -- assertions -----------------------------------------------------------------------------

    def assert_gone(self, topic: str, key: Text) -> None:
        """No file of the topic holds a record of the key: neither a value nor a tombstone."""
        __tracebackhide__ = True
        checks.assert_gone(self, topic, some_bytes(key))

    def assert_deleted(self, topic: str, key: Text) -> None:
        """No reader gets a value for the key: its latest record is a tombstone, or it has none."""
        __tracebackhide__ = True
        checks.assert_deleted(self, topic, some_bytes(key))

    def assert_state(self, topic: str, expected: Mapping[bytes, bytes] | Mapping[str, str]) -> None:
        """The live keys and their values are exactly these."""
        __tracebackhide__ = True
        wanted = {some_bytes(key): some_bytes(value) for key, value in expected.items()}
        checks.assert_state(self, topic, wanted)


def _base64(key: Text) -> str:
    return b64encode(some_bytes(key)).decode()
