"""A broker in process whose searches and scans are performed at once, and erasures driven on it."""

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import build_batch
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from tests.kit.in_process import InProcess
from tests.unit.server.asks import create_topic

TOPIC = "customers"
KEY = b"alice@example.org"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class ErasingMachine(InProcess):
    """As the runtime does it, but without waiting; `held_scans` holds searches and scans back."""

    def start(self) -> None:
        self.held_scans = None
        self.held_passes = None
        super().start()
        self.broker.erasing.installed_verifiers = lambda: tuple(self.verifiers)

    def release(self) -> None:
        """What was held back is done."""
        scans, self.held_scans = self.held_scans or [], None
        passes, self.held_passes = self.held_passes or [], None
        for held in scans:
            self.finish_scan(held)
        for each in passes:
            self.finish_pass(each)

    # -- what users do --------------------------------------------------------------------------

    def call(self, method: str, path: str, **content: Any) -> Any:
        page = self.page(method, path, **content)
        assert page.status == 200, page
        return json.loads(page.body)

    def page(self, method: str, path: str, **content: Any) -> Any:
        path, _, query = path.partition("?")
        pairs = dict(each.partition("=")[::2] for each in query.split("&")) if query else {}
        body = json.dumps(content).encode()
        page = handle(self.broker, HttpRequest(method, f"/api/v1/{path}", pairs, {}, body))
        assert page is not None
        return page

    def erase(self, key: bytes = KEY, topic: str = TOPIC, **content: Any) -> str:
        fields = {"reason": "ticket 4711", "requested_by": "clerk", "key": base64(key), **content}
        (made,) = self.call("POST", f"topics/{topic}/erasures", **fields)["erasures"]
        return str(made["id"])

    def erase_all(self, keys: Sequence[bytes], **content: Any) -> list[str]:
        fields = {"reason": "ticket 4711", "requested_by": "clerk", **content}
        fields["keys"] = [base64(each) for each in keys]
        made = self.call("POST", f"topics/{TOPIC}/erasures", **fields)["erasures"]
        return [str(each["id"]) for each in made]

    def erasure(self, erasure_id: str) -> Erasure:
        found = self.broker.erasing.journal.book.get(erasure_id)
        assert found is not None
        return found

    # -- time -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Until nothing happens any more without time passing."""
        for _ in range(200):
            before = (len(self.trace), len(self.scans_done), self.journal_end)
            self.clock.advance(ms=1)
            self.tick()
            after = (len(self.trace), len(self.scans_done), self.journal_end)
            if before == after and self.broker.next_deadline_ms > self.clock.monotonic_ms():
                return
        raise AssertionError("the broker does not come to rest")

    def run(self, erasure_id: str, *, until: Stage | None = None, days: int = 400) -> Erasure:
        """Moves the clock from one due moment to the next, as `erase --wait` does."""
        end_ms = self.clock.now_ms() + days * DAY_MS
        while True:
            self.settle()
            erasure = self.erasure(erasure_id)
            if erasure.is_over or erasure.stage is until:
                return erasure
            outlook = self.broker.erasing.outlooks.get(erasure_id)
            until_ms = outlook.until_ms if outlook else None
            if until_ms is None or until_ms > end_ms:
                return erasure
            self.clock.advance(ms=max(until_ms - self.clock.now_ms(), 1))
            self.broker.clock_moved()

    @property
    def journal_end(self) -> int:
        partition = self.broker.partitions.find(TopicPartition("__erasures", 0))
        return 0 if partition is None else partition.log.log_end_offset

    # -- the topic ------------------------------------------------------------------------------

    def put(
        self,
        partition: int,
        *pairs: tuple[bytes, bytes | None],
        topic: str = TOPIC,
        codec: Codec = Codec.NONE,
        **how: Any,
    ) -> int:
        """One batch, as a producer with a partitioner of its own writes it; its first offset."""
        hosted = self.broker.partitions.get(TopicPartition(topic, partition))
        now_ms = self.clock.now_ms()
        records = [(now_ms, key, value, ()) for key, value in pairs]
        result = hosted.append(build_batch(records, codec=codec, **how), acks=-1)
        if result.tombstone_count:
            self.broker.cleaning.appended(hosted.log, result.tombstone_count)
        return result.first_offset

    def end(self, partition: int, topic: str = TOPIC) -> int:
        return self.broker.partitions.get(TopicPartition(topic, partition)).log.log_end_offset

    def files_with(self, data: bytes) -> list[str]:
        return [path for path, content in self.fs.files().items() if data in content]

    def passes(self, topic: str = TOPIC) -> dict[int, int]:
        """How many passes each partition has had."""
        return {
            each.topic_partition.partition: len(self.broker.cleaning.files.runs(each.log))
            for each in self.broker.partitions
            if each.topic_partition.topic == topic
        }


def machine_with(
    partitions: int = 3, settings: dict[str, str] | None = None, **configs: str
) -> ErasingMachine:
    machine = ErasingMachine(settings=settings)
    create_topic(machine.connect(), TOPIC, partitions, **{"cleanup_policy": "compact", **configs})
    return machine


def alter_topic(machine: ErasingMachine, name: str, value: str) -> None:
    change = IncrementalAlterConfigsConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = machine.connect().ask(request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]


def base64(key: bytes) -> str:
    return b64encode(key).decode()
