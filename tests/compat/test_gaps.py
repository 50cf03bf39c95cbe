"""Compacted topics as clients meet them: gaps at the start, inside a batch, and empty batches.

The topic is written batch by batch with our own client, so that each kind of gap is there for
certain; then every client reads it from the start and from every offset that is gone.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import Fetcher
from ledgerstone.client.producer import NewRecord, Placed, Producer, ProducerConfig
from ledgerstone.records.batch import Codec, iter_headers
from ledgerstone.storage.dump import dump_path
from ledgerstone.storage.dump_log import BatchFacts, DumpOptions
from ledgerstone.system import OsFilesystem
from ledgerstone.types import INT64_MAX, TopicPartition
from tests.compat.clients import CLIENTS, kcat
from tests.kit.broker import BrokerProcess
from tests.kit.cleaner_api import compact

CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)

Pairs = list[tuple[str, str | None]]


class Seen(NamedTuple):
    offset: int
    key: str
    value: str | None


class Gaps(NamedTuple):
    topic: str
    expected: list[Seen]
    gone: list[int]
    end_offset: int

    def from_offset(self, offset: int) -> list[Seen]:
        return [seen for seen in self.expected if seen.offset >= offset]


Read = Callable[[BrokerProcess, Gaps, int], list[Seen]]


# -- the topic ----------------------------------------------------------------------------------


def write_gaps(broker: BrokerProcess, client: Client, codec: Codec) -> Gaps:
    topic = f"gaps-{codec.name.lower()}"
    configs = {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}
    create_topic(client, NewTopic(name=topic, partitions=1, configs=configs))
    written: Pairs = []

    def put(producer: Producer, *pairs: tuple[str, str | None]) -> None:
        """One batch."""
        placed = producer.send(
            [NewRecord(topic, k.encode(), None if v is None else v.encode()) for k, v in pairs]
        )
        assert all(isinstance(each, Placed) for each in placed), placed
        written.extend(pairs)

    def new(*, idempotent: bool = False) -> Producer:
        return Producer(client, ProducerConfig(codec=codec, idempotent=idempotent))

    plain, first, second, third = new(), *(new(idempotent=True) for _ in range(3))
    long = "long " * 40
    put(plain, ("a", long), ("b", long), ("c", long))  # 0-2: the whole batch goes
    put(first, ("d", long), ("e", long), ("f", long))  # 3-5: e goes from its middle
    put(first, ("g", long), ("h", long))  # 6-7: stays as it is
    put(second, ("i", long), ("j", long))  # 8-9: emptied, but the last of its producer
    put(plain, ("a", "new"), ("b", None), ("c", "new"), ("e", "new"))  # 10-13: a tombstone
    put(third, ("i", "x"))  # 14: emptied too
    put(plain, ("i", "new"), ("j", None))  # 15-16
    run = compact(broker, topic)["run"]
    assert run["outcome"] == "cleaned", run
    put(plain, ("k", "last"))  # 17: in the active segment
    last = {key: offset for offset, (key, _) in enumerate(written)}
    expected = [Seen(offset, *written[offset]) for offset in sorted(last.values())]
    gone = sorted(set(range(len(written))) - {seen.offset for seen in expected})
    return Gaps(topic, expected, gone, len(written))


@pytest.fixture(scope="module")
def gapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("gaps")) as process:
        yield process
        process.stop()
        assert " ERROR " not in process.log_text, process.log_text


@pytest.fixture(scope="module", params=CODECS, ids=lambda codec: codec.name.lower())
def gaps(request: pytest.FixtureRequest, gapped: BrokerProcess) -> Gaps:
    with connect(gapped) as client:
        return write_gaps(gapped, client, request.param)


def connect(broker: BrokerProcess) -> Client:
    host, _, port = broker.bootstrap.rpartition(":")
    return Client([Endpoint(host, int(port))])


# -- readers ------------------------------------------------------------------------------------


def _text(data: object) -> str:
    assert isinstance(data, bytes | bytearray | memoryview)
    return bytes(data).decode()


def read_by_ourselves(broker: BrokerProcess, gaps: Gaps, offset: int) -> list[Seen]:
    partition = TopicPartition(gaps.topic, 0)
    with connect(broker) as client:
        client.topic(gaps.topic)
        return [
            Seen(
                record.offset,
                _text(record.key),
                None if record.value is None else _text(record.value),
            )
            for fetched in Fetcher(client).read_range(partition, offset, INT64_MAX)
            for record in records_of(fetched)
        ]


def read_by_kcat(broker: BrokerProcess, gaps: Gaps, offset: int) -> list[Seen]:
    arguments = ("-b", broker.bootstrap, "-C", "-t", gaps.topic, "-p", "0", "-o", str(offset))
    printed = kcat(*arguments, "-e", "-q", "-Z", "-f", "%o %k %s\n").decode()
    rows = [line.split(" ", 2) for line in printed.splitlines()]
    return [Seen(int(o), key, None if value == "NULL" else value) for o, key, value in rows]


def _reader_of(number: int) -> Read:
    def read(broker: BrokerProcess, gaps: Gaps, offset: int) -> list[Seen]:
        count = len(gaps.from_offset(offset))
        found = CLIENTS[number](broker.bootstrap).consume(gaps.topic, count, offset=offset)
        return [
            Seen(
                each.offset,
                _text(each.record.key),
                None if each.record.value is None else _text(each.record.value),
            )
            for each in found
        ]

    return read


READERS: Final[dict[str, Read]] = {
    "ledgerstone": read_by_ourselves,
    **{kind.name: _reader_of(number) for number, kind in enumerate(CLIENTS)},
}


# -- tests --------------------------------------------------------------------------------------


def test_topic_has_every_kind_of_gap(gapped: BrokerProcess, gaps: Gaps) -> None:
    directory = gapped.data / f"{gaps.topic}-0"
    log = sorted(directory.glob("*.log"))[0]

    batches = [
        fact
        for fact in dump_path(OsFilesystem(), str(log), DumpOptions())
        if isinstance(fact, BatchFacts)
    ]

    assert [(each.base_offset, each.last_offset, each.record_count) for each in batches] == [
        (3, 5, 2),
        (6, 7, 2),
        (8, 9, 0),
        (10, 13, 4),
        (14, 14, 0),
        (15, 16, 2),
    ]
    assert gaps.gone == [0, 1, 2, 4, 8, 9, 14]


@pytest.mark.parametrize("reader", READERS)
def test_reader_from_the_start_ends_at_the_right_state(
    gapped: BrokerProcess, gaps: Gaps, reader: str
) -> None:
    seen = READERS[reader](gapped, gaps, 0)

    assert seen == gaps.expected


@pytest.mark.parametrize("reader", READERS)
def test_reader_that_seeks_into_a_gap_goes_on_behind_it(
    gapped: BrokerProcess, gaps: Gaps, reader: str
) -> None:
    # In the gap at the start, inside a batch, in the first empty batch and in the second.
    for offset in (1, 4, 8, 14):
        seen = READERS[reader](gapped, gaps, offset)

        assert seen == gaps.from_offset(offset), offset


@pytest.mark.usefixtures("needs_kcat")
def test_kcat_reads_through_gaps_and_comes_to_an_end(gapped: BrokerProcess, gaps: Gaps) -> None:
    for offset in (0, 1, 4, 8, 14):
        seen = read_by_kcat(gapped, gaps, offset)

        assert seen == gaps.from_offset(offset), offset


def test_gap_that_a_fetch_begins_in_is_skipped_at_once(gapped: BrokerProcess, gaps: Gaps) -> None:
    """An empty batch is an answer: a consumer that fetches it does not wait and moves on."""
    partition = TopicPartition(gaps.topic, 0)

    with connect(gapped) as client:
        client.topic(gaps.topic)
        (fetched,) = Fetcher(client).fetch({partition: 9}, max_wait_ms=0)

    first = next(header for _, header in iter_headers(fetched.records))
    assert (first.base_offset, first.record_count) == (8, 0)
    assert fetched.next_offset > 9


def test_directory_of_the_topic_is_sound(gapped: BrokerProcess, gaps: Gaps) -> None:
    directory: Path = gapped.data / f"{gaps.topic}-0"

    facts = list(dump_path(OsFilesystem(), str(directory), DumpOptions(verify=True)))

    assert [fact for fact in facts if fact.type == "problem"] == []
