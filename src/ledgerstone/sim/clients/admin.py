"""Operators: make and delete topics, and ask for keys to be erased."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.sim.clients.producer import Producer
from ledgerstone.sim.clients.wire import Wire
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.world import Violation, World

_TIMEOUT_MS = 5_000
_RETRY_MS = 300
_LOOK_MS = 3_000


class Admin:
    """Makes topics until it hears that they are there; now and then one more, and deletes one."""

    def __init__(
        self, world: World, wire: Wire, model: NodeModel, *, extra_topics: int, every_ms: int
    ) -> None:
        self.world, self.wire, self.model = world, wire, model
        self._dice = world.dice(f"workload/{wire.name}")
        self._extra = extra_topics
        self._every_ms = every_ms
        self._busy = 0
        # A create that was never answered may arrive after the delete.
        self._unsure: dict[str, None] = {}
        if extra_topics:
            world.after(every_ms, f"{wire.name} acts", self._act)

    @property
    def is_done(self) -> bool:
        return self._extra == 0 and self._busy == 0

    def stop(self) -> None:
        self._extra = 0

    def create(
        self, name: str, partitions: int, configs: dict[str, str], then: Callable[[], None]
    ) -> None:
        self._busy += 1
        given = [CreateTopicsRequestConfig(key, value) for key, value in configs.items()]
        topic = CreateTopicsRequestTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=given
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)

        def ask() -> None:
            self.wire.ask(request, 7, answered, _TIMEOUT_MS)

        def answered(message: ApiMessage | None) -> None:
            if message is not None:
                assert isinstance(message, CreateTopicsResponse)
                code = message.topics[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._busy -= 1
                    self.model.topics[name] = True
                    then()
                    return
                self._check(code)
            else:
                self._unsure[name] = None
            self.world.after(_RETRY_MS, f"{self.wire.name} retries", ask)

        ask()

    def delete(self, name: str) -> None:
        self._busy += 1
        # From here on both are right until the answer is there.
        del self.model.topics[name]
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=_TIMEOUT_MS)

        def ask() -> None:
            self.wire.ask(request, 5, answered, _TIMEOUT_MS)

        def answered(message: ApiMessage | None) -> None:
            if message is not None:
                assert isinstance(message, DeleteTopicsResponse)
                code = message.responses[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    self._busy -= 1
                    if name not in self._unsure:
                        self.model.topics[name] = False
                    return
                self._check(code)
            self.world.after(_RETRY_MS, f"{self.wire.name} retries", ask)

        ask()

    def _check(self, code: int) -> None:
        if code not in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT):
            raise Violation("AdminAnswers", f"{self.wire.name} got {ErrorCode(code).name}")

    def _act(self) -> None:
        if self._extra == 0:
            return
        self._extra -= 1
        extras = [name for name, is_there in self.model.topics.items() if is_there]
        extras = [name for name in extras if name.startswith("extra-")]
        if extras and self._dice.chance(30):
            self.delete(self._dice.pick(extras))
        else:
            self.create(f"extra-{self._extra}", 1, {}, lambda: None)
        self.world.after(self._every_ms, f"{self.wire.name} acts", self._act)


class Eraser:
    """Asks for one key after another, and looks until there is a receipt.

    Speaks to the HTTP port, which is a call with a way there and a way back: either may be lost."""

    def __init__(
        self,
        world: World,
        name: str,
        model: NodeModel,
        *,
        topic: str,
        producers: list[Producer],
        keys: list[bytes],
        every_ms: int,
    ) -> None:
        self.world, self.name, self.model = world, name, model
        self._dice = world.dice(f"workload/{name}")
        self._topic = topic
        self._producers = producers
        self._keys = keys
        self._every_ms = every_ms
        self.open: dict[str, bytes] = {}
        if keys:
            world.after(every_ms, f"{name} acts", self._act)

    @property
    def is_done(self) -> bool:
        return not self.open and not self._keys

    def stop(self) -> None:
        """No further keys; those asked for are still looked after."""
        self._keys = [each for each in self._keys[:1] if each in self.model.doomed]

    def _act(self) -> None:
        if self._keys:
            key = self._keys[0]
            self.model.doomed[key] = None
            if not any(each.unresolved(key) for each in self._producers):
                self._request(key)
        for erasure_id in list(self.open):
            self._look(erasure_id)
        if self._keys or self.open:
            self.world.after(self._every_ms, f"{self.name} acts", self._act)

    def _request(self, key: bytes) -> None:
        content = {
            "reason": "ticket", "requested_by": "sim", "key": b64encode(key).decode(),
            "within_ms": 3_600_000,
        }  # fmt: skip
        answer = self._call("POST", f"topics/{self._topic}/erasures", content)
        # Where the answer is lost the key is asked for again: a second erasure of it does no harm.
        if answer is not None and not self._dice.chance(10):
            (made,) = answer["erasures"]
            self._keys.remove(key)
            self.open[made["id"]] = self.model.asked[made["id"]] = key
            self.world.note(f"{self.name} erases {made['id']}")

    def _look(self, erasure_id: str) -> None:
        found = self._call("GET", f"erasures/{erasure_id}", {})
        if found is None:
            return
        if found.get("stage") in ("not_found", "receipted"):
            key = self.open.pop(erasure_id)
            if found["stage"] == "receipted":
                self.model.erased[erasure_id] = key
                self.world.mark("a receipt was issued")
                if self.model.node.boot > 1:
                    self.world.mark("a receipt after a restart")
        elif found.get("status") == 404:
            raise Violation("ErasuresStay", f"{erasure_id} is not known any more")

    def _call(self, method: str, path: str, content: dict[str, object]) -> Any:  # noqa: ANN401
        """The answer as JSON; None where there is none, or the broker cannot do it now."""
        node = self.model.node
        if not node.is_up or self.world.now_ms < node.paused_until_ms:
            return None
        request = HttpRequest(method, f"/api/v1/{path}", {}, {}, json.dumps(content).encode())
        page: Any = node.call(lambda broker: handle(broker, request))
        if page is None:
            return None
        if page.status == 404:
            return {"status": 404}
        return json.loads(page.body) if page.status == 200 else None
