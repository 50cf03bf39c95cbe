"""A definition in words: what a run would read, make and delete. Pure."""

from collections.abc import Iterator

from ledgerstone.pipeline.definition import (
    ColumnCodec,
    Deletes,
    Format,
    OnBadRecord,
    Pipeline,
    TargetType,
)
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.spark.read_options import OnMissedTombstones

_DELETES = {
    Deletes.HARD: "A tombstone deletes its row.",
    Deletes.SOFT: "A tombstone marks its row in _deleted_at; the row and its content stay.",
    Deletes.HISTORY: "Every version stays; a tombstone ends the last one in _valid_to.",
}
_TARGETS = {
    TargetType.SQLITE: "Rows and positions are one transaction of the SQLite file.",
    TargetType.POSTGRES: "Tasks COPY; the MERGE and the positions are one PostgreSQL transaction.",
    TargetType.DUCKDB: "Tasks write Parquet files; a MERGE of them and the positions are one "
    "transaction of the DuckDB file.",
    TargetType.SQL: "Tasks insert into staging tables; what applies them and the positions are one "
    "transaction of the database.",
    TargetType.DELTA: "Each micro-batch is one Delta commit, with the positions in it. Deleted "
    "rows stay in older versions for table.retention.",
    TargetType.ICEBERG: "Each micro-batch is one Iceberg commit, with the positions in it. Deleted "
    "rows stay in older snapshots for table.retention.",
    TargetType.PARQUET: "Each micro-batch rewrites the files it touches and replaces the manifest; "
    "files of older versions are removed at once.",
}
_BAD = {
    OnBadRecord.FAIL: "A record that cannot be decoded stops the run.",
    OnBadRecord.SKIP: "A record that cannot be decoded is counted and skipped; the row of "
    "its key stays unchanged.",
    OnBadRecord.DEAD_LETTER: "A record that cannot be decoded goes to topic {topic}; the row of "
    "its key stays unchanged.",
}
_MISSED = {
    OnMissedTombstones.FAIL: "If deletes may have been missed, the run refuses to start.",
    OnMissedTombstones.RECONCILE: "If deletes may have been missed, the table is first "
    "compared with the topic's keys, and rows without a key there are deleted.",
    OnMissedTombstones.IGNORE: "Missed deletes are not checked for.",
}


def explain(pipeline: Pipeline) -> Iterator[str]:
    """Line by line. A connection string is never shown: it may hold a password."""
    source, target = pipeline.source, pipeline.target
    yield f"pipeline {pipeline.name}"
    topics = f"topics {', '.join(source.topics)}" if source.topics else f"topic {source.topic}"
    yield f"  reads    {topics} from {source.bootstrap}, {source.isolation}, as group "
    yield f"           {source.group}; up to {source.max_offsets_per_batch} offsets at a time"
    yield f"  keys     {_codec(pipeline.key)}"
    yield f"  values   {_codec(pipeline.value)}"
    for each in pipeline.computed:
        column = f"{each.column.name} {each.column.type.value}"
        yield f"  computes {column} as {_one_line(each.expression)}"
    if pipeline.where is not None:
        yield f"  where    {_one_line(pipeline.where)}"
    place = "" if target.type.has_connection else f" at {target.location}"
    yield f"  writes   {target.type.value} table {target.name}{place}"
    for name, kind in layout_of(pipeline).types.items():
        mark = " (key)" if name in pipeline.key_names else ""
        yield f"             {name} {kind.value}{mark}"
    yield f"  keeps    its lock and status in {pipeline.work}"
    yield ""
    yield _DELETES[target.deletes]
    if source.topics:
        yield (
            "The topic is part of the key, in _topic: a key that is in two topics has two rows, "
            "and a tombstone deletes only the row of its own topic. The topics take turns."
        )
    if pipeline.where is not None:
        yield (
            "A record for which the condition is false or null acts like a tombstone: a row that "
            "its key has from an earlier record goes, and its value is not stored."
        )
    if pipeline.where is not None or pipeline.computed:
        yield "A record whose expressions cannot be evaluated counts as one that cannot be decoded."
    yield _TARGETS[target.type]
    yield _BAD[pipeline.on_bad_record].format(topic=pipeline.dead_letter_topic)
    if pipeline.exactly_once:
        yield "Dead letters are written in transactions, each once; read them read_committed."
    yield _MISSED[source.on_missed_tombstones]
    if target.deletes is Deletes.HISTORY:
        yield "Records are read one by one; records that compaction removed have no version."
    else:
        yield "Records are folded to the latest of each key in the reader."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _codec(codec: ColumnCodec) -> str:
    columns = ", ".join(
        f"{each.name} {each.type.value}{'' if each.is_stored else ' (not stored)'}"
        for each in codec.columns
    )
    where = ""
    if codec.format in (Format.AVRO, Format.PROTOBUF):
        where = " by the schema file" if codec.registry is None else f" by {codec.registry}"
        where = where if codec.message is None else f" {codec.message}{where}"
    return f"{codec.format.value}{where} to {columns}"
