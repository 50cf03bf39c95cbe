"""A broker that has met everything that makes a metric appear, and the page it shows then. Shell.

Metrics of groups, holds, passes and erasures exist only once there is one. The tour starts a broker
of its own on a virtual clock, lets a group miss a delete, another hold one, an erasure wait, and
reads /metrics. `reference.py` writes the reference from it; tests hold dashboard and alerts to it.
"""

import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import Fetcher
from ledgerstone.client.offsets import CommittedOffset, commit_offsets
from ledgerstone.client.producer import NewRecord, Producer
from ledgerstone.client.quotas import alter_quotas
from ledgerstone.client.routing import AnyBroker
from ledgerstone.client.session import SessionConfig
from ledgerstone.errors import LedgerstoneError
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.quotas.entities import QuotaEntity
from ledgerstone.records.builder import build_batch
from ledgerstone.types import TopicPartition

TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02
_HOUR_MS: Final = 3_600_000
_FREE: Final = "customers"  # a group will miss a delete here
_HELD: Final = "accounts"  # the same group holds its deletes here
_GROUP: Final = "billing"
_WAITED: Final = "waited-for"  # clients wait for their quotas here


class TourFailed(Exception):
    """The broker did not start, or did not do what the tour is about."""


def metrics_page() -> str:
    """What /metrics shows at the end of the tour; some seconds."""
    with tempfile.TemporaryDirectory() as directory, _broker(Path(directory)) as facts:
        http = str(facts["http"])
        host, _, port = str(facts["bootstrap"]).rpartition(":")
        with Client([Endpoint(host, int(port))]) as client:
            _deletes(client, http)
            _refusal(client)
            _read_all(client)
            _waits(client, int(port))
        key = base64.b64encode(b"carol").decode()
        _post(http, f"topics/{_FREE}/erasures", key=key, reason="tour", within_ms=90 * _HOUR_MS)
        return _get(http, "/metrics")


def _waits(admin: Client, port: int) -> None:
    """Clients that use more than their quotas, each of another one."""
    alter_quotas(admin, QuotaEntity.of({"ip": None}), {"connection_creation_rate": 1e6})
    create_topic(admin, NewTopic(name=_WAITED, partitions=1, configs={}))
    here = Endpoint("127.0.0.1", port)
    for name, key, limit, requests in (
        ("much", "producer_byte_rate", 1.0, [_produced()]),
        ("deep", "consumer_byte_rate", 1.0, [_fetch()]),
        ("often", "request_percentage", 0.001, [MetadataRequest(topics=[])] * 2),
        ("many", "controller_mutation_rate", 5.0, [_topics(3), _topics(1)]),
    ):
        alter_quotas(admin, QuotaEntity.of({"client-id": name}), {key: limit})
        with Client([here], SessionConfig(client_id=name)) as client:
            for request in requests:
                client.call(request, ApiMessage, to=AnyBroker(), one_try=True)


def _produced() -> ProduceRequest:
    records = build_batch([(1_700_000_000_000, b"k", b"v", ())])
    data = ProducePartitionData(index=0, records=records)
    topic = ProduceTopicData(name=_WAITED, partition_data=[data])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def _fetch() -> FetchRequest:
    topic = FetchTopic(topic=_WAITED, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
    return FetchRequest(max_bytes=1 << 20, topics=[topic])


def _topics(count: int) -> CreateTopicsRequest:
    wanted = [CreateTopicsRequestTopic(f"waits-{count}-{n}", 20, 1) for n in range(count)]
    return CreateTopicsRequest(topics=wanted, timeout_ms=1000)


@contextmanager
def _broker(directory: Path) -> Iterator[dict[str, Any]]:
    ready_file = directory / "ready.json"
    command = [sys.executable, "-m", "ledgerstone", "up", "--data", str(directory / "data")]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--clock", "virtual"]
    command += ["--ready-file", str(ready_file), "-c", "offsets.topic.num.partitions=1"]
    command += ["-c", f"ledgerstone.audit.dir={directory / 'audit'}"]
    command += ["-c", "ledgerstone.audit.topic.enable=true"]
    with (directory / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await(
            lambda: ready_file.exists() or process.poll() is not None, "the broker is ready or ends"
        )
        if not ready_file.exists():
            raise TourFailed((directory / "broker.log").read_text(encoding="utf-8"))
        yield json.loads(ready_file.read_text(encoding="utf-8"))
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def _deletes(client: Client, http: str) -> None:
    """Two passes with the time between them, over one topic whose deletes are held and one whose
    are not; at the end there is a tombstone with a horizon ahead, and one no pass has seen."""
    configs = {"cleanup.policy": "compact", "delete.retention.ms": str(_HOUR_MS)}
    holds = {"ledgerstone.tombstone.hold.groups": _GROUP}
    create_topic(client, NewTopic(name=_FREE, partitions=1, configs=configs))
    create_topic(client, NewTopic(name=_HELD, partitions=1, configs={**configs, **holds}))
    for topic in (_FREE, _HELD):
        # An empty value is a near-tombstone.
        _produce(client, topic, ("alice", b"1"), ("alice", None), ("bob", b""), ("carol", b"1"))
    # Offset 1 is the tombstone, so the group has not read it.
    unread = {TopicPartition(topic, 0): CommittedOffset(1) for topic in (_FREE, _HELD)}
    commit_offsets(client, _GROUP, unread)
    for topic in (_FREE, _HELD):
        _compact(http, topic)
    _post(http, "clock/advance", ms=2 * _HOUR_MS)
    for topic in (_FREE, _HELD):
        _produce(client, topic, ("dave", b"1"), ("dave", None))
        _compact(http, topic)
        _produce(client, topic, ("eve", b"1"), ("eve", None))


def _refusal(client: Client) -> None:
    (outcome,) = Producer(client).send([NewRecord(topic=_FREE, key=None, value=b"no key")])
    if not isinstance(outcome, LedgerstoneError):
        raise TourFailed(f"a record without a key was taken at {outcome}")


def _read_all(client: Client) -> None:
    consumer = Consumer(Fetcher(client), {TopicPartition(_FREE, 0): 0})
    if not list(consumer.poll()):
        raise TourFailed(f"{_FREE} is empty")


def _produce(client: Client, topic: str, *pairs: tuple[str, bytes | None]) -> None:
    records = [NewRecord(topic=topic, key=key.encode(), value=value) for key, value in pairs]
    for outcome in Producer(client).send(records):
        if isinstance(outcome, LedgerstoneError):
            raise outcome


def _compact(http: str, topic: str) -> None:
    (ticket,) = _post(http, f"topics/{topic}/compact")["tickets"]
    path = f"/api/v1/tickets/{ticket['ticket']}"
    _await(lambda: bool(json.loads(_get(http, path))["done"]), f"the pass over {topic} has ended")


def _post(http: str, path: str, **content: object) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = Request(f"{http}/api/v1/{path}", data=json.dumps(content).encode(), headers=headers)
    with urlopen(request, timeout=TIMEOUT_S) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def _get(http: str, path: str) -> str:
    with urlopen(f"{http}{path}", timeout=TIMEOUT_S) as response:
        text: bytes = response.read()
    return text.decode()


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TourFailed(f"waited {TIMEOUT_S} s in vain until {what}")
        time.sleep(_POLL_S)


if __name__ == "__main__":
    print(metrics_page(), end="")
