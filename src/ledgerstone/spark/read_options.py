"""The options of a read, parsed. Pure; picklable, since executors get it.

The defaults are those of Spark's Kafka connector, except for two that README.md names: records of
aborted transactions are not read, and a query that may have missed deletes fails.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Final

from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity, client_security
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.spark import kafka_options
from ledgerstone.spark.offsets import EARLIEST, LATEST, Offsets, parse_offsets
from ledgerstone.spark.options import Options
from ledgerstone.spark.planning import Splits
from ledgerstone.types import TopicPartition

_DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60_000
_DEFAULT_TIMEOUT_MS: Final = 120_000
_DEFAULT_FETCH_BYTES: Final = 8 << 20
_OWN: Final = (
    *("assign", "subscribe", "subscribePattern"),
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"),
    "startingOffsetsByTimestampStrategy",
    *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"),
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "groupIdPrefix"),
    *("includeHeaders", "fold", "includeTombstones", "onMissedTombstones", "rows", "pushFilters"),
)


class FoldMode(Enum):
    NONE = "none"
    LATEST = "latest"


class OnMissedTombstones(Enum):
    FAIL = "fail"
    RECONCILE = "reconcile"
    IGNORE = "ignore"


class Rows(Enum):
    """What the rows of a read are."""

    RECORDS = "records"
    GAPS = "gaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Exactly one of the three is set."""

    assign: tuple[TopicPartition, ...] | None = None
    subscribe: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where to start or end; the first field that is set counts."""

    timestamp_ms: int | None = None  # the same for every partition
    timestamps: Offsets | None = None
    offsets: Offsets | None = None  # with EARLIEST and LATEST in place of numbers
    at: int = LATEST
    late_is_error: bool = False  # no record is as young as the timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How a cluster is reached and read."""

    bootstrap: tuple[Endpoint, ...]
    client_id: str = "ledgerstone-spark"
    timeout_ms: int = _DEFAULT_TIMEOUT_MS
    fetch_bytes: int = _DEFAULT_FETCH_BYTES
    security: ClientSecurity = PLAIN_TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """Which records become rows; what a task needs besides its range."""

    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    fold: FoldMode = FoldMode.NONE
    include_tombstones: bool = True
    fail_on_data_loss: bool = True
    rows: Rows = Rows.RECORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The limits of a micro-batch."""

    max_offsets: int | None
    max_bytes: int | None  # decompressed, about
    min_offsets: int | None
    max_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    connection: Connection | None  # None: directories are read, without a broker
    paths: tuple[str, ...]
    topics: Topics | None  # None: all there is in the directories
    starting: Position
    ending: Position
    rows: RowOptions
    splits: Splits
    admission: Admission
    include_headers: bool
    push_filters: bool
    on_missed_tombstones: OnMissedTombstones
    group_id: str | None


def read_options(raw: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    options = Options(raw)
    options.check(kafka=kafka_options.READ, own=_OWN)
    connection = connection_of(options)
    path = options.text("path")
    if (connection is None) == (path is None):
        given = "neither" if path is None else "both"
        raise ConfigError("kafka.bootstrap.servers", given, "either this or path is needed")
    if streaming and path is not None:
        raise ConfigError("path", path, "directories are read in batch; a stream needs a broker")
    topics = _topics(options)
    if topics is None and path is None:
        raise ConfigError("subscribe", None, "one of assign, subscribe, subscribePattern is needed")
    rows = _row_options(options, streaming=streaming)
    return ReadOptions(
        connection=connection,
        paths=() if path is None else tuple(filter(None, map(str.strip, path.split(",")))),
        topics=topics,
        starting=_starting(options, streaming=streaming),
        ending=_ending(options, streaming=streaming),
        rows=rows,
        splits=_splits(options, rows),
        admission=Admission(
            max_offsets=options.count("maxOffsetsPerTrigger"),
            max_bytes=options.count("maxBytesPerTrigger", minimum=1024),
            min_offsets=options.count("minOffsetsPerTrigger"),
            max_delay_ms=options.duration_ms("maxTriggerDelay", default=_DEFAULT_TRIGGER_DELAY_MS),
        ),
        include_headers=options.flag("includeHeaders", default=False),
        push_filters=options.flag("pushFilters", default=False),
        on_missed_tombstones=options.one_of(
            "onMissedTombstones", OnMissedTombstones, OnMissedTombstones.FAIL
        ),
        group_id=options.text("kafka.group.id") or options.text("groupIdPrefix"),
    )


def connection_of(options: Options) -> Connection | None:
    bootstrap = options.endpoints("kafka.bootstrap.servers")
    if not bootstrap:
        return None
    fetch_bytes = options.count("kafka.max.partition.fetch.bytes", minimum=1024)
    return Connection(
        bootstrap=bootstrap,
        client_id=options.text("kafka.client.id") or "ledgerstone-spark",
        timeout_ms=options.count("kafkaConsumer.pollTimeoutMs") or _DEFAULT_TIMEOUT_MS,
        # Kafka's default of 1 MiB makes eight requests out of one.
        fetch_bytes=_DEFAULT_FETCH_BYTES if fetch_bytes is None else fetch_bytes,
        security=_security(options.with_prefix(kafka_options.PREFIX)),
    )


def _security(properties: Mapping[str, str]) -> ClientSecurity:
    security = client_security(properties)
    uses = {"ssl.": security.protocol.uses_tls, "sasl.": security.protocol.uses_sasl}
    for name in properties:
        if any(name.startswith(start) and not is_used for start, is_used in uses.items()):
            reason = f"has no effect with kafka.security.protocol={security.protocol.name}"
            raise ConfigError(f"{kafka_options.PREFIX}{name}", "…", reason)
    return security


def _topics(options: Options) -> Topics | None:
    names = ("assign", "subscribe", "subscribePattern")
    given = [name for name in names if options.text(name) is not None]
    if len(given) > 1:
        raise ConfigError(given[1], options.text(given[1]), f"{given[0]} is given as well")
    if not given:
        return None
    text = options.text(given[0]) or ""
    if given[0] == "subscribePattern":
        return Topics(pattern=text)
    if given[0] == "assign":
        return Topics(assign=_assigned(text))
    topics = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not topics:
        raise ConfigError("subscribe", text, "no topic is named")
    return Topics(subscribe=topics)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        content = json.loads(text)
        found = {TopicPartition(str(t), int(n)) for t, ns in content.items() for n in ns}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError("assign", text, 'JSON like {"topic": [0, 1]}') from None
    if not found:
        raise ConfigError("assign", text, "no partition is named")
    return tuple(sorted(found))


def _row_options(options: Options, *, streaming: bool) -> RowOptions:
    fold = options.one_of("fold", FoldMode, FoldMode.NONE)
    # A state read once needs no deleted keys; a stream has to see each delete.
    tombstones = fold is FoldMode.NONE or streaming
    rows = options.one_of("rows", Rows, Rows.RECORDS)
    if rows is Rows.GAPS and (streaming or fold is not FoldMode.NONE):
        raise ConfigError("rows", rows.value, "gaps are explained in batch, without fold")
    return RowOptions(
        isolation=options.one_of(
            "kafka.isolation.level", IsolationLevel, IsolationLevel.READ_COMMITTED
        ),
        fold=fold,
        include_tombstones=options.flag("includeTombstones", default=tombstones),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        rows=rows,
    )


def _splits(options: Options, rows: RowOptions) -> Splits:
    splits = Splits(
        min_partitions=options.count("minPartitions"),
        max_records=options.count("maxRecordsPerPartition"),
    )
    if rows.fold is not FoldMode.NONE and splits != Splits():
        raise ConfigError(
            "fold", rows.fold.value, "a partition is folded by one task; do not ask for splits"
        )
    return splits


def _starting(options: Options, *, streaming: bool) -> Position:
    strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigError("startingOffsetsByTimestampStrategy", strategy, "error or latest")
    return _position(
        options,
        "starting",
        default=LATEST if streaming else EARLIEST,
        refused=None if streaming else LATEST,
        late_is_error=strategy == "error",
    )


def _ending(options: Options, *, streaming: bool) -> Position:
    names = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    given = next((name for name in names if options.text(name) is not None), None)
    if streaming and given is not None:
        raise ConfigError(given, options.text(given), "a stream has no end; use batch")
    return _position(options, "ending", default=LATEST, refused=EARLIEST, late_is_error=False)


def _position(
    options: Options, word: str, *, default: int, refused: int | None, late_is_error: bool
) -> Position:
    by_time = options.text(f"{word}OffsetsByTimestamp")
    text = options.text(f"{word}Offsets")
    words = {"earliest": EARLIEST, "latest": LATEST}
    name = f"{word}Offsets"
    at, offsets = default, None
    if text is not None and text.strip().lower() in words:
        at = words[text.strip().lower()]
    elif text is not None:
        offsets = parse_offsets(text, name, minimum=EARLIEST)
    if refused is not None and (at == refused or refused in (offsets or {}).values()):
        said = "latest" if refused == LATEST else "earliest"
        raise ConfigError(name, text, f"{said} is no place for this")
    return Position(
        timestamp_ms=options.count(f"{word}Timestamp", minimum=0),
        timestamps=None
        if by_time is None
        else parse_offsets(by_time, f"{word}OffsetsByTimestamp", minimum=0),
        offsets=offsets,
        at=at,
        late_is_error=late_is_error,
    )
