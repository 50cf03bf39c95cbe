"""The options of a write, parsed, and the columns of its rows. Pure; picklable.

The columns are those of Spark's Kafka connector, and `timestamp`, which that cannot write.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.records.batch import Codec
from ledgerstone.spark import kafka_options
from ledgerstone.spark.decision import ANY_PARTITION
from ledgerstone.spark.options import Options
from ledgerstone.spark.read_options import Connection, connection_of
from ledgerstone.types import TopicPartition

_OWN: Final = ("topic", "includeHeaders", "deduplicate", "exactlyOnce", "txnAppId", "txnVersion")
# What brokers allow unless told otherwise. A micro-batch must end within it.
_DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 900_000
_DEFAULT_BATCH_BYTES: Final = 512 * 1024
_TEXT_OR_BYTES: Final = (StringType, BinaryType)
_KINDS: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": (StringType,),
    "partition": (IntegerType, LongType),
    "headers": (ArrayType,),
    "timestamp": (TimestampType,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    connection: Connection
    topic: str | None  # None: the column says it
    codec: Codec
    batch_bytes: int
    include_headers: bool
    deduplicate: bool
    exactly_once: bool
    transaction_timeout_ms: int
    part_of: "PartOf | None"  # for `df.write` in a foreachBatch

    @property
    def noted_at(self) -> TopicPartition:
        """The partition for which the groups of an exactly-once write keep their notes."""
        return ANY_PARTITION if self.topic is None else TopicPartition(self.topic, 0)


class PartOf(NamedTuple):
    """A micro-batch that writes with `df.write`, by the names that Delta has for it."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteColumns:
    """The index of each column in a row; None if the row does not have it."""

    value: int
    key: int | None
    topic: int | None
    partition: int | None
    headers: int | None
    timestamp: int | None


def write_options(raw: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    options = Options(raw)
    options.check(kafka=kafka_options.WRITE, own=_OWN)
    if overwrite:
        raise ConfigError("mode", "overwrite", "a log is only appended to; use mode append")
    connection = connection_of(options)
    if connection is None:
        raise ConfigError("kafka.bootstrap.servers", None, "needed to write")
    acks = options.text("kafka.acks") or "all"
    if acks not in ("all", "-1"):
        raise ConfigError("kafka.acks", acks, "all; what is written here is not to be lost")
    exactly_once = options.flag("exactlyOnce", default=False)
    return WriteOptions(
        connection=connection,
        topic=options.text("topic"),
        codec=_codec(options.text("kafka.compression.type") or "none"),
        batch_bytes=options.count("kafka.batch.size") or _DEFAULT_BATCH_BYTES,
        include_headers=options.flag("includeHeaders", default=True),
        deduplicate=options.flag("deduplicate", default=True),
        exactly_once=exactly_once,
        transaction_timeout_ms=options.count("kafka.transaction.timeout.ms")
        or _DEFAULT_TRANSACTION_TIMEOUT_MS,
        part_of=_part_of(options, exactly_once=exactly_once),
    )


def _part_of(options: Options, *, exactly_once: bool) -> PartOf | None:
    app_id, version = options.text("txnAppId"), options.text("txnVersion")
    if app_id is None and version is None:
        return None
    if not exactly_once:
        raise ConfigError("txnAppId", app_id, "only with exactlyOnce=true")
    if app_id is None or version is None or not version.isdigit():
        raise ConfigError("txnVersion", version, "a whole number, and txnAppId is needed with it")
    return PartOf(app_id, int(version))


def _codec(name: str) -> Codec:
    known = {codec.name.lower(): codec for codec in Codec}
    if name.lower() not in known:
        raise ConfigError("kafka.compression.type", name, f"one of {', '.join(known)}")
    return known[name.lower()]


def write_columns(schema: StructType, options: WriteOptions) -> WriteColumns:
    """Raises ConfigError for a column that is missing or unknown, or cannot be sent as it is."""
    places: dict[str, int] = {}
    for index, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in _KINDS:
            known = ", ".join(_KINDS)
            raise ConfigError("schema", field.name, f"not a column of a record: {known}")
        if not isinstance(field.dataType, _KINDS[name]):
            kind = field.dataType.simpleString()
            raise ConfigError("schema", f"{field.name} {kind}", "cannot be sent as that")
        places[name] = index
    if "value" not in places:
        raise ConfigError("schema", schema.simpleString(), "a column named value is needed")
    if options.topic is None and "topic" not in places:
        raise ConfigError("topic", None, "neither the option nor a column says where to write")
    return WriteColumns(
        value=places["value"],
        key=places.get("key"),
        topic=None if options.topic is not None else places["topic"],
        partition=places.get("partition"),
        headers=places.get("headers") if options.include_headers else None,
        timestamp=places.get("timestamp"),
    )
