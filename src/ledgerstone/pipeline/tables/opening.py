"""The target that a definition names. Shell: drivers are imported for the one that is used."""

from ledgerstone.pipeline.definition import Pipeline, TargetType
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables.target import TableTarget

_EXTRA = "is not installed: in the checkout, pip install '.[lake]'"


def open_target(pipeline: Pipeline, *, spark: object = None) -> TableTarget:
    """With a Spark session, work that can be spread is spread over its executors."""
    target, layout, topic = pipeline.target, layout_of(pipeline), pipeline.source.topic
    match target.type:
        case TargetType.SQLITE:
            from ledgerstone.pipeline.tables.sqlite import SqliteTable

            return SqliteTable(target.location, target.name, topic, layout)
        case TargetType.PARQUET:
            from ledgerstone.pipeline.tables.parquet import ParquetTable

            return ParquetTable(target.location, topic, layout, buckets=target.buckets)
        case TargetType.POSTGRES:
            try:
                from ledgerstone.pipeline.tables.postgres import PostgresTable
            except ImportError as error:
                raise PipelineError(f"psycopg {_EXTRA}") from error
            return PostgresTable(target.location, target.name, topic, layout)
        case TargetType.DELTA:
            try:
                from ledgerstone.pipeline.tables.delta import DeltaTarget
                from ledgerstone.pipeline.tables.delta_buckets import RunJobs, run_here
            except ImportError as error:
                raise PipelineError(f"deltalake {_EXTRA}") from error
            run_jobs: RunJobs = run_here
            if spark is not None:
                from ledgerstone.pipeline.executors import on_executors

                run_jobs = on_executors(spark)
            return DeltaTarget(
                target.location,
                pipeline.name,
                topic,
                layout,
                buckets=target.buckets,
                bulk_rows=target.bulk_rows,
                run_jobs=run_jobs,
            )
