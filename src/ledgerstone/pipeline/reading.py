"""Reads the latest records of a topic as changes, through Spark: for a comparison. Shell.

The reader folds records; Spark's Python workers decode them.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema

from ledgerstone.pipeline.changes import RECORD_COLUMNS, ToChanges, changes_decoder
from ledgerstone.pipeline.connecting import security_options
from ledgerstone.pipeline.definition import Pipeline, Source
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.schema_registry import registered_schema

FORMAT: Final = "ledgerstone"
RECORD_SCHEMA: Final = "key binary, value binary, partition int, offset bigint, timestamp timestamp"
_CHANGE: Final = "change"


def common_options(source: Source) -> dict[str, str]:
    return {
        **security_options(source.command_config),
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": source.topic,
        "kafka.isolation.level": source.isolation,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }


def latest_changes(spark: SparkSession, pipeline: Pipeline, partitions: Sequence[int]) -> DataFrame:
    """The latest record of every key of some partitions, tombstones included."""
    options = {**common_options(pipeline.source), "fold": "latest", "includeTombstones": "true"}
    options["assign"] = json.dumps({options.pop("subscribe"): list(partitions)})
    found = spark.read.format(FORMAT).schema(RECORD_SCHEMA).options(**options).load()
    return as_changes(found, pipeline)


def as_changes(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """A struct of all columns in one Arrow function: unlike mapInArrow it does not need pandas."""
    schema = from_arrow_schema(layout_of(pipeline).change_schema)
    # Spark takes the kind of function from its hints, and its own types do not know that.
    decode = arrow_udf(ChangeDecoder(pipeline).decode, schema)  # type: ignore[call-overload]
    return records.select(decode(*RECORD_COLUMNS).alias(_CHANGE)).select(f"{_CHANGE}.*")


class ChangeDecoder:
    """Picklable; makes its decoder in the worker, once per task."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._to_changes: ToChanges | None = None

    def decode(
        self,
        key: pa.Array,
        value: pa.Array,
        partition: pa.Array,
        offset: pa.Array,
        timestamp: pa.Array,
    ) -> pa.Array:
        if self._to_changes is None:
            self._to_changes = changes_decoder(self._pipeline, registered_schema)
        arrays = [key, value, partition, offset, timestamp]
        records = pa.RecordBatch.from_arrays(arrays, names=list(RECORD_COLUMNS))
        return self._to_changes(records).to_struct_array()

    def __getstate__(self) -> Pipeline:
        return self._pipeline

    def __setstate__(self, pipeline: Pipeline) -> None:
        self.__init__(pipeline)  # type: ignore[misc]


def collected(changes: DataFrame, pipeline: Pipeline) -> pa.Table:
    found: Any = changes.toArrow()
    return found.cast(layout_of(pipeline).change_schema)
