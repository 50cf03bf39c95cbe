"""Options of a read: the connector's defaults, and refusals that say what to do."""

import pickle

import pytest

from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.errors import ConfigError
from ledgerstone.spark.offsets import EARLIEST, LATEST
from ledgerstone.spark.read_options import (
    FoldMode,
    OnMissedTombstones,
    read_options,
)
from ledgerstone.spark.write_options import write_options
from ledgerstone.types import TopicPartition

_WRITE = {"kafka.bootstrap.servers": "a", "topic": "t"}
_MINIMUM = {"kafka.bootstrap.servers": "a:1, b", "subscribe": "x, y,x"}


def test_defaults_are_those_of_sparks_kafka_connector() -> None:
    batch = read_options(_MINIMUM, streaming=False)
    stream = read_options(_MINIMUM, streaming=True)

    assert (batch.starting.at, stream.starting.at) == (EARLIEST, LATEST)
    assert (batch.ending.at, stream.ending.at) == (LATEST, LATEST)
    assert stream.rows.fail_on_data_loss
    assert stream.admission.max_offsets is None
    assert stream.admission.max_delay_ms == 15 * 60_000
    assert not batch.include_headers
    assert batch.connection is not None
    assert batch.connection.bootstrap == (Endpoint("a", 1), Endpoint("b", 9092))
    assert batch.topics is not None
    assert batch.topics.subscribe == ("x", "y")


def test_what_differs_from_the_connector_is_the_safe_side() -> None:
    options = read_options(_MINIMUM, streaming=True)

    assert options.rows.isolation is IsolationLevel.READ_COMMITTED
    assert options.on_missed_tombstones is OnMissedTombstones.FAIL


def test_names_of_options_come_in_any_case() -> None:
    raw = {name.upper(): value for name, value in _MINIMUM.items()}

    options = read_options({**raw, "STARTINGOFFSETS": "Latest"}, streaming=True)

    assert options.starting.at == LATEST


@pytest.mark.parametrize(("streaming", "kept"), [(False, False), (True, True)])
def test_a_folded_batch_leaves_deleted_keys_out_and_a_folded_stream_tells_them(
    streaming: bool, kept: bool
) -> None:
    options = read_options({**_MINIMUM, "fold": "latest"}, streaming=streaming)

    assert options.rows.fold is FoldMode.LATEST
    assert options.rows.include_tombstones is kept


def test_a_position_may_be_named_partition_by_partition() -> None:
    raw = {**_MINIMUM, "startingOffsets": '{"x": {"0": 5, "1": -2}, "y": {"0": -1}}'}

    options = read_options(raw, streaming=True)

    assert options.starting.offsets == {
        TopicPartition("x", 0): 5,
        TopicPartition("x", 1): EARLIEST,
        TopicPartition("y", 0): LATEST,
    }


def test_executors_can_be_sent_the_options() -> None:
    options = read_options(_MINIMUM, streaming=True)

    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("raw", "streaming", "part"),
    [
        ({"subscribe": "x"}, False, "either this or path"),
        ({**_MINIMUM, "path": "d"}, False, "either this or path"),
        ({"path": "d"}, True, "a stream needs a broker"),
        ({"kafka.bootstrap.servers": "a"}, False, "one of assign, subscribe, subscribePattern"),
        ({**_MINIMUM, "subscribePattern": "x.*"}, False, "subscribe is given as well"),
        ({**_MINIMUM, "kafka.auto.offset.reset": "latest"}, False, "startingOffsets"),
        ({**_MINIMUM, "kafka.enable.auto.commit": "true"}, True, "Spark keeps the offsets"),
        ({**_MINIMUM, "startingOffsets": "latest"}, False, "latest is no place"),
        ({**_MINIMUM, "startingOffsets": '{"x": {"0": -1}}'}, False, "latest is no place"),
        ({**_MINIMUM, "endingOffsets": "earliest"}, False, "earliest is no place"),
        ({**_MINIMUM, "endingOffsets": "latest"}, True, "a stream has no end"),
        ({**_MINIMUM, "failOnDataLoss": "no"}, False, "true or false"),
        ({**_MINIMUM, "maxOffsetsPerTrigger": "0"}, True, "a whole number from 1 on"),
        ({**_MINIMUM, "maxTriggerDelay": "soon"}, True, "a duration like"),
        ({**_MINIMUM, "fold": "first"}, False, "one of none, latest"),
        ({**_MINIMUM, "fold": "latest", "minPartitions": "4"}, False, "one task"),
        ({**_MINIMUM, "kafka.isolation.level": "dirty"}, False, "one of read_committed"),
        ({**_MINIMUM, "kafka.security.protocol": "SASL_SSL"}, False, "must be one of PLAIN"),
        ({**_MINIMUM, "kafka.sasl.jaas.config": "x"}, True, "no effect with"),
        ({**_MINIMUM, "kafka.ssl.truststore.location": "x"}, True, "no effect with"),
        (
            {**_MINIMUM, "kafka.security.protocol": "SSL", "kafka.sasl.password": "x"},
            True,
            "no effect with",
        ),
        ({**_MINIMUM, "kafka.ssl.engine.factory.class": "x"}, True, "no property of TLS"),
        ({**_MINIMUM, "kafka.sasl.kerberos.kinit.cmd": "x"}, True, "logins have sasl.mechanism"),
        (
            {**_MINIMUM, "kafka.Isolation.Levle": "x"},
            False,
            r"did you mean [\w.]*kafka.isolation.level",
        ),
        (
            {**_MINIMUM, "kafka.fetch.min.byte": "1"},
            False,
            r"did you mean [\w.]*kafka.fetch.min.bytes",
        ),
        (
            {**_MINIMUM, "kafka.security.protokol": "SSL"},
            False,
            r"did you mean [\w.]*security.protocol",
        ),
        ({**_MINIMUM, "kafka.compression.type": "lz4"}, False, "an option of writes only"),
        ({**_MINIMUM, "kafka.zzz": "1"}, False, "there is no such option here$"),
        ({**_MINIMUM, "startingOffset": "earliest"}, True, r"did you mean [\w.]*startingOffsets"),
        ({**_MINIMUM, "isolation.level": "x"}, True, r"did you mean [\w.]*kafka.isolation.level"),
        (
            {"kafka.bootstrap.server": "a", "subscribe": "x"},
            True,
            r"did you mean [\w.]*bootstrap.servers",
        ),
        ({"kafka.bootstrap.servers": "a:b", "subscribe": "x"}, False, "HOST:PORT"),
        ({"kafka.bootstrap.servers": "a", "assign": "x"}, False, "JSON like"),
        ({"kafka.bootstrap.servers": "a", "assign": '{"x": ["y"]}'}, False, "JSON like"),
        ({"kafka.bootstrap.servers": "a", "subscribe": " , "}, False, "no topic is named"),
    ],
)
def test_what_cannot_be_meant_is_refused(raw: dict[str, str], streaming: bool, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        read_options(raw, streaming=streaming)


def test_a_secret_is_not_shown_when_its_option_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        read_options({**_MINIMUM, "kafka.sasl.jaas.config": "hunter2"}, streaming=False)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["kafka.transactional.id", "kafka.partitioner.class"])
def test_a_write_refuses_what_it_cannot_do(name: str) -> None:
    with pytest.raises(ConfigError, match="not an option here"):
        write_options({**_WRITE, name: "x"}, overwrite=False)


def test_options_that_tune_another_client_and_those_of_spark_pass() -> None:
    harmless = {
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.request.timeout.ms": "1",
        "checkpointLocation": "c",
        "queryName": "q",
        "something": "of SQL",
    }

    read_options({**_MINIMUM, **harmless, "kafka.max.poll.records": "1"}, streaming=True)
    write_options({**_WRITE, **harmless, "kafka.linger.ms": "1"}, overwrite=False)
