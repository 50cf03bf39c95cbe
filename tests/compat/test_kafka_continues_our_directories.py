"""A real Apache Kafka broker runs on a log directory we wrote, and we continue where it stopped.

    ours, closed   -> Kafka starts cleanly, serves every record, appends, stops
    Kafka's, clean -> we load it without a scan, see everything, append, close
    ours, "died"   -> Kafka recovers: checks every batch, rebuilds every index, serves, cleans

What each side must find is the model of what was written so far. Needs Java, and Maven for the
first run: `make kafka-reads`.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.system import SystemClock
from tests.compat.journey import (
    COMPACTED,
    FirstSession,
    OurTurn,
    SecondSession,
    first_session,
    our_turn,
    second_session,
    seen,
)
from tests.kit.expected_dump import LogModel
from tests.kit.kafka_sessions import (
    TOPICS,
    Produced,
    create_kinds,
    forget_clean_stop,
    replace_log_dir,
)
from tests.kit.stories import HEADERS, HOUR_MS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="a Kafka broker needs Java"),
]
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
NONE_FOUND = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    models: Mapping[str, LogModel]
    first: FirstSession
    ours: OurTurn
    second: SecondSession


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    broker = KafkaBroker(jars=fetch_jars(), work=tmp_path_factory.mktemp("kafka") / "broker")
    # Recent: Kafka forgets producers that were silent for a day.
    now_ms = SystemClock().now_ms() - 6 * HOUR_MS
    try:
        create_kinds(broker)
        models = replace_log_dir(broker, now_ms=now_ms)
        first = first_session(broker, models)
        ours = our_turn(broker.data, first.epochs)
        forget_clean_stop(broker.data)
        second = second_session(broker, models)
        yield Journey(models=models, first=first, ours=ours, second=second)
    finally:
        if broker.process is not None:
            broker.kill()


# -- Kafka on our files ---------------------------------------------------------------------------


def test_kafka_starts_without_a_warning_or_a_scan(journey: Journey) -> None:
    assert {topic: lines for topic, lines in journey.first.warnings.items() if lines} == {}
    assert {topic: lines for topic, lines in journey.first.recoveries.items() if lines} == {}


@pytest.mark.parametrize("topic", TOPICS)
def test_consumers_of_kafka_get_what_was_written_to_our_log(journey: Journey, topic: str) -> None:
    model, found = journey.models[topic], journey.first.found[topic]

    assert found.log_start_offset == model.start_offset
    assert found.log_end_offset == model.end_offset
    assert found.last_stable_offset == model.last_stable_offset
    assert [seen(record) for record in found.uncommitted] == [seen(r) for r in model.records]
    assert [seen(record) for record in found.committed] == [seen(r) for r in model.committed]


def test_kafka_finds_records_by_time_in_our_indexes(journey: Journey) -> None:
    assert len(journey.first.by_time) > 200
    for topic, asked, found in journey.first.by_time:
        model = journey.models[topic]
        # Kafka looks into one segment: the first that knows such a timestamp, although it may be
        # that of a batch which cleaning has emptied.
        segment = next((each for each in model.segments if each.newest[0] >= asked), None)
        stamps = [
            (record.offset, record.timestamp)
            for batch in (segment.batches if segment else ())
            for record in batch.records
            if record.offset >= model.start_offset and record.timestamp >= asked
        ]
        assert found == next(iter(stamps), NONE_FOUND), (topic, asked)


def test_kafka_knows_our_producers_and_answers_a_repeated_batch_with_its_offset(
    journey: Journey,
) -> None:
    repeated = journey.first.repeated

    assert len(repeated) > 20
    for (topic, producer_id), answer in repeated.items():
        assert answer == last_batch_of(journey.models[topic], producer_id), (topic, producer_id)


def test_kafka_takes_only_the_next_sequence_number_of_our_producers(journey: Journey) -> None:
    skipped = [answer.error_code for answer in journey.first.skipped.values()]
    continued = [answer.error_code for answer in journey.first.continued.values()]

    assert skipped == [OUT_OF_ORDER_SEQUENCE_NUMBER] * 3
    assert continued == [ErrorCode.NONE] * 3


@pytest.mark.parametrize("topic", TOPICS)
def test_what_kafka_appends_follows_what_we_wrote(journey: Journey, topic: str) -> None:
    before, after = journey.first.found[topic], journey.first.found_at_end[topic]

    count = len(before.uncommitted)
    assert after.uncommitted[:count] == before.uncommitted
    appended = after.uncommitted[count:]
    assert [record.offset for record in appended] == list(
        range(before.log_end_offset, after.log_end_offset)
    )
    assert [(record.key, record.value) for record in appended[-3:]] == [
        (b"kafka", b"went on"),
        (b"", None),
        (bytes(range(256)), b""),
    ]
    assert appended[-3].headers == tuple((name.encode(), value) for name, value in HEADERS)


@pytest.mark.parametrize("topic", TOPICS)
def test_kafka_leaves_our_sealed_segments_alone(journey: Journey, topic: str) -> None:
    files = journey.first.files[topic]

    for segment in journey.models[topic].segments[:-1]:
        for expected in segment.files():
            assert files[expected.name] == expected


# -- we on Kafka's files --------------------------------------------------------------------------


@pytest.mark.parametrize("topic", TOPICS)
def test_we_go_on_where_kafka_stopped(journey: Journey, topic: str) -> None:
    model, ours, kafkas = journey.models[topic], journey.ours, journey.first.found_at_end[topic]

    assert ours.scanned[topic] == 0
    assert ours.records[topic] == [seen(record) for record in kafkas.uncommitted]
    assert ours.offsets[topic] == (
        kafkas.log_start_offset,
        kafkas.last_stable_offset,
        kafkas.log_end_offset,
    )
    epoch = journey.first.epochs[topic]
    led = [entry[0] for entry in model.epochs]
    begun = [] if epoch in led else [(epoch, model.end_offset)]
    assert ours.epochs[topic] == [*model.epochs, *begun]


@pytest.mark.parametrize("topic", TOPICS)
def test_producers_come_back_from_kafkas_snapshot_as_we_wrote_them(
    journey: Journey, topic: str
) -> None:
    model, files = journey.models[topic], journey.first.files[topic]
    continued = [producer_id for name, producer_id in journey.first.continued if name == topic]
    written = [p for p in model.snapshots[model.end_offset] if p.producer_id not in continued]

    snapshot = files[max(name for name in files if name.endswith(".snapshot"))]

    kafkas = sorted(snapshot.producers, key=lambda producer: producer.producer_id)
    assert [producer for producer in kafkas if producer.producer_id not in continued] == written
    assert journey.ours.producers[topic] == kafkas


# -- Kafka on ours again, after an unclean stop ---------------------------------------------------


def test_kafka_recovers_every_log_without_a_warning(journey: Journey) -> None:
    recoveries = journey.second.recoveries

    assert [topic for topic, lines in recoveries.items() if not lines] == []
    assert {topic: lines for topic, lines in journey.second.warnings.items() if lines} == {}


@pytest.mark.parametrize("topic", TOPICS)
def test_indexes_that_kafka_rebuilds_are_those_of_the_model(journey: Journey, topic: str) -> None:
    scan = journey.models[topic].rescanned()
    rebuilt = journey.second.rebuilt[topic]

    for segment in scan.segments[:-1]:
        for expected in segment.files():
            assert rebuilt[expected.name] == expected


@pytest.mark.parametrize("topic", TOPICS)
def test_after_recovery_consumers_get_everything(journey: Journey, topic: str) -> None:
    before, after = journey.first.found_at_end[topic], journey.second.found[topic]

    count = len(before.uncommitted)
    assert after.log_start_offset == before.log_start_offset
    assert after.last_stable_offset >= before.last_stable_offset
    assert after.uncommitted[:count] == before.uncommitted
    assert [(r.offset, r.key) for r in after.uncommitted[count:]] == [
        (before.log_end_offset + number, b"ours again-%d" % number) for number in range(3)
    ]


def test_recovery_learns_of_a_silent_producer_from_its_empty_batch(journey: Journey) -> None:
    repeated = journey.second.repeated

    assert len(repeated) == len(COMPACTED)
    for (topic, producer_id), answer in repeated.items():
        assert answer == last_batch_of(journey.models[topic], producer_id), (topic, producer_id)


@pytest.mark.parametrize("topic", COMPACTED)
def test_kafkas_cleaner_goes_on_with_our_segments(journey: Journey, topic: str) -> None:
    """It removes what was superseded before the active segment, and nothing else."""
    active = journey.models[topic].active.base_offset
    found, cleaned = journey.second.found[topic], journey.second.cleaned[topic]

    latest = {record.key: record.offset for record in found.uncommitted if record.offset < active}
    kept = [r for r in found.uncommitted if r.offset >= active or latest[r.key] == r.offset]
    assert cleaned.uncommitted == kept
    assert (len(kept) < len(found.uncommitted)) == topic.endswith("-0")


@pytest.mark.parametrize("topic", COMPACTED)
def test_kafkas_cleaner_respects_the_horizons_we_set(journey: Journey, topic: str) -> None:
    model = journey.models[topic]
    horizons = {batch.base_offset: batch.delete_horizon_ms for batch in model.batches}

    cleaned = {batch.base_offset: batch for batch in journey.second.batches[topic]}

    ours = {base for base, horizon_ms in horizons.items() if horizon_ms is not None}
    assert {base: cleaned[base].delete_horizon_ms for base in ours} == {
        base: horizons[base] for base in ours
    }
    assert len(ours) == {"0": 0, "1": 4, "2": 1}[topic[-1]]


def last_batch_of(model: LogModel, producer_id: int) -> Produced:
    """The answer of a broker that remembers the producer's last batch."""
    producer = model.producers[producer_id]
    assert producer.last_offset is not None
    assert producer.offset_delta is not None
    return Produced(0, producer.last_offset - producer.offset_delta)
