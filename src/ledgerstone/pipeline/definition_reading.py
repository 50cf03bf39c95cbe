"""Turns a mapping, from YAML or Python, into a `Pipeline`. Pure; every error names its key."""

import re
from collections.abc import Mapping
from typing import Final

from ledgerstone.pipeline.column_types import ColumnType
from ledgerstone.pipeline.computing import Computing
from ledgerstone.pipeline.definition import (
    Deletes,
    OnBadRecord,
    Pipeline,
    Source,
    Target,
    TargetType,
)
from ledgerstone.pipeline.definition_columns import ReadFile, read_codec
from ledgerstone.pipeline.definition_section import Section
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.spark.read_options import OnMissedTombstones

# A task has a hash of each key of its partition.
DEFAULT_BATCH_OFFSETS: Final = 10_000_000
# No process holds a whole micro-batch; it is on disks on its way. While a table is loaded, each may
# rewrite all of it.
DEFAULT_BATCH_BYTES: Final = 1 << 30
DEFAULT_BUCKETS: Final = 1024
# As Delta's own deletedFileRetentionDuration.
DEFAULT_RETENTION_MS: Final = 7 * 86_400_000
# PostgreSQL truncates longer names, so two of them could become the same.
MAX_NAME_BYTES: Final = 63
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PLACES: Final = (".", "..")  # as a name: of this directory, and of the one above
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MAX_TOPICS: Final = 100
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NOT_IN_POSTGRES: Final = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
# Without column mapping, which few readers support, Delta refuses these in a name.
_NOT_IN_DELTA: Final = ' ,;{}()\n\t=`"'

_TOP: Final = (
    *(
        "name",
        "source",
        "key",
        "value",
        "where",
        "on_bad_record",
        "dead_letter_topic",
        "exactly_once",
    ),
    *("table", "work"),
    *("master", "spark", "every"),
)
_SOURCE: Final = (
    *(
        "topic",
        "topics",
        "bootstrap",
        "command_config",
        "group",
        "max_offsets_per_batch",
        "max_bytes_per_batch",
        "isolation",
    ),
    *("on_missed_tombstones", "fail_on_data_loss"),
)
_TABLE: Final = ("type", "name", "deletes", "keep_bytes", "buckets", "retention", "catalog")


def read_definition(content: object, *, read_file: ReadFile) -> Pipeline:
    """`read_file` returns the content of a file that the definition names."""
    top = Section(content, "", _TOP)
    name = top.text("name")
    if not _NAME.fullmatch(name) or name in _PLACES:
        raise top.refuse(
            "name", "up to 100 letters, digits, dots, dashes and underscores; not . or .."
        )
    on_bad_record = top.one_of("on_bad_record", OnBadRecord, OnBadRecord.FAIL)
    source = _source(top.section("source", _SOURCE), name)
    key, none = read_codec(top, "key", read_file)
    if none:
        raise DefinitionError(
            f"key.columns.{none[0].column.name}", None, "a key has no expressions: rows would meet"
        )
    for column in key.columns:
        if not column.is_stored:
            raise DefinitionError(
                f"key.columns.{column.name}.stored", False, "a column of the key is always stored"
            )
    value, computed = read_codec(top, "value", read_file)
    pipeline = Pipeline(
        name=name,
        source=source,
        key=key,
        value=value,
        computed=computed,
        where=top.optional_text("where"),
        on_bad_record=on_bad_record,
        dead_letter_topic=_dead_letter_topic(top, on_bad_record),
        exactly_once=_exactly_once(top, on_bad_record),
        target=_target(top, name),
        work=top.text("work", f".ledgerstone/{name}"),
        master=top.text("master", "local[*]"),
        spark=_spark(top),
        every_ms=_duration(top, "every", 1_000),
    )
    _check_columns(pipeline)
    # Its expressions are read and checked here, and again where they are evaluated.
    Computing(pipeline)
    return pipeline


def _source(section: Section, name: str) -> Source:
    topics = _topics(section)
    topic = ",".join(topics) or section.text("topic")
    if not topics and not _is_topic(topic):
        raise section.refuse("topic", "not a valid topic name")
    isolation = section.text("isolation", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise section.refuse("isolation", "expected read_committed or read_uncommitted")
    source = Source(
        bootstrap=section.text("bootstrap", "127.0.0.1:9092"),
        topic=topic,
        topics=topics,
        group=section.text("group", f"ledgerstone-pipeline-{name}"),
        max_offsets_per_batch=section.count("max_offsets_per_batch", DEFAULT_BATCH_OFFSETS),
        max_bytes_per_batch=section.count("max_bytes_per_batch", DEFAULT_BATCH_BYTES, minimum=1024),
        on_missed_tombstones=section.one_of(
            "on_missed_tombstones", OnMissedTombstones, OnMissedTombstones.FAIL
        ),
        isolation=isolation,
        fail_on_data_loss=section.flag("fail_on_data_loss", default=True),
        command_config=section.optional_text("command_config"),
    )
    return source


def _topics(section: Section) -> tuple[str, ...]:
    """Empty if one `topic` is given."""
    said = section.get("topics")
    if said is None:
        return ()
    if section.get("topic") is not None:
        raise section.refuse("topics", "give either topic or topics")
    if not isinstance(said, list) or not 0 < len(said) <= _MAX_TOPICS:
        raise section.refuse("topics", f"expected a list of 1 to {_MAX_TOPICS} topics")
    for each in said:
        if not isinstance(each, str) or not _is_topic(each):
            raise DefinitionError(section.key("topics"), each, "not a valid topic name")
        if said.count(each) > 1:
            raise DefinitionError(section.key("topics"), each, "is named twice")
    return tuple(said)


def _is_topic(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None and name not in _PLACES


def _spark(top: Section) -> dict[str, str]:
    """Spark's own names and values; Spark itself rejects bad values."""
    content = top.get("spark")
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise top.refuse("spark", "expected settings like spark.driver.memory: 2g")
    found = {}
    for name, value in content.items():
        key = f"spark.{name}"
        if not isinstance(name, str) or not name.startswith("spark."):
            raise DefinitionError("spark", name, "names of Spark's settings begin with spark.")
        if name == "spark.master":
            raise DefinitionError(key, value, "use the key master instead")
        if not isinstance(value, str | int | float):
            raise DefinitionError(key, value, "expected text, a number, true or false")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _dead_letter_topic(top: Section, policy: OnBadRecord) -> str | None:
    topic = top.optional_text("dead_letter_topic")
    if (topic is not None) != (policy is OnBadRecord.DEAD_LETTER):
        raise top.refuse("dead_letter_topic", "goes with on_bad_record: dead_letter only")
    if topic is not None and not _is_topic(topic):
        raise top.refuse("dead_letter_topic", "not a valid topic name")
    return topic


def _exactly_once(top: Section, policy: OnBadRecord) -> bool:
    exactly_once = top.flag("exactly_once", default=False)
    if exactly_once and policy is not OnBadRecord.DEAD_LETTER:
        raise top.refuse(
            "exactly_once", "is about dead letters; the table has every record once in any case"
        )
    return exactly_once


def _duration(section: Section, name: str, default: int) -> int:
    value = section.get(name)
    if value is None:
        return default
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise section.refuse(name, "expected a duration like 500ms, 10s, 5m or 7d")
    return int(found[1]) * _MS[found[2]]


# -- the table --------------------------------------------------------------------------------


def _target(top: Section, name: str) -> Target:
    kind = top.section("table", ("connection", "path", *_TABLE)).one_of("type", TargetType)
    where = "connection" if kind.has_connection else "path"
    section = top.section("table", (where, *_TABLE))
    target = Target(
        type=kind,
        location=section.text(where),
        name=section.text("name", name.replace("-", "_").replace(".", "_")),
        deletes=section.one_of("deletes", Deletes, Deletes.HARD),
        keep_bytes=section.flag("keep_bytes", default=False),
        buckets=section.count("buckets", DEFAULT_BUCKETS),
        retention_ms=_duration(section, "retention", DEFAULT_RETENTION_MS),
        catalog=_catalog(section, kind),
    )
    if target.buckets > 4096:
        raise section.refuse("buckets", "at most 4096")
    has_versions = kind in (TargetType.DELTA, TargetType.ICEBERG)
    if section.get("retention") is not None and not has_versions:
        raise section.refuse("retention", "is for delta and iceberg; others keep no past versions")
    if target.keep_bytes and target.deletes is Deletes.HISTORY:
        raise section.refuse("keep_bytes", "not allowed for a history, which keeps every version")
    _check_name(section.key("name"), target.name)
    is_sqlite = kind is TargetType.SQLITE or (
        kind is TargetType.SQL and target.location.startswith("sqlite")
    )
    if is_sqlite and target.name.lower().startswith("sqlite_"):
        # It may come from the name of the pipeline.
        raise DefinitionError(
            section.key("name"), target.name, "SQLite reserves names that begin with sqlite_"
        )
    return target


def _catalog(section: Section, kind: TargetType) -> dict[str, str]:
    content = section.get("catalog")
    if content is None:
        return {}
    if kind is not TargetType.ICEBERG:
        raise section.refuse("catalog", "is for iceberg")
    if not isinstance(content, Mapping) or not all(isinstance(each, str) for each in content):
        raise section.refuse("catalog", "expected properties of a catalog, by pyiceberg's names")
    return {name: str(value) for name, value in content.items()}


def _check_columns(pipeline: Pipeline) -> None:
    seen: dict[str, str] = {}
    if not pipeline.stored_values:
        raise DefinitionError("value.columns", None, "none is stored; a table needs one")
    computed = tuple(each.column for each in pipeline.computed)
    for column in pipeline.key.columns + pipeline.value.columns + computed:
        _check_name("columns", column.name)
        if column.name.startswith("_"):
            raise DefinitionError("columns", column.name, "names that begin with _ are reserved")
        # SQLite and Spark do not tell names apart by case.
        other = seen.setdefault(column.name.lower(), column.name)
        if other is not column.name:
            raise DefinitionError("columns", column.name, f"the name collides with {other!r}")
        if pipeline.target.type is TargetType.POSTGRES and column.name in _NOT_IN_POSTGRES:
            raise DefinitionError("columns", column.name, "PostgreSQL reserves this name")
        is_delta = pipeline.target.type is TargetType.DELTA
        if is_delta and any(character in column.name for character in _NOT_IN_DELTA):
            raise DefinitionError("columns", column.name, f"Delta allows none of {_NOT_IN_DELTA!r}")
    if pipeline.target.type is TargetType.DELTA:
        for column in pipeline.key.columns:
            if column.type is ColumnType.FLOAT64:
                raise DefinitionError("key.columns", column.name, "a float cannot be a key")


def _check_name(key: str, name: str) -> None:
    if not name or "\0" in name or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise DefinitionError(key, name, f"expected 1 to {MAX_NAME_BYTES} bytes, none of them zero")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise DefinitionError(key, name, "contains a lone surrogate") from error
