"""A pipeline's definition as values. Pure; `definition_reading` makes them from YAML or a mapping.

Every key of a definition, with its default, is in docs/pipeline.md.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.pipeline.column_types import AnyType, ColumnType
from ledgerstone.spark.read_options import OnMissedTombstones


class Format(Enum):
    """How the bytes of a key or a value are read."""

    STRING = "string"
    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class OnBadRecord(Enum):
    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


class Deletes(Enum):
    """What a tombstone does to a row."""

    HARD = "hard"  # the row goes
    SOFT = "soft"  # it stays and says when it was deleted
    HISTORY = "history"  # every version stays, with the time it was valid (SCD 2)


class TargetType(Enum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    DUCKDB = "duckdb"
    SQL = "sql"
    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"

    @property
    def has_connection(self) -> bool:
        """A connection string, which may hold a password, says where it is; else a path."""
        return self in (TargetType.POSTGRES, TargetType.SQL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; `path` leads to it through nested objects."""

    name: str
    type: AnyType
    path: tuple[str, ...]
    is_stored: bool = True  # else it is only for expressions


TOPIC_COLUMN: Final = Column(name="_topic", type=ColumnType.STRING, path=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedColumn:
    """Its expression is over the decoded columns of a record."""

    column: Column
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCodec:
    """How keys, or values, become columns. `string` and `raw` have exactly one."""

    format: Format
    columns: tuple[Column, ...]
    schema: str | None = None  # Avro: the text of the schema
    registry: str | None = None  # Avro, Protobuf: where the schema of each record is asked for
    descriptors: bytes | None = None  # Protobuf: a set of them, as protoc writes it
    message: str | None = None  # Protobuf: the full name of one of its messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    bootstrap: str
    topic: str
    group: str
    max_offsets_per_batch: int
    max_bytes_per_batch: int
    on_missed_tombstones: OnMissedTombstones
    isolation: str
    fail_on_data_loss: bool
    command_config: str | None = None  # a file with the client's properties by Kafka's names
    # All of them, where a list was given. `topic` is then one of them in `Pipeline.each_topic`, and
    # before that their names with commas, which no topic has: a mistake is noticed.
    topics: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.topics or (self.topic,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    type: TargetType
    location: str  # a file, a directory, a URI; a connection string or URL of a database
    name: str  # of the table, where the location holds several
    deletes: Deletes
    keep_bytes: bool  # also keep key and value as they were, in _key and _value
    buckets: int  # Delta, Iceberg and Parquet: at most so many files; small tables have fewer
    retention_ms: int  # Delta and Iceberg: how long files of past versions are kept
    catalog: Mapping[str, str]  # Iceberg: properties by pyiceberg's names; may hold a password


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    name: str
    source: Source
    key: ColumnCodec
    value: ColumnCodec
    on_bad_record: OnBadRecord
    dead_letter_topic: str | None
    exactly_once: bool  # dead letters are sent in transactions
    target: Target
    work: str  # a directory for checkpoints, the status and a lock
    master: str  # of Spark
    spark: Mapping[str, str]  # Spark's own settings, such as spark.driver.memory
    every_ms: int  # how often a run that goes on looks for news
    computed: tuple[ComputedColumn, ...] = ()
    where: str | None = None  # a record that does not pass deletes its key's row

    @property
    def each_topic(self) -> "tuple[Pipeline, ...]":
        """The same pipeline for each of its topics. Their rows never meet: the topic is part of the
        key, so whatever is done to one topic's rows can be done topic by topic."""
        return tuple(
            replace(self, source=replace(self.source, topic=each)) for each in self.source.names
        )

    @property
    def stored_values(self) -> tuple[Column, ...]:
        """The columns of the table that come from values."""
        decoded = tuple(each for each in self.value.columns if each.is_stored)
        return decoded + tuple(each.column for each in self.computed)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.key_columns + self.stored_values

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """Those that tell rows apart: with a list of topics, the topic too."""
        return ((TOPIC_COLUMN,) if self.source.topics else ()) + self.key.columns

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.key_columns)
