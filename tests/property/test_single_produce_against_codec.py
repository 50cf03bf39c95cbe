"""The shortcut for a Produce request of one batch against its slow twin: codec, plain handler."""

import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.protocol.codec import decode, encode_request, encode_response
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
    ProduceTopicResponse,
)
from ledgerstone.protocol.single_produce import (
    FIRST_VERSION,
    FIRST_VERSION_WITH_TOPIC_IDS,
    LAST_VERSION,
    SingleProduce,
    read_single_produce,
    single_produce_answer,
)
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.records.batch import Codec
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Answer, Request
from ledgerstone.types import TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.logs import T0, batch
from tests.kit.roles import led_by
from tests.kit.sized import examples, sized
from tests.unit.server.asks import TOPIC, create_topic

COMPACTED = "compacted"
LOG_APPEND_TIME = "log-append-time"
FOLLOWED = "followed"
NO_TOPIC = bytes(range(16))
VERSIONS = range(3, LAST_VERSION + 1)

int16 = st.integers(-(1 << 15), (1 << 15) - 1)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
versions = st.sampled_from(VERSIONS)


def bodies(request: ProduceRequest, version: int) -> bytearray:
    body = bytearray()
    for piece in encode_request(request, version):
        assert isinstance(piece, bytes | bytearray | memoryview)
        body += piece
    return body


@st.composite
def requests(draw: st.DrawFn) -> ProduceRequest:
    """Most have the shape of the shortcut; of the others each lacks something."""
    topics = [
        ProduceTopicData(
            name=draw(st.text(max_size=8)),
            topic_id=draw(st.binary(min_size=16, max_size=16)),
            partition_data=[
                ProducePartitionData(
                    index=draw(int32), records=draw(st.none() | st.binary(max_size=300))
                )
                for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))
            ],
        )
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2])))
    ]
    return ProduceRequest(
        transactional_id=draw(st.sampled_from([None, None, None, "", "id"])),
        acks=draw(int16),
        timeout_ms=draw(int32),
        topic_data=topics,
    )


def as_codec_reads_it(version: int, body: memoryview) -> ProduceRequest | None:
    try:
        message, _ = decode(ProduceRequest, version, body)
    except ProtocolViolation:
        return None
    return message


def whole(single: SingleProduce) -> ProduceRequest:
    data = ProducePartitionData(index=single.index, records=single.records)
    topic = ProduceTopicData(name=single.topic, partition_data=[data])
    topic.topic_id = single.topic_id or topic.topic_id
    return ProduceRequest(acks=single.acks, timeout_ms=single.timeout_ms, topic_data=[topic])


def _topic(version: int, name: str, data: list[ProducePartitionData]) -> ProduceTopicData:
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return ProduceTopicData(name=name, partition_data=data)
    return ProduceTopicData(topic_id=name.encode().ljust(16, b"-"), partition_data=data)


@given(version=st.integers(FIRST_VERSION, LAST_VERSION), acks=int16, size=st.integers(1, 40_000))
@examples(100)
def test_request_of_one_batch_takes_the_shortcut(version: int, acks: int, size: int) -> None:
    data = ProducePartitionData(index=7, records=bytes(size))
    topics = [_topic(version, "topic", [data])]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
    body = b"header" + bodies(request, version)

    single = read_single_produce(version, memoryview(body), len(b"header"))

    assert single is not None
    assert whole(single) == request


@sized(few=100, many=1_000, request=requests(), version=versions, data=st.data())
def test_shortcut_reads_what_the_codec_reads_or_nothing(
    request: ProduceRequest, version: int, data: st.DataObject
) -> None:
    body = bodies(request, version)
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    del body[data.draw(st.integers(0, len(body)) | st.just(len(body))) :]
    view = memoryview(body)

    single = read_single_produce(version, view, 0)

    assert single is None or whole(single) == as_codec_reads_it(version, view)


@given(
    version=st.integers(FIRST_VERSION, LAST_VERSION),
    topic=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=249),
    topic_id=st.binary(min_size=16, max_size=16),
    index=int32,
    offsets=st.tuples(int64, int64, int64),
)
@examples(100)
def test_answer_has_the_bytes_the_codec_writes(
    version: int, topic: str, topic_id: bytes, index: int, offsets: tuple[int, int, int]
) -> None:
    answer = ProducePartitionResponse(index, 0, *offsets)
    topics = [ProduceTopicResponse(name=topic, topic_id=topic_id, partition_responses=[answer])]
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS

    found = single_produce_answer(version, topic_id if by_id else topic, index, *offsets)

    assert [found] == encode_response(ProduceResponse(responses=topics), version)


class Step(NamedTuple):
    topic: str
    partition: int
    acks: int
    version: int
    records: bytes


def kinds_of_records() -> dict[str, bytes]:
    good = batch(("key", "value"), ("key", None))
    torn = bytearray(good)
    torn[-1] ^= 1
    batches = {
        "good": good,
        "compressed": batch(("key", "value"), codec=Codec.ZSTD),
        "without key": batch((None, "value")),
        "like a tombstone": batch(("key", "")),
        "too early": batch(("key", "value"), timestamp=T0 + 10**9),
        "not from the start": batch(("key", "value"), base_offset=5),
        "first of a producer": batch(("k", "v"), producer_id=9, producer_epoch=0, base_sequence=0),
        "transactional": batch(
            ("k", "v"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
        ),
        "gap": batch(("k", "v"), producer_id=9, producer_epoch=0, base_sequence=77),
        "torn": torn,
        "two batches": good + good,
        "no batch": b"\1",
    }
    return {name: bytes(content) for name, content in batches.items()}


steps = st.builds(
    Step,
    topic=st.sampled_from(
        [TOPIC, COMPACTED, LOG_APPEND_TIME, FOLLOWED, "nowhere", "__consumer_offsets"]
    ),
    partition=st.sampled_from([0, 0, 0, 1, 2, -1]),
    acks=st.sampled_from([1, 1, -1, -1, 0, 2]),
    version=st.sampled_from([9, 10, 11, 12, 13]),
    records=st.sampled_from(list(kinds_of_records().values())),
)


class Twin:
    """A broker that is sent the same requests, with or without a byte behind each that the codec
    ignores and the shortcut does not know."""

    def __init__(self, trailing: bytes) -> None:
        self.trailing = trailing
        self.machine = InProcess()
        client = self.connect()
        create_topic(client, partitions=2)
        create_topic(client, COMPACTED, cleanup_policy="compact")
        create_topic(client, LOG_APPEND_TIME, message_timestamp_type="LogAppendTime")
        create_topic(client, FOLLOWED)
        partition = self.machine.broker.partitions.get(TopicPartition(FOLLOWED, 0))
        partition.assume(led_by(1, 1, (1, 2)))
        self.client = client

    def connect(self) -> Client:
        self.client = self.machine.connect()
        return self.client

    def take(self, step: Step) -> None:
        if self.client.closed is not None:
            self.connect()
        data = ProducePartitionData(index=step.partition, records=bytearray(step.records))
        topic = self.machine.broker.image.topics.get(step.topic)
        topic_id = NO_TOPIC if topic is None else topic.topic_id
        topics = [ProduceTopicData(name=step.topic, topic_id=topic_id, partition_data=[data])]
        message = ProduceRequest(acks=step.acks, timeout_ms=50, topic_data=topics)
        _, frame = self.client.frame(message, step.version, expects_answer=step.acks != 0)
        content = frame[4:] + self.trailing
        self.client.feed(struct.pack(">i", len(content)) + content)
        self.machine.advance(100)

    def log_files(self) -> list[bytes]:
        logs = [partition.log for partition in self.machine.broker.partitions]
        return [log.segments.active.file.pread(log.size_bytes, 0) for log in logs]


@given(st.lists(steps, min_size=1, max_size=8))
@examples(40)
def test_brokers_with_and_without_the_shortcut_do_and_say_the_same(course: list[Step]) -> None:
    fast, slow = Twin(b""), Twin(b"\0")

    for step in course:
        fast.take(step)
        slow.take(step)

    assert fast.machine.trace == slow.machine.trace
    assert fast.client.answers == slow.client.answers
    assert fast.log_files() == slow.log_files()
    assert fast.machine.broker.counters == slow.machine.broker.counters
    fast.machine.check_invariants()


@pytest.mark.parametrize("trailing", [b"", b"\0"])
def test_twins_differ_in_the_road_they_take(
    monkeypatch: pytest.MonkeyPatch, trailing: bytes
) -> None:
    roads: list[type[ApiMessage]] = []
    twin = Twin(trailing)
    honest = twin.machine.broker.dispatch

    def dispatch(broker: Broker, request: Request, message: ApiMessage) -> Answer:
        roads.append(type(message))
        return honest(broker, request, message)

    monkeypatch.setattr(twin.machine.broker, "dispatch", dispatch)

    twin.take(Step(TOPIC, 0, 1, 10, kinds_of_records()["good"]))

    assert roads == [ProduceRequest if trailing else SingleProduce]
