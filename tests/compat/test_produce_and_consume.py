"""What goes in comes out: every client, every codec, every shape of record, every way to ask."""

import pytest

from tests.compat.clients import CLIENTS, CODECS, Client, Confluent, Record, Seen, kcat
from tests.compat.conftest import CreateTopic
from tests.kit.broker import BrokerProcess

YEAR_2026_MS = 1_767_225_600_000

SHAPES = [
    Record(b"value", b"key", (), YEAR_2026_MS),
    Record(b"", b"", (), YEAR_2026_MS + 1),
    Record(None, b"tombstone", (), YEAR_2026_MS + 2),
    Record(b"keyless", None, (), YEAR_2026_MS + 3),
    Record(b"v", b"k", (("a", b"1"), ("a", b"2"), ("", b""), ("ü", b"\x00\xff")), YEAR_2026_MS + 5),
    Record(b"\x00" * 10_000, b"\xff" * 300, (), YEAR_2026_MS + 6),
]


def records_of(seen: list[Seen]) -> list[Record]:
    return [each.record for each in seen]


@pytest.mark.parametrize("codec", CODECS)
def test_every_shape_of_record_survives_every_codec(client: Client, topic: str, codec: str) -> None:
    if codec not in client.codecs:
        pytest.skip(f"{client.name} lacks a library for {codec}")

    offsets = client.produce(topic, SHAPES, codec=codec)
    seen = client.consume(topic, len(SHAPES))

    assert offsets == list(range(len(SHAPES)))
    assert [each.offset for each in seen] == offsets
    assert records_of(seen) == SHAPES


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda kind: f"from-{kind.name}")
@pytest.mark.parametrize("reader", CLIENTS, ids=lambda kind: f"to-{kind.name}")
def test_each_client_reads_what_another_wrote(
    broker: BrokerProcess, topic: str, writer: type[Client], reader: type[Client]
) -> None:
    writer(broker.bootstrap).produce(topic, SHAPES, codec="lz4")

    seen = reader(broker.bootstrap).consume(topic, len(SHAPES))

    assert records_of(seen) == SHAPES


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_whatever_acknowledgement_was_asked_for(
    client: Client, topic: str, acks: int
) -> None:
    sent = [Record(b"%d" % i, b"key", (), YEAR_2026_MS + i) for i in range(50)]

    offsets = client.produce(topic, sent, acks=acks)
    seen = client.consume(topic, len(sent))

    assert acks == 0 or offsets == list(range(50))
    assert records_of(seen) == sent


def test_record_with_neither_key_nor_value_is_kept(broker: BrokerProcess, topic: str) -> None:
    # The two clients written in Python refuse to send such a record; all of them read it.
    sent = Record(None, None, (("why", b"all in the header"),), YEAR_2026_MS)
    Confluent(broker.bootstrap).produce(topic, [sent])

    seen = [kind(broker.bootstrap).consume(topic, 1) for kind in CLIENTS]

    assert [records_of(each) for each in seen] == [[sent]] * 3


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_record_of_900_kilobytes_fits_the_default_limit(
    client: Client, topic: str, codec: str
) -> None:
    sent = Record(bytes(range(256)) * 3600, b"big", (), YEAR_2026_MS)

    client.produce(topic, [sent], codec=codec)
    [seen] = client.consume(topic, 1)

    assert seen.record == sent


def test_thousand_tiny_records_keep_their_order(client: Client, topic: str) -> None:
    sent = [Record(b"%d" % i, None, (), YEAR_2026_MS) for i in range(1000)]

    client.produce(topic, sent)
    seen = client.consume(topic, 1000)

    assert records_of(seen) == sent
    assert [each.offset for each in seen] == list(range(1000))


def test_reading_starts_in_the_middle_of_a_batch(client: Client, topic: str) -> None:
    client.produce(topic, [Record(b"%d" % i) for i in range(20)], codec="gzip")

    seen = client.consume(topic, 7, offset=13)

    assert [each.offset for each in seen] == list(range(13, 20))
    assert [each.record.value for each in seen] == [b"%d" % i for i in range(13, 20)]


def test_beginning_and_end_offsets_are_those_of_the_log(client: Client, topic: str) -> None:
    before = client.end_offsets(topic)
    client.produce(topic, [Record(b"x")] * 12)

    after = client.end_offsets(topic)

    assert before == (0, 0)
    assert after == (0, 12)


def test_offset_for_a_time_is_the_first_at_or_after_it(client: Client, topic: str) -> None:
    for second in range(5):
        at_ms = YEAR_2026_MS + second * 1000
        client.produce(topic, [Record(b"a", None, (), at_ms), Record(b"b", None, (), at_ms + 10)])

    found = {
        asked: client.offset_for_time(topic, YEAR_2026_MS + asked)
        for asked in (-1, 0, 1, 10, 11, 3000, 4010, 4011)
    }

    assert found == {-1: 0, 0: 0, 1: 1, 10: 1, 11: 2, 3000: 6, 4010: 9, 4011: None}


@pytest.mark.usefixtures("needs_kcat")
@pytest.mark.parametrize("codec", CODECS)
def test_kcat_writes_and_reads_every_codec(broker: BrokerProcess, topic: str, codec: str) -> None:
    server = ("-b", broker.bootstrap, "-t", topic)
    lines = b"".join(b"k%d:v%d\n" % (i, i) for i in range(100))

    kcat("-P", *server, "-K:", "-z", codec, "-H", "a=1", "-X", "acks=all", given=lines)
    read = kcat("-C", *server, "-e", "-q", "-f", "%o %k:%s %h\n")

    assert read == b"".join(b"%d k%d:v%d a=1\n" % (i, i, i) for i in range(100))


@pytest.mark.usefixtures("needs_kcat")
def test_kcat_writes_tombstones_and_reads_them_as_null(broker: BrokerProcess, topic: str) -> None:
    server = ("-b", broker.bootstrap, "-t", topic)

    kcat("-P", *server, "-K:", "-Z", given=b"gone:\n")
    read = kcat("-C", *server, "-e", "-q", "-f", "%K %S\n")

    assert read == b"4 -1\n"


@pytest.mark.usefixtures("needs_kcat")
def test_kcat_shows_the_last_offset_and_the_metadata_of_a_topic(
    broker: BrokerProcess, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=3)
    kcat("-P", "-b", broker.bootstrap, "-t", topic, "-p", "2", given=b"one\ntwo\n")

    offsets = kcat("-Q", "-b", broker.bootstrap, "-t", f"{topic}:2:-1").decode()
    listing = kcat("-L", "-b", broker.bootstrap, "-t", topic).decode()

    assert "offset 2" in offsets
    assert f'topic "{topic}" with 3 partitions' in listing
