"""The target that a definition names. Shell: drivers are imported for the one that is used."""

from contextlib import closing
from importlib import import_module
from pathlib import Path

from ledgerstone.pipeline.definition import Pipeline, TargetType
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables.target import Executors, InProcess, Positions, TableTarget

# The package that a target needs, and the extra that brings it.
_DRIVERS = {
    TargetType.POSTGRES: ("psycopg", "lake"),
    TargetType.DELTA: ("deltalake", "lake"),
    TargetType.DUCKDB: ("duckdb", "duckdb"),
    TargetType.SQL: ("sqlalchemy", "sql"),
    TargetType.ICEBERG: ("pyiceberg", "iceberg"),
}


def check_drivers(pipeline: Pipeline) -> None:
    """Raises PipelineError if what the table needs is not installed."""
    if pipeline.target.type not in _DRIVERS:
        return
    driver, extra = _DRIVERS[pipeline.target.type]
    try:
        import_module(driver)
    except ImportError as error:
        raise PipelineError(
            f"{driver} is not installed: in the checkout, pip install '.[{extra}]'"
        ) from error


def positions_of(pipeline: Pipeline) -> Positions:
    """The table's positions in one topic; does not create a table."""
    target = pipeline.target
    if target.type is TargetType.SQLITE and not Path(target.location).exists():
        return {}
    with closing(open_target(pipeline)) as opened:
        return opened.positions()


def executors_of(spark: object | None) -> Executors:
    """Those of a Spark session; without one, this process."""
    if spark is None:
        return InProcess()
    from ledgerstone.pipeline.executors import SparkExecutors

    return SparkExecutors(spark)


def open_target(
    pipeline: Pipeline, *, spark: object = None, executors: Executors | None = None
) -> TableTarget:
    """With a Spark session, its executors do the work on rows, or those that are given."""
    check_drivers(pipeline)
    assert "," not in pipeline.source.topic, "a table is opened for one topic, see each_topic"
    target, layout, topic = pipeline.target, layout_of(pipeline), pipeline.source.topic
    executors = executors or executors_of(spark)
    match target.type:
        case TargetType.SQLITE:
            from ledgerstone.pipeline.tables.sqlite import SqliteTable

            return SqliteTable(
                target.location,
                target.name,
                topic,
                layout,
                work=pipeline.work,
                executors=executors,
            )
        case TargetType.DUCKDB:
            from ledgerstone.pipeline.tables.duckdb import DuckdbTable

            return DuckdbTable(target.location, target.name, topic, layout, work=pipeline.work)
        case TargetType.SQL:
            from ledgerstone.pipeline.tables.sql_table import SqlTable

            return SqlTable(target.location, target.name, topic, layout)
        case TargetType.PARQUET:
            from ledgerstone.pipeline.tables.parquet import ParquetTable

            return ParquetTable(
                target.location, topic, layout, buckets=target.buckets, executors=executors
            )
        case TargetType.POSTGRES:
            from ledgerstone.pipeline.tables.postgres import PostgresTable

            return PostgresTable(target.location, target.name, topic, layout)
        case TargetType.DELTA:
            from ledgerstone.pipeline.tables.delta import DeltaTarget

            return DeltaTarget(
                target.location,
                pipeline.name,
                topic,
                layout,
                buckets=target.buckets,
                retention_ms=target.retention_ms,
                executors=executors,
            )
        case TargetType.ICEBERG:
            from ledgerstone.pipeline.tables.iceberg import IcebergTable

            return IcebergTable(
                target.location,
                target.name,
                topic,
                layout,
                catalog=target.catalog,
                buckets=target.buckets,
                retention_ms=target.retention_ms,
                executors=executors,
            )
